#include "explain/java.h"

#include <string.h>

#include "injector/proc/memory.h"

/* src/hotspot/share/runtime/vmStructs.hpp: VMStructEntry. */
struct entry {
	uint64_t type_name, field_name, type_string;
	uint64_t is_static; /* the lower half */
	uint64_t offset, address;
};
#define ENTRIES_LIMIT 16384u
#define NAME_ROOM 48u
#define RESERVED_LIMIT_BYTES ((uint64_t)1 << 46)

/* The fields that are wanted, and what the tables say of them. */
enum field { HEAP, RESERVED, START, WORDS, FIELDS };
static const struct {
	const char *type, *field;
	bool is_static;
} wanted[FIELDS] = {
	[HEAP] = {"Universe", "_collectedHeap", true},
	[RESERVED] = {"CollectedHeap", "_reserved", false},
	[START] = {"MemRegion", "_start", false},
	[WORDS] = {"MemRegion", "_word_size", false},
};

static bool read_word(pid_t pid, uint64_t address, uint64_t *ret_word)
{
	return limpet_memory_read(pid, address, ret_word, sizeof(*ret_word)) == 0;
}

static void take_entry(pid_t pid, const struct entry *entry, uint64_t values[FIELDS],
		       unsigned *found)
{
	char type[NAME_ROOM], field[NAME_ROOM];

	if (limpet_memory_read_string(pid, entry->type_name, type, sizeof(type)) < 0 ||
	    limpet_memory_read_string(pid, entry->field_name, field, sizeof(field)) < 0)
		return;
	for (unsigned i = 0; i < FIELDS; i++)
		if (!strcmp(type, wanted[i].type) && !strcmp(field, wanted[i].field) &&
		    wanted[i].is_static == (entry->is_static & 1)) {
			values[i] = wanted[i].is_static ? entry->address : entry->offset;
			*found |= 1u << i;
		}
}

/* Three system calls for each of some thousand entries take a few milliseconds. */
static bool read_fields(pid_t pid, uint64_t table, uint64_t values[FIELDS])
{
	unsigned found = 0;

	for (unsigned i = 0; i < ENTRIES_LIMIT && found != (1u << FIELDS) - 1; i++) {
		struct entry entry;

		if (limpet_memory_read(pid, table + i * sizeof(entry), &entry, sizeof(entry)) < 0 ||
		    !entry.type_name)
			break;
		take_entry(pid, &entry, values, &found);
	}
	return found == (1u << FIELDS) - 1;
}

void limpet_java_find(pid_t pid, struct limpet_module *module, struct limpet_java_ranges *ranges)
{
	uint64_t table = limpet_module_symbol(pid, module, "gHotSpotVMStructs", NULL);
	uint64_t values[FIELDS], heap, start, words;

	if (!table || !read_word(pid, table, &table) || !read_fields(pid, table, values) ||
	    !read_word(pid, values[HEAP], &heap) || !heap ||
	    !read_word(pid, heap + values[RESERVED] + values[START], &start) ||
	    !read_word(pid, heap + values[RESERVED] + values[WORDS], &words))
		return;
	if (!start || start % 4096 || !words || words > RESERVED_LIMIT_BYTES / 8 ||
	    start > UINT64_MAX - words * 8)
		return;
	ranges->heap_start = start;
	ranges->heap_end = start + words * 8;
}
