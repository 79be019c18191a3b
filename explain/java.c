#include "explain/java.h"

#include <string.h>
#include <unistd.h>

#include "injector/elf/elf_file.h"

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

/* The library: its memory, and its file for texts, which need not be in memory. */
struct library {
	const struct limpet_memory_reader *memory;
	const struct limpet_maps *maps;
	const struct limpet_module *module;
	int fd;
};

/* From the file, if this part of it is mapped as it is there. */
static bool read_text_of_file(const struct library *library, uint64_t address, char *ret,
			      size_t room)
{
	const struct limpet_map *map = limpet_proc_maps_find(library->maps, address);
	ssize_t got;

	if (!map || map->inode != library->module->inode || map->perms[1] == 'w')
		return false;
	got = pread(library->fd, ret, room - 1, (off_t)(map->offset + (address - map->start)));
	if (got <= 0)
		return false;
	ret[got] = '\0';
	return true;
}

static bool read_text(const struct library *library, uint64_t address, char *ret, size_t room)
{
	return read_text_of_file(library, address, ret, room) ||
	       limpet_memory_reader_read_text(library->memory, address, ret, room) == 0;
}

static void read_entry(const struct library *library, const struct entry *entry,
		       uint64_t values[FIELDS], unsigned *found)
{
	char type[NAME_ROOM], field[NAME_ROOM];

	if (!read_text(library, entry->type_name, type, sizeof(type)) ||
	    !read_text(library, entry->field_name, field, sizeof(field)))
		return;
	for (unsigned i = 0; i < FIELDS; i++)
		if (!strcmp(type, wanted[i].type) && !strcmp(field, wanted[i].field) &&
		    wanted[i].is_static == (entry->is_static & 1)) {
			values[i] = wanted[i].is_static ? entry->address : entry->offset;
			*found |= 1u << i;
		}
}

/* Three system calls for each of some thousand entries take a few milliseconds. */
static bool read_fields(const struct library *library, uint64_t table, uint64_t values[FIELDS])
{
	unsigned found = 0;

	for (unsigned i = 0; i < ENTRIES_LIMIT && found != (1u << FIELDS) - 1; i++) {
		struct entry entry;

		if (limpet_memory_reader_read(library->memory, table + i * sizeof(entry), &entry,
					      sizeof(entry)) < 0 ||
		    !entry.type_name)
			break;
		read_entry(library, &entry, values, &found);
	}
	return found == (1u << FIELDS) - 1;
}

static bool visit_object(void *context, const char *name, uint64_t value)
{
	if (strcmp(name, "gHotSpotVMStructs"))
		return true;
	*(uint64_t *)context = value;
	return false;
}

/* By the file, since symbols need not be in memory. 0: not found. */
static uint64_t find_table(int fd, const struct limpet_module *module)
{
	struct limpet_elf_file *file;
	uint64_t value = 0;

	if (fd < 0 || limpet_elf_file_open(fd, &file) < 0)
		return 0;
	(void)limpet_elf_file_objects(file, visit_object, &value);
	limpet_elf_file_free(file);
	return value ? module->bias + value : 0;
}

void limpet_java_find(const struct limpet_memory_reader *memory,
		      const struct limpet_modules *modules, const struct limpet_module *module,
		      struct limpet_java_ranges *ranges)
{
	LIMPET_CLOSE int fd = limpet_module_open(modules->target, module);
	const struct library library = {
		.memory = memory, .maps = &modules->maps, .module = module, .fd = fd};
	uint64_t table = find_table(fd, module);
	uint64_t values[FIELDS], heap, start, words;

	if (!table || !limpet_memory_reader_read_word(memory, table, &table) ||
	    !read_fields(&library, table, values) ||
	    !limpet_memory_reader_read_word(memory, values[HEAP], &heap) || !heap ||
	    !limpet_memory_reader_read_word(memory, heap + values[RESERVED] + values[START],
					    &start) ||
	    !limpet_memory_reader_read_word(memory, heap + values[RESERVED] + values[WORDS],
					    &words))
		return;
	if (!start || start % 4096 || !words || words > RESERVED_LIMIT_BYTES / 8 ||
	    start > UINT64_MAX - words * 8)
		return;
	ranges->heap_start = start;
	ranges->heap_end = start + words * 8;
}
