#include "explain/runtimes/v8_heap.h"

#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "injector/proc/proc.h"

#define PAGES_LIMIT ((size_t)1 << 18)
#define ISOLATES_LIMIT 1024u
#define SPACES_LIMIT 1024u
#define AREAS_LIMIT 4096u
#define SEMISPACE_WORDS 48u
/* 128 MiB are the most that V8 gives one by itself. */
#define SEMISPACE_PAGES 1024u
/* Around a heap, which is a part of its isolate: where the tops of allocation are. */
#define BEFORE_HEAP_BYTES ((uint64_t)128 << 10)
#define BEHIND_HEAP_BYTES ((uint64_t)32 << 10)
#define SPACE_BYTES ((uint64_t)1 << 10)
#define OBJECT_BYTES ((uint64_t)2048)
#define HEAP_BYTES ((uint64_t)16 << 10)
#define PART_BYTES ((uint64_t)4096)
#define HEAD_WORDS 64u

struct finding {
	const struct limpet_memory_reader *memory;
	const struct limpet_maps *maps;
	struct limpet_v8_heap *heap;
	uint64_t isolates[ISOLATES_LIMIT]; /* their heaps */
	int error;
};

void limpet_v8_heap_done(struct limpet_v8_heap *heap)
{
	free(heap->pages);
	free(heap->areas);
	*heap = (struct limpet_v8_heap){0};
}

const struct limpet_v8_heap_page *limpet_v8_heap_find(const struct limpet_v8_heap *heap,
						      uint64_t address)
{
	const struct limpet_v8_heap_page *pages = heap->pages, *page;
	/* cppcheck-suppress constStatement */
	size_t above = LIMPET_PARTITION_POINT(i, heap->count, pages[i].page.address <= address);

	page = above ? &pages[above - 1] : NULL;
	return page && address - page->page.address < page->page.bytes ? page : NULL;
}

/* ------------------------------------------------------------------ pages */

static void add_page(struct finding *finding, const struct limpet_v8_page *page)
{
	struct limpet_v8_heap *heap = finding->heap;
	struct limpet_v8_heap_page *it;

	if (heap->count == PAGES_LIMIT)
		return;
	if (limpet_reserve(&heap->pages, &heap->capacity, heap->count + 1, sizeof(*heap->pages)) <
		    0 ||
	    !heap->pages) {
		finding->error = -ENOMEM;
		return;
	}
	it = &heap->pages[heap->count++];
	*it = (struct limpet_v8_heap_page){.page = *page};
	(void)limpet_v8_page_space(finding->memory, page, &it->space);
}

/* A page may be several mappings, with different permissions, but begins as one that is readable.
 */
static uint64_t examine_page(struct finding *finding, const struct limpet_map *map,
			     uint64_t address)
{
	struct limpet_v8_page page;

	/* What belongs to no heap is never written. */
	if (!limpet_v8_page_read(finding->memory, address, &page) ||
	    (!page.heap && map->perms[1] == 'w'))
		return LIMPET_V8_PAGE_BYTES;
	add_page(finding, &page);
	return (page.bytes + LIMPET_V8_PAGE_BYTES - 1) & ~(LIMPET_V8_PAGE_BYTES - 1);
}

static void find_pages(struct finding *finding)
{
	uint64_t next = 0;

	for (size_t i = 0; i < finding->maps->count && !finding->error; i++) {
		const struct limpet_map *map = &finding->maps->list[i];
		uint64_t at = (map->start + LIMPET_V8_PAGE_BYTES - 1) & ~(LIMPET_V8_PAGE_BYTES - 1);

		if (!limpet_map_is_anonymous(map) || map->perms[0] != 'r' || map->perms[3] != 'p')
			continue;
		if (at < next)
			at = next;
		while (at < map->end && !finding->error) {
			at += examine_page(finding, map, at);
			next = at;
		}
	}
}

/* ------------------------------------------------------------------ where objects are allocated */

/* src/heap/linear-allocation-area.h: start, top and limit, in one page. */
static bool judge_area(const uint64_t words[3], const struct limpet_v8_page *page)
{
	const uint64_t start = words[0], top = words[1], limit = words[2];

	return start % 8 == 0 && top % 8 == 0 && limit % 8 == 0 && start >= page->start &&
	       start <= top && top <= limit && limit <= page->end && start < limit;
}

static void note_area(struct finding *finding, uint64_t address, const uint64_t words[3])
{
	struct limpet_v8_heap *heap = finding->heap;
	const struct limpet_v8_heap_page *page =
		words[0] ? limpet_v8_heap_find(heap, words[0]) : NULL;

	if (!page || limpet_v8_page_is_large(&page->page) || !judge_area(words, &page->page) ||
	    heap->area_count == AREAS_LIMIT)
		return;
	for (size_t i = 0; i < heap->area_count; i++)
		if (heap->areas[i] == address)
			return;
	if (limpet_reserve(&heap->areas, &heap->area_capacity, heap->area_count + 1,
			   sizeof(*heap->areas)) < 0 ||
	    !heap->areas) {
		finding->error = -ENOMEM;
		return;
	}
	heap->areas[heap->area_count++] = address;
}

size_t limpet_v8_heap_gaps(const struct limpet_memory_reader *memory,
			   const struct limpet_v8_heap *heap, const struct limpet_v8_page *page,
			   struct limpet_v8_gap ret[LIMPET_V8_GAPS])
{
	size_t count = 0;

	for (size_t i = 0; i < heap->area_count && count < LIMPET_V8_GAPS; i++) {
		uint64_t words[3];
		size_t at = count;

		if (limpet_memory_reader_read(memory, heap->areas[i], words, sizeof(words)) < 0 ||
		    !judge_area(words, page))
			continue;
		/* There objects follow each other up to the end of the page. */
		if (page->flags & LIMPET_V8_FLAGS_YOUNG)
			words[2] = page->end;
		if (words[1] == words[2])
			continue;
		for (; at && ret[at - 1].top > words[1]; at--)
			ret[at] = ret[at - 1];
		ret[at] = (struct limpet_v8_gap){words[1], words[2]};
		count++;
	}
	return count;
}

/* Where such areas may be, by parts that overlap, so that each area is whole in one. */
static void search_areas(struct finding *finding, uint64_t address, uint64_t bytes)
{
	uint64_t words[PART_BYTES / 8 + 2];

	for (uint64_t at = address; at < address + bytes && !finding->error; at += PART_BYTES) {
		size_t count = LIMPET_COUNT_OF(words);

		if (limpet_memory_reader_read(finding->memory, at, words, sizeof(words)) < 0) {
			count -= 2;
			if (limpet_memory_reader_read(finding->memory, at, words, count * 8) < 0)
				continue;
		}
		for (size_t i = 0; i + 2 < count; i++)
			note_area(finding, at + i * 8, words + i);
	}
}

static bool has_word(const uint64_t *words, size_t count, uint64_t word)
{
	for (size_t i = 0; i < count; i++)
		if (words[i] == word)
			return true;
	return false;
}

static bool leads_to_area(const struct limpet_v8_heap *heap, const uint64_t *words, size_t count)
{
	for (size_t i = 0; i < heap->area_count; i++)
		if (has_word(words, count, heap->areas[i]))
			return true;
	return false;
}

static bool is_heap(const struct finding *finding, uint64_t word)
{
	return has_word(finding->isolates, finding->heap->isolates, word);
}

/* Areas other than those of the new and the old space are in a space, or, since V8 12, in an object
 * of their own. The space leads to such an object; or the heap does, to one that also leads to
 * areas that were found. An area is referred to by the object that it is in, or follows a reference
 * to the heap. */
static void search_object(struct finding *finding, uint64_t object, bool is_of_space)
{
	uint64_t words[OBJECT_BYTES / 8];
	const size_t count = LIMPET_COUNT_OF(words);

	if (!object || object % 8 || object >> 47 || limpet_v8_heap_find(finding->heap, object) ||
	    limpet_memory_reader_read(finding->memory, object, words, sizeof(words)) < 0 ||
	    (!is_of_space && !leads_to_area(finding->heap, words, count)))
		return;
	for (size_t i = 0; i + 2 < count; i++)
		if (has_word(words, count, object + i * 8) || (i && is_heap(finding, words[i - 1])))
			note_area(finding, object + i * 8, words + i);
}

static void search_objects(struct finding *finding, uint64_t address, uint64_t bytes,
			   bool is_of_space)
{
	uint64_t words[SPACE_BYTES / 8];

	for (uint64_t at = address; at < address + bytes && !finding->error; at += SPACE_BYTES) {
		if (limpet_memory_reader_read(finding->memory, at, words, sizeof(words)) < 0)
			continue;
		for (size_t i = 0; i < LIMPET_COUNT_OF(words); i++)
			search_object(finding, words[i], is_of_space);
	}
}

/* Adds an address to a short list. False: it is there, or the list is full. */
static bool is_new(uint64_t *list, size_t *count, size_t limit, uint64_t address)
{
	if (!address || *count == limit)
		return false;
	for (size_t i = 0; i < *count; i++)
		if (list[i] == address)
			return false;
	list[(*count)++] = address;
	return true;
}

static void find_areas(struct finding *finding)
{
	struct limpet_v8_heap *heap = finding->heap;
	uint64_t spaces[SPACES_LIMIT] = {0};
	size_t space_count = 0;

	for (size_t i = 0; i < heap->count && !finding->error; i++) {
		const struct limpet_v8_heap_page *page = &heap->pages[i];
		const uint64_t around = page->page.heap & ~(PART_BYTES - 1);

		if (is_new(finding->isolates, &heap->isolates, ISOLATES_LIMIT, page->page.heap)) {
			search_areas(finding, around - BEFORE_HEAP_BYTES,
				     BEFORE_HEAP_BYTES + BEHIND_HEAP_BYTES);
			search_objects(finding, page->page.heap, HEAP_BYTES, false);
		}
		if (is_new(spaces, &space_count, SPACES_LIMIT, page->space.address)) {
			search_object(finding, page->space.address, true);
			search_objects(finding, page->space.address, SPACE_BYTES, true);
		}
	}
}

/* ------------------------------------------------------------------ the young generation */

/* A semispace: its pages are filled in the order of a list. */
struct semispace {
	uint64_t address;
	struct limpet_v8_heap *heap;
	struct limpet_v8_heap_page *first, *last, *current;
	size_t count;
};

/* What a word refers to, if it is a page of the space: by its address, or by that of its head. */
static struct limpet_v8_heap_page *page_of(const struct semispace *space, uint64_t word)
{
	struct limpet_v8_heap *heap = space->heap;

	for (size_t i = 0; word && i < heap->count; i++)
		if (heap->pages[i].space.address == space->address &&
		    (heap->pages[i].page.address == word || heap->pages[i].page.head == word))
			return &heap->pages[i];
	return NULL;
}

/* The ends of its list, two words that follow each other, and the page in which objects are being
 * allocated, or were last. */
static bool read_semispace(const struct finding *finding, struct semispace *space)
{
	uint64_t words[SEMISPACE_WORDS];
	struct limpet_v8_gap gaps[LIMPET_V8_GAPS];

	if (limpet_memory_reader_read(finding->memory, space->address, words, sizeof(words)) < 0)
		return false;
	for (size_t i = 3; i + 1 < LIMPET_COUNT_OF(words); i++) {
		struct limpet_v8_heap_page *page = page_of(space, words[i]);

		if (!page)
			continue;
		if (!space->first) {
			space->first = page;
			space->last = page_of(space, words[++i]);
		} else if (!space->current) {
			space->current = page;
		}
	}
	for (size_t i = 0; i < space->heap->count; i++) {
		struct limpet_v8_heap_page *page = &space->heap->pages[i];

		if (page->space.address != space->address)
			continue;
		space->count++;
		if (limpet_v8_heap_gaps(finding->memory, space->heap, &page->page, gaps))
			space->current = page;
	}
	return space->first && space->last && space->current;
}

/* Follows the list by word `link` of each head. True: it has all pages. Then those behind the
 * current one are marked, if `mark`. */
static bool follow(const struct finding *finding, const struct semispace *space, size_t link,
		   bool mark)
{
	struct limpet_v8_heap_page *page = space->first, *last = NULL;
	bool is_behind = false;
	size_t count = 0;

	while (page && count < space->count) {
		uint64_t word;

		if (mark)
			page->is_unused = is_behind;
		is_behind |= page == space->current;
		count++;
		last = page;
		if (!limpet_memory_reader_read_word(finding->memory, page->page.head + link * 8,
						    &word))
			return false;
		page = page_of(space, word);
	}
	return !page && count == space->count && last == space->last;
}

static void judge_semispace(const struct finding *finding, uint64_t address)
{
	struct semispace space = {.address = address, .heap = finding->heap};

	if (!read_semispace(finding, &space) || space.count > SEMISPACE_PAGES)
		return;
	for (size_t link = 1; link < HEAD_WORDS; link++)
		if (follow(finding, &space, link, false)) {
			(void)follow(finding, &space, link, true);
			return;
		}
}

/* From one collection to the next, objects are only in one of two semispaces. */
static void find_unused(const struct finding *finding)
{
	struct limpet_v8_heap *heap = finding->heap;
	uint64_t spaces[SPACES_LIMIT] = {0};
	size_t space_count = 0;

	for (size_t i = 0; i < heap->count; i++) {
		struct limpet_v8_heap_page *page = &heap->pages[i];

		if (limpet_v8_page_is_large(&page->page))
			continue;
		if (page->page.flags & LIMPET_V8_FLAG_FROM)
			page->is_unused = true;
		else if ((page->page.flags & LIMPET_V8_FLAG_TO) &&
			 is_new(spaces, &space_count, SPACES_LIMIT, page->space.address))
			judge_semispace(finding, page->space.address);
	}
}

int limpet_v8_heap_read(const struct limpet_memory_reader *memory, const struct limpet_maps *maps,
			struct limpet_v8_heap *heap)
{
	struct finding finding = {.memory = memory, .maps = maps, .heap = heap};

	limpet_v8_heap_done(heap);
	find_pages(&finding);
	if (!finding.error)
		find_areas(&finding);
	if (!finding.error)
		find_unused(&finding);
	if (finding.error)
		limpet_v8_heap_done(heap);
	return finding.error;
}

void limpet_v8_heap_refresh(const struct limpet_memory_reader *memory, struct limpet_v8_heap *heap)
{
	struct finding finding = {.memory = memory, .heap = heap};

	for (size_t i = 0; i < heap->count; i++) {
		struct limpet_v8_heap_page *it = &heap->pages[i];
		struct limpet_v8_page page;

		if (!(it->page.flags & LIMPET_V8_FLAGS_YOUNG))
			continue;
		it->is_unused = !limpet_v8_page_read(memory, it->page.address, &page) ||
				page.bytes != it->page.bytes;
		if (it->is_unused)
			continue;
		it->page = page;
		(void)limpet_v8_page_space(memory, &page, &it->space);
	}
	find_unused(&finding);
}
