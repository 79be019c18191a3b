#include "injector/elf/allocator_texts.h"

#include <stdbool.h>
#include <string.h>

#include "common/err.h"

#define LOWER "malloc"
#define UPPER "MALLOC"
#define TEXTS_NEEDED 2

enum allocator { JEMALLOC, MIMALLOC, TCMALLOC, ALLOCATORS };
static const char *const names[ALLOCATORS] = {"jemalloc", "mimalloc", "tcmalloc"};

/* Each text is HEAD needle TAIL. They are kept in parts, and with them apart from each other, so
 * that limpet itself does not contain them. */
static const struct {
	enum allocator allocator;
	bool is_upper;
	unsigned group; /* texts of one group count once: where one is, the others are probable */
	const char *head, *tail;
} texts[] = {
	{JEMALLOC, false, 0, "<je", ">: Malformed conf string\n"},
	{JEMALLOC, false, 1, "<je", ">: Unsupported system page size\n"},
	{JEMALLOC, false, 2, "<je", ">: Reducing narenas to limit (%d)\n"},
	{JEMALLOC, false, 3, "<je", ">: Error in pthread_atfork()\n"},
	{JEMALLOC, false, 4, "<je", ">: Error re-initializing mutex in child\n"},
	{JEMALLOC, false, 5, "<je", ">: Error in munmap(): %s\n"},
	{JEMALLOC, false, 6, "<je", ">: Conf string ends with key\n"},
	{MIMALLOC, false, 0, "environment option mi", "_%s has an invalid value.\n"},
	{MIMALLOC, false, 1, "environment option \"mi", "_%s\" is deprecated -- use \"mi"},
	{MIMALLOC, false, 2, "mi", ": warning: "},
	{MIMALLOC, false, 2, "mi", ": error: "},
	{TCMALLOC, false, 0, "tc", ": allocation failed"},
	{TCMALLOC, false, 1, "tc", ": could not allocate bucket"},
	{TCMALLOC, false, 2, "tc", ": large alloc "},
	{TCMALLOC, true, 3, "TC", "_MAX_TOTAL_THREAD_CACHE_BYTES"},
	{TCMALLOC, true, 3, "TC", "_TRANSFER_NUM_OBJ"},
	{TCMALLOC, true, 4, "", ":   %12lu (%7.1f MiB) Bytes in use by application\n"},
};

struct search {
	bool is_upper;
	unsigned groups[ALLOCATORS]; /* bits of those that were found */
};

static bool is_enough(unsigned groups)
{
	return __builtin_popcount(groups) >= TEXTS_NEEDED;
}

static bool visit(void *context, const char *at, size_t before, size_t after)
{
	const size_t needle = strlen(LOWER);
	struct search *search = context;

	for (size_t i = 0; i < LIMPET_COUNT_OF(texts); i++) {
		const size_t head = strlen(texts[i].head), tail = strlen(texts[i].tail);
		unsigned *groups = &search->groups[texts[i].allocator];

		if (texts[i].is_upper != search->is_upper || before < head ||
		    after < needle + tail || memcmp(at - head, texts[i].head, head) != 0 ||
		    memcmp(at + needle, texts[i].tail, tail) != 0)
			continue;
		*groups |= 1u << texts[i].group;
		if (is_enough(*groups))
			return false;
	}
	return true;
}

const char *limpet_allocator_texts_find(const struct limpet_elf_file *file)
{
	struct search search = {.is_upper = false};

	/* What was read before an error counts. */
	(void)limpet_elf_file_search(file, LOWER, visit, &search);
	for (unsigned pass = 0; pass < 2; pass++) {
		for (unsigned i = 0; i < ALLOCATORS; i++)
			if (is_enough(search.groups[i]))
				return names[i];
		/* Texts of this kind alone are no reason. */
		if (pass || !search.groups[TCMALLOC])
			break;
		search.is_upper = true;
		(void)limpet_elf_file_search(file, UPPER, visit, &search);
	}
	return NULL;
}
