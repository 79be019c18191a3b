#include "explain/runtimes.h"

#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "explain/java.h"
#include "explain/runtimes/v8_layout.h"
#include "explain/runtimes/v8_pages.h"

#define PAGE ((uint64_t)4096)
#define PYTHON_HEAD_BYTES 48u
#define PYTHON_CLASSES 32u
/* Other memory must not use up what there is for all: 4 GiB of it. */
#define PYTHON_READS ((uint64_t)1 << 20)
/* runtime/malloc.go: the first hint for arenas, and the limit of its first terabyte. */
#define GO_START ((uint64_t)0xc0 << 32)
#define GO_END ((uint64_t)0x100 << 32)

/* ------------------------------------------------------------------ structures */

/* Objects/obmalloc.c: struct pool_header. Pools have 4 KiB, or 16 KiB since 3.10. */
uint64_t limpet_runtimes_python_pool(uint64_t address, const uint64_t words[LIMPET_PYTHON_WORDS],
				     uint64_t *ret_used_bytes)
{
	const uint64_t count = words[0] & UINT32_MAX, free_block = words[1];
	const uint64_t class = words[4] >> 32, next = words[5] & UINT32_MAX, last = words[5] >> 32;
	const uint64_t block = (class + 1) * 16;

	if (class >= PYTHON_CLASSES)
		return 0;
	for (uint64_t pool = 4 * PAGE; pool >= PAGE; pool /= 4) {
		if (address % pool || last != pool - block || next > last + block ||
		    count > (pool - PYTHON_HEAD_BYTES) / block)
			continue;
		if (free_block && (free_block < address + PYTHON_HEAD_BYTES ||
				   free_block >= address + pool || free_block % 16))
			continue;
		*ret_used_bytes = count * block;
		return pool;
	}
	return 0;
}

/* ------------------------------------------------------------------ which runtimes there are */

static const char kind_python[] = LIMPET_KIND_PYTHON, kind_v8[] = LIMPET_KIND_V8;
static const char owner_arenas[] = "mimalloc: arenas";

struct marking {
	const struct limpet_memory_reader *memory;
	const struct limpet_maps *maps;
	const struct limpet_modules *modules;
	bool v8_asked;
	struct limpet_v8_layout *v8; /* NULL: not known */
	bool python;
	uint64_t python_left; /* pages that may be looked at */
	struct limpet_java_ranges java;
	struct limpet_runtimes_heaps heaps;
	struct limpet_memory_ranges out;
	struct limpet_runtimes_marked marked;
	/* What was recognized last, up to its end: it may have pages that are not present. */
	uint64_t until;
	const char *kind, *owner;
	uint64_t unused_bytes; /* of it, as far as pages turn out to be present */
	bool is_used_known;    /* instead, the other way round: the rest of what is present */
	uint64_t used_bytes;
};

static void find_runtimes(struct limpet_modules *modules, struct marking *marking)
{
	for (size_t i = 0; i < modules->count; i++) {
		struct limpet_module *module = &modules->list[i];
		const char *slash = strrchr(module->path, '/');

		if (!slash)
			continue;
		if (strstr(slash, "python"))
			marking->python = true;
		if (!strcmp(slash, "/libjvm.so"))
			limpet_java_find(marking->memory, modules, module, &marking->java);
	}
}

/* ------------------------------------------------------------------ marking */

/* What begins at `at`, if it is within the mapping. False: that would be no such thing. */
static bool recognize_extent(struct marking *marking, uint64_t at, uint64_t bytes)
{
	const struct limpet_map *map = limpet_proc_maps_find(marking->maps, at);

	if (!bytes || !map || bytes > map->end - at)
		return false;
	marking->until = at + bytes;
	return true;
}

/* The constants of V8 are read once there is a page of it. */
static const char *space_of(struct marking *marking, const struct limpet_v8_page *page)
{
	struct limpet_v8_space space;
	const char *name;

	if (!marking->v8_asked) {
		marking->v8_asked = true;
		marking->v8 = calloc(1, sizeof(*marking->v8));
		if (marking->v8 && limpet_v8_layout_find(marking->modules, marking->v8) < 0) {
			free(marking->v8);
			marking->v8 = NULL;
		}
	}
	if (!page->heap)
		return "V8: read-only space";
	name = marking->v8 && limpet_v8_page_space(marking->memory, page, &space)
		       ? limpet_v8_space_name(marking->v8, space.id)
		       : NULL;
	if (name)
		return name;
	if (limpet_v8_page_is_large(page))
		return "V8: large objects";
	return page->flags & LIMPET_V8_FLAGS_YOUNG ? "V8: young generation" : "V8: old generation";
}

static struct limpet_v8_account *v8_account(struct limpet_runtimes_marked *marked,
					    const char *owner)
{
	for (size_t i = 0; i < marked->v8_count; i++)
		if (marked->v8[i].owner == owner)
			return &marked->v8[i];
	if (marked->v8_count == LIMPET_V8_ACCOUNTS)
		return NULL;
	marked->v8[marked->v8_count].owner = owner;
	return &marked->v8[marked->v8_count++];
}

static uint64_t unused_of(const struct limpet_v8_page *page)
{
	const uint64_t area = page->end - page->start;

	if (page->flags & LIMPET_V8_FLAG_FROM)
		return area;
	return !(page->flags & LIMPET_V8_FLAGS_YOUNG) && page->allocated_bytes <= area
		       ? area - page->allocated_bytes
		       : 0;
}

static void recognize_v8(struct marking *marking, uint64_t at)
{
	const struct limpet_map *map = limpet_proc_maps_find(marking->maps, at);
	struct limpet_v8_page page;

	/* What belongs to no heap is never written. */
	if (at % LIMPET_V8_PAGE_BYTES || !limpet_v8_page_read(marking->memory, at, &page) || !map ||
	    (!page.heap && map->perms[1] == 'w') || !recognize_extent(marking, at, page.bytes))
		return;
	marking->kind = kind_v8;
	marking->owner = space_of(marking, &page);
	marking->unused_bytes = unused_of(&page);
}

/* The same for mimalloc, which lets a part of what it has mapped be accessed, and the rest later:
 * so what begins in one mapping ends in one of those that follow, or with the last of them. */
static bool recognize_run(struct marking *marking, uint64_t at, uint64_t bytes)
{
	const struct limpet_maps *maps = marking->maps;
	const struct limpet_map *map = limpet_proc_maps_find(maps, at);
	uint64_t end;

	if (!bytes || !map || bytes > UINT64_MAX - at)
		return false;
	end = maps->list[limpet_proc_maps_run(maps, (size_t)(map - maps->list), at + bytes)].end;
	marking->until = at + bytes < end ? at + bytes : end;
	return true;
}

static void recognize_mimalloc(struct marking *marking, uint64_t at)
{
	if (recognize_run(marking, at,
			  limpet_mimalloc_segment(marking->memory, &marking->marked.mimalloc, at)))
		marking->owner = "mimalloc: segments";
	else if (recognize_run(marking, at, limpet_mimalloc_arena(marking->memory, at)))
		marking->owner = owner_arenas;
	else
		return;
	if (marking->owner == owner_arenas)
		limpet_mimalloc_arenas_add(&marking->marked.arenas, at);
	marking->kind = LIMPET_KIND_MIMALLOC;
}

static void recognize_python(struct marking *marking, uint64_t at)
{
	uint64_t words[LIMPET_PYTHON_WORDS], bytes, used;

	if (!marking->python || !marking->python_left)
		return;
	marking->python_left--;
	if (limpet_memory_reader_read(marking->memory, at, words, sizeof(words)) < 0)
		return;
	bytes = limpet_runtimes_python_pool(at, words, &used);
	if (!bytes)
		return;
	marking->kind = kind_python;
	marking->owner = "Python: arenas of small objects";
	marking->until = at + bytes;
	marking->unused_bytes =
		bytes > used + PYTHON_HEAD_BYTES ? bytes - used - PYTHON_HEAD_BYTES : 0;
}

/* Where the heap is until Go 1.25, as a rule. */
static bool is_in_go(const struct marking *marking, uint64_t address)
{
	return marking->heaps.go->is_there && address >= GO_START && address < GO_END;
}

static void recognize_go(struct marking *marking, uint64_t at)
{
	const struct limpet_heap_range *range =
		limpet_heap_ranges_find(&marking->heaps.go->ranges, at);

	if (!range)
		return;
	marking->kind = range->is_table ? LIMPET_KIND_GO_TABLES : LIMPET_KIND_GO;
	marking->owner = range->is_table ? "Go: tables of the runtime" : "Go: heap";
	marking->until = range->end;
}

static void recognize_range(struct marking *marking, uint64_t at)
{
	const struct limpet_java_ranges *java = &marking->java;

	if (is_in_go(marking, at)) {
		marking->kind = LIMPET_KIND_GO;
		marking->owner = "Go: heap";
		marking->until = GO_END;
	} else if (at >= java->heap_start && at < java->heap_end) {
		marking->kind = LIMPET_KIND_JAVA;
		marking->owner = "Java: heap";
		marking->until = java->heap_end;
	}
}

static void recognize_jemalloc(struct marking *marking, uint64_t at)
{
	const struct limpet_jemalloc_extent *extent =
		limpet_jemalloc_find(marking->heaps.jemalloc, at);

	if (!extent)
		return;
	if (extent->in_use) {
		marking->kind = LIMPET_KIND_JEMALLOC;
		marking->owner = "jemalloc: extents in use";
	} else if (extent->retained) {
		marking->kind = LIMPET_KIND_JEMALLOC_RETAINED;
		marking->owner = "jemalloc: address space kept for later";
	} else {
		marking->kind = LIMPET_KIND_JEMALLOC_FREE;
		marking->owner = "jemalloc: free pages, kept for a while";
	}
	marking->until = extent->end;
	marking->unused_bytes = extent->free_bytes;
}

static void recognize_tcmalloc(struct marking *marking, uint64_t at)
{
	const struct limpet_heap_range *range =
		limpet_heap_ranges_find(&marking->heaps.tcmalloc->ranges, at);
	const struct limpet_map *map = range ? limpet_proc_maps_find(marking->maps, at) : NULL;

	if (!map || map->start % LIMPET_TCMALLOC_ALIGN_BYTES)
		return;
	marking->kind = LIMPET_KIND_TCMALLOC;
	marking->owner = range->is_table ? "tcmalloc: its own tables" : LIMPET_OWNER_TCMALLOC;
	marking->until = range->end < map->end ? range->end : map->end;
}

static void recognize_gperftools(struct marking *marking, uint64_t at)
{
	const struct limpet_gperftools *heap = marking->heaps.gperftools;
	const struct limpet_gperftools_span *span = limpet_gperftools_find(heap, at);
	const struct limpet_heap_range *table = limpet_heap_ranges_find(&heap->tables, at);

	if (!span && !table)
		return;
	marking->kind = LIMPET_KIND_TCMALLOC;
	if (!span) {
		marking->owner = "tcmalloc: its own tables";
		marking->until = table->end;
		return;
	}
	marking->owner = LIMPET_OWNER_TCMALLOC;
	marking->until = span->end;
	if (span->state == LIMPET_GPERFTOOLS_FREE) {
		marking->kind = LIMPET_KIND_TCMALLOC_FREE;
		marking->owner = "tcmalloc: free pages, kept for later";
		return;
	}
	marking->is_used_known = true;
	marking->used_bytes = limpet_gperftools_used_bytes(&heap->classes, span);
}

/* The part from `at` on: up to the end of what is recognized, or a page. */
static uint64_t mark_part(struct marking *marking, uint64_t at, uint64_t end)
{
	uint64_t part_end = at + PAGE;

	if (at >= marking->until) {
		marking->unused_bytes = 0;
		marking->is_used_known = false;
		recognize_jemalloc(marking, at);
	}
	if (at >= marking->until)
		recognize_tcmalloc(marking, at);
	if (at >= marking->until)
		recognize_gperftools(marking, at);
	if (at >= marking->until)
		recognize_go(marking, at);
	if (at >= marking->until)
		recognize_range(marking, at);
	if (at >= marking->until)
		recognize_mimalloc(marking, at);
	if (at >= marking->until)
		recognize_v8(marking, at);
	if (at >= marking->until)
		recognize_python(marking, at);
	if (at < marking->until)
		part_end = marking->until;
	return part_end < end ? part_end : end;
}

static uint64_t use_up_to(uint64_t *left, uint64_t bytes)
{
	const uint64_t taken = bytes < *left ? bytes : *left;

	*left -= taken;
	return taken;
}

static void note_v8(struct marking *marking, uint64_t bytes)
{
	struct limpet_v8_account *account = v8_account(&marking->marked, marking->owner);

	if (account)
		account->free_bytes += bytes;
}

/* Of what was recognized, so many bytes are present. What blocks in use touched is not known: of
 * tcmalloc's only what they cannot have touched is free. */
static void note_unused(struct marking *marking, uint64_t bytes)
{
	if (marking->is_used_known)
		marking->marked.tcmalloc_bytes += bytes - use_up_to(&marking->used_bytes, bytes);
	else if (marking->kind == kind_v8)
		note_v8(marking, use_up_to(&marking->unused_bytes, bytes));
	else if (marking->kind == kind_python)
		marking->marked.python_bytes += use_up_to(&marking->unused_bytes, bytes);
	else
		marking->marked.jemalloc_bytes += use_up_to(&marking->unused_bytes, bytes);
}

static void mark_range(struct marking *marking, const struct limpet_memory_range *range)
{
	for (uint64_t at = range->start; at < range->end;) {
		struct limpet_memory_range part = {.start = at, .account = LIMPET_MEMORY_UNKNOWN};

		/* Its name is what is known of it. */
		if (range->account == LIMPET_MEMORY_NAMED)
			part.account = LIMPET_MEMORY_NAMED;

		part.end = mark_part(marking, at, range->end);
		if (at < marking->until) {
			part.account = LIMPET_MEMORY_UNKNOWN;
			part.kind = marking->kind;
			part.owner = marking->owner;
			note_unused(marking, part.end - at);
		}
		limpet_memory_ranges_add(&marking->out, &part);
		at = part.end;
	}
}

/* A range of the program break may begin before the heap. */
static bool is_in_gperftools(const struct limpet_gperftools *heap,
			     const struct limpet_memory_range *range)
{
	const uint64_t last = range->account == LIMPET_MEMORY_HEAP ? range->end - 1 : range->start;
	/* cppcheck-suppress constStatement */
	size_t above = LIMPET_PARTITION_POINT(i, heap->count, heap->list[i].start <= last);

	return (above && heap->list[above - 1].end > range->start) ||
	       limpet_heap_ranges_find(&heap->tables, range->start);
}

/* What is in a heap may look like a block of glibc's, and the stack of a coroutine or goroutine in
 * it like that of a thread. */
static bool is_to_be_marked(const struct marking *marking, const struct limpet_memory_range *range)
{
	if (range->account == LIMPET_MEMORY_UNKNOWN || range->account == LIMPET_MEMORY_NAMED)
		return true;
	return (range->account == LIMPET_MEMORY_HEAP || range->account == LIMPET_MEMORY_STACKS) &&
	       (limpet_jemalloc_find(marking->heaps.jemalloc, range->start) ||
		limpet_heap_ranges_find(&marking->heaps.tcmalloc->ranges, range->start) ||
		is_in_gperftools(marking->heaps.gperftools, range) ||
		limpet_heap_ranges_find(&marking->heaps.go->ranges, range->start) ||
		is_in_go(marking, range->start));
}

int limpet_runtimes_mark(const struct limpet_memory_reader *memory, struct limpet_modules *modules,
			 const struct limpet_runtimes_heaps *heaps,
			 struct limpet_memory_ranges *ranges,
			 struct limpet_runtimes_marked *ret_marked)
{
	struct marking marking = {.memory = memory,
				  .maps = &modules->maps,
				  .modules = modules,
				  .python_left = PYTHON_READS,
				  .heaps = *heaps};

	find_runtimes(modules, &marking);
	if (limpet_mimalloc_find(memory, ranges, &marking.marked.mimalloc) < 0)
		return -ENOMEM;
	for (size_t i = 0; i < ranges->count; i++)
		if (is_to_be_marked(&marking, &ranges->list[i]))
			mark_range(&marking, &ranges->list[i]);
		else
			limpet_memory_ranges_add(&marking.out, &ranges->list[i]);
	free(marking.v8);
	if (marking.out.error) {
		limpet_memory_ranges_done(&marking.out);
		return -ENOMEM;
	}
	marking.out.stacks = ranges->stacks;
	ranges->stacks = (struct limpet_thread_stacks){0};
	limpet_memory_ranges_done(ranges);
	*ranges = marking.out;
	*ret_marked = marking.marked;
	return 0;
}
