#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "explain/data.h"
#include "explain/mimalloc_census.h"
#include "explain/mimalloc_page.h"

/* page-map.c, with addresses of 47 bits: a root of 2^18 pointers, to which the data of the program
 * or library has a pointer, to parts of 2^13 pointers, one for each slice of 64 KiB: to the
 * description of the page to which the slice belongs. Of a page of more than 4 MiB, which holds one
 * block, the first 63 slices have one. */
#define PAGE ((uint64_t)4096)
#define PAGE_WORDS (PAGE / 8)
#define SLICE_SHIFT 16u
#define SLICE_BYTES ((uint64_t)1 << SLICE_SHIFT)
#define PART_BITS 13u
#define PART_WORDS ((size_t)1 << PART_BITS)
#define PART_SHIFT (SLICE_SHIFT + PART_BITS)
#define ROOT_WORDS ((size_t)1 << (47 - PART_SHIFT))
#define LONG_BYTES (63 * SLICE_BYTES)
#define ADDRESS_LIMIT ((uint64_t)1 << 47)
/* How a root is found: it leads to pages in the first slices of an arena. */
#define READ_WORDS (4 * PAGE_WORDS)
#define PAGES_NEEDED 2u
#define PAGES_ENOUGH 32u
#define CANDIDATES_LIMIT (64u << 10)
#define ROOTS_LIMIT 4u
#define ARENAS_TRIED 16u /* of which a root has to explain one */
#define SAMPLES 1024u
/* Of so many pages one may not have the layout: it changes while it is read. */
#define WRONG_SHARE 50u
/* types.h: mi_page_t. */
enum {
	FREE_AT = 8,
	USED_AT = 16,
	CAPACITY_AT = 18,
	RESERVED_AT = 20,
	WAITING_AT = 32,
	SIZE_AT = 40,
	START_AT = 48,
	DESCRIPTION_BYTES = 96
};

static const struct layout {
	bool by_words; /* blocks begin so many words after the description; or at an address */
	uint8_t keys;
	uint8_t owner; /* where a pointer is, to the heap */
} layouts[] = {
	{.owner = 64},                               /* 3.0 to 3.3 */
	{.by_words = true, .owner = 64},             /* 3.4 */
	{.keys = 64, .owner = 80},                   /* encoded: 3.0, 3.1 */
	{.keys = 56, .owner = 80},                   /* 3.2, 3.3 */
	{.by_words = true, .keys = 56, .owner = 80}, /* 3.4 */
};

/* Slices that follow each other and have the same description. */
struct run {
	uint64_t start, end;
	uint64_t page;  /* the description */
	uint64_t entry; /* where the map has the first slice */
};

struct map_walk {
	const struct limpet_memory_reader *memory;
	const struct limpet_maps *maps;
	const struct limpet_mimalloc_arenas *arenas;
	struct limpet_mimalloc_count count;
	void (*visit)(struct map_walk *walk, const struct run *run);
	struct run run; /* that is not at its end yet */
	uint64_t roots[ROOTS_LIMIT];
	unsigned root_count, candidates;
	bool is_limited;       /* there are more candidates */
	uint64_t right, wrong; /* pages, in the search for a root and a layout */
	uint64_t scores[LIMPET_COUNT_OF(layouts)];
	const struct layout *layout;
};

/* ------------------------------------------------------------------ one page */

static bool read_page(const struct limpet_memory_reader *memory, const struct run *run,
		      const struct layout *layout, struct limpet_mimalloc_page *ret_page)
{
	unsigned char copy[DESCRIPTION_BYTES];
	struct limpet_mimalloc_page page = {.address = run->page};
	uint64_t bytes, slices;

	if (limpet_memory_reader_read(memory, run->page, copy, sizeof(copy)) < 0)
		return false;
	page.start = layout->by_words ? run->page + 8 * limpet_mimalloc_get(copy, START_AT, 4)
				      : limpet_mimalloc_get(copy, START_AT, 8);
	page.block_bytes = limpet_mimalloc_get(copy, SIZE_AT, 8);
	page.reserved = limpet_mimalloc_get(copy, RESERVED_AT, 2);
	page.capacity = limpet_mimalloc_get(copy, CAPACITY_AT, 2);
	page.used = limpet_mimalloc_get(copy, USED_AT, 2);
	page.free = limpet_mimalloc_get(copy, FREE_AT, 8);
	/* The lowest bit: whether a thread owns the page. */
	page.waiting = limpet_mimalloc_get(copy, WAITING_AT, 8) & ~(uint64_t)1;
	if (layout->keys) {
		memcpy(page.keys, copy + layout->keys, sizeof(page.keys));
		if (!page.keys[0] || !page.keys[1])
			return false;
	}
	if (page.start < run->start || page.start >= run->end || page.block_bytes > ADDRESS_LIMIT)
		return false;
	bytes = page.reserved * page.block_bytes;
	slices = (page.start - run->start) / SLICE_BYTES +
		 ((bytes > LONG_BYTES + SLICE_BYTES ? LONG_BYTES : bytes) + SLICE_BYTES - 1) /
			 SLICE_BYTES;
	if (run->end - run->start != slices * SLICE_BYTES)
		return false;
	page.end = page.start + bytes;
	*ret_page = page;
	return limpet_mimalloc_page_is_right(&page) &&
	       limpet_mimalloc_get(copy, layout->owner, 8) < ADDRESS_LIMIT &&
	       copy[layout->owner] % 8 == 0;
}

/* ------------------------------------------------------------------ the map */

static void end_run(struct map_walk *walk)
{
	/* Some releases have one for the address 0. */
	if (walk->run.page && walk->run.start)
		walk->visit(walk, &walk->run);
	walk->run.page = 0;
}

static bool may_be_description(uint64_t word)
{
	return word && word % 8 == 0 && word < ADDRESS_LIMIT;
}

/* A part of the map, from the entry of `start` on. */
static void walk_part(struct map_walk *walk, uint64_t part, size_t words, uint64_t start)
{
	uint64_t copy[PAGE_WORDS];

	for (size_t at = start >> SLICE_SHIFT & (PART_WORDS - 1); words;) {
		const size_t left = PAGE_WORDS - at % PAGE_WORDS,
			     count = left < words ? left : words;
		const int error =
			limpet_memory_reader_read(walk->memory, part + 8 * at, copy, 8 * count);

		walk->count.tally->is_cut |= error == -ETIME;
		for (size_t i = 0; i < count; i++, start += SLICE_BYTES) {
			const uint64_t page = !error && may_be_description(copy[i]) ? copy[i] : 0;

			if (page != walk->run.page || start != walk->run.end)
				end_run(walk);
			if (page && !walk->run.page)
				walk->run = (struct run){
					.start = start, .page = page, .entry = part + 8 * (at + i)};
			walk->run.end = start + SLICE_BYTES;
		}
		at += count;
		words -= count;
	}
}

static bool may_be_part(uint64_t word)
{
	return word && word % PAGE == 0 && word < ADDRESS_LIMIT;
}

static void walk_map(struct map_walk *walk, uint64_t root,
		     void (*visit)(struct map_walk *walk, const struct run *run))
{
	uint64_t copy[PAGE_WORDS];

	walk->visit = visit;
	for (size_t at = 0; at < ROOT_WORDS; at += PAGE_WORDS) {
		const int error =
			limpet_memory_reader_read(walk->memory, root + 8 * at, copy, sizeof(copy));

		walk->count.tally->is_cut |= error == -ETIME;
		for (size_t i = 0; i < PAGE_WORDS && !error; i++)
			if (may_be_part(copy[i]))
				walk_part(walk, copy[i], PART_WORDS,
					  (uint64_t)(at + i) << PART_SHIFT);
	}
	end_run(walk);
}

/* ------------------------------------------------------------------ the root, and the layout */

static void judge_run(struct map_walk *walk, const struct run *run)
{
	struct limpet_mimalloc_page page;
	bool is_right = false;

	if (walk->right + walk->wrong >= SAMPLES)
		return;
	for (size_t i = 0; i < LIMPET_COUNT_OF(layouts); i++)
		if (read_page(walk->memory, run, &layouts[i], &page)) {
			walk->scores[i]++;
			is_right = true;
		}
	walk->right += is_right;
	walk->wrong += !is_right;
}

/* Whether it leads to pages in the first slices of this arena. */
static bool explains(struct map_walk *walk, uint64_t root, uint64_t arena)
{
	const size_t first = arena >> SLICE_SHIFT & (PART_WORDS - 1);
	size_t words = PART_WORDS - first < READ_WORDS ? PART_WORDS - first : READ_WORDS;
	uint64_t part;

	if (arena >= ADDRESS_LIMIT ||
	    limpet_memory_reader_read(walk->memory, root + 8 * (arena >> PART_SHIFT), &part,
				      sizeof(part)) < 0 ||
	    !may_be_part(part))
		return false;
	walk->visit = judge_run;
	walk->right = walk->wrong = 0;
	for (uint64_t at = arena; words && walk->right < PAGES_ENOUGH;) {
		const size_t count = words < PAGE_WORDS ? words : PAGE_WORDS;

		walk_part(walk, part, count, at);
		at += count * SLICE_BYTES;
		words -= count;
	}
	/* It may go on. */
	walk->run.page = 0;
	return walk->right >= PAGES_NEEDED && walk->wrong <= walk->right / 8;
}

static bool explains_any(struct map_walk *walk, uint64_t root)
{
	for (size_t i = 0; i < walk->arenas->count && i < ARENAS_TRIED; i++)
		if (explains(walk, root, walk->arenas->list[i]))
			return true;
	return false;
}

static bool is_known_root(const struct map_walk *walk, uint64_t root)
{
	for (unsigned i = 0; i < walk->root_count; i++)
		if (walk->roots[i] == root)
			return true;
	return false;
}

static void scan(void *context, const uint64_t *data, size_t bytes, uint64_t address)
{
	struct map_walk *walk = context;

	(void)address;
	for (size_t i = 0; i < bytes / 8; i++) {
		const struct limpet_map *map;

		if (!may_be_part(data[i]) || walk->is_limited)
			continue;
		map = limpet_proc_maps_find(walk->maps, data[i]);
		if (!map || !limpet_map_is_anonymous(map) || map->perms[1] != 'w' ||
		    is_known_root(walk, data[i]))
			continue;
		walk->is_limited =
			walk->root_count == ROOTS_LIMIT || walk->candidates == CANDIDATES_LIMIT;
		if (walk->is_limited)
			break;
		walk->candidates++;
		if (explains_any(walk, data[i]))
			walk->roots[walk->root_count++] = data[i];
	}
}

static bool is_explained(struct map_walk *walk, uint64_t arena)
{
	for (unsigned i = 0; i < walk->root_count; i++)
		if (explains(walk, walk->roots[i], arena))
			return true;
	return false;
}

static bool find_layout(struct map_walk *walk, uint64_t root)
{
	size_t best = 0;

	memset(walk->scores, 0, sizeof(walk->scores));
	walk->right = walk->wrong = 0;
	walk_map(walk, root, judge_run);
	/* Of equal ones the first: without keys, which are never 0. */
	for (size_t i = 1; i < LIMPET_COUNT_OF(layouts); i++)
		if (walk->scores[i] > walk->scores[best])
			best = i;
	walk->layout = &layouts[best];
	walk->wrong += walk->right - walk->scores[best];
	return walk->scores[best] && walk->wrong <= walk->scores[best] / WRONG_SHARE;
}

/* ------------------------------------------------------------------ counting */

static void count_run(struct map_walk *walk, const struct run *run)
{
	struct limpet_mimalloc_page page;
	uint64_t entry;

	for (unsigned tries = 0; tries < LIMPET_MIMALLOC_TRIES; tries++) {
		if (tries &&
		    limpet_memory_reader_read(walk->memory, run->entry, &entry, sizeof(entry)) < 0)
			break;
		/* It may be given back meanwhile. */
		if ((tries && entry != run->page) ||
		    (read_page(walk->memory, run, walk->layout, &page) &&
		     limpet_mimalloc_count_page(&walk->count, &page)))
			return;
	}
	limpet_mimalloc_count_miss(&walk->count, 1);
}

static void count_map(struct map_walk *walk, uint64_t root)
{
	if (!find_layout(walk, root)) {
		limpet_mimalloc_count_fail(&walk->count);
		return;
	}
	walk->count.right = walk->count.wrong = 0;
	walk_map(walk, root, count_run);
	limpet_mimalloc_count_end(&walk->count);
}

int limpet_mimalloc_count_map(const struct limpet_memory_reader *memory,
			      const struct limpet_maps *maps, struct limpet_pages *pages,
			      const struct limpet_mimalloc_arenas *arenas,
			      struct limpet_class_tally *tally)
{
	struct map_walk walk = {.memory = memory,
				.maps = maps,
				.arenas = arenas,
				.count = {.memory = memory, .tally = tally}};
	int error = limpet_data_read(memory, maps, pages, scan, &walk);

	tally->is_cut |= walk.is_limited || arenas->is_cut;
	for (size_t i = 0; i < arenas->count; i++)
		tally->is_cut |= !is_explained(&walk, arenas->list[i]);
	if (!walk.root_count && !walk.is_limited)
		limpet_mimalloc_count_fail(&walk.count);
	for (unsigned i = 0; i < walk.root_count; i++)
		count_map(&walk, walk.roots[i]);
	tally->is_cut |= limpet_memory_reader_is_spent(memory);
	return error;
}
