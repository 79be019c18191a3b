#include "explain/gperftools.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "explain/data.h"
#include "explain/page_map.h"

/* src/pagemap.h, PageMap2 with addresses of 48 bits and pages of 8 KiB: a root of 2^17 pointers, in
 * the data of the program or library, to leaves of 2^18 pointers, one for each page: to the
 * structure of its span. The first and the last page of a span have one, and all of a span of small
 * blocks. Others may have one of a former span. */
#define WINDOW_BITS 9u
#define PAGE_WORDS ((uint64_t)1 << WINDOW_BITS)
#define UNIT_SHIFT 13u
#define UNIT_BYTES ((uint64_t)1 << UNIT_SHIFT)
#define LEAF_BITS 18u
#define LEAF_WORDS ((size_t)1 << LEAF_BITS)
#define LEAF_MASK ((uint64_t)LEAF_WORDS - 1)
#define LEAF_SHIFT (UNIT_SHIFT + LEAF_BITS)
#define ROOT_WORDS ((size_t)1 << (48 - LEAF_SHIFT))
#define UNITS ((uint64_t)1 << (48 - UNIT_SHIFT)) /* of all addresses */
#define USER_BITS 47                             /* of an address of a process */
/* src/span.h: the number of the first page, how many, two pointers, the list of free blocks; then
 * in one word the blocks in use, the size class, the state. */
enum { SPAN_START, SPAN_LENGTH, SPAN_BITS = 5, SPAN_WORDS };
#define BITS_COUNT ((uint64_t)0xffff)
#define BITS_CLASS_SHIFT 16u
#define BITS_CLASS ((uint64_t)0xff)
#define BITS_STATE_SHIFT 24u
#define BITS_STATE ((uint64_t)3)
#define SPANS_LIMIT ((size_t)8 << 20)
#define TRIES 3u /* of a span that is changing */
#define UNDONE 8u
/* How the root is found: by the entries around some pages. Most of those that lead anywhere lead to
 * spans. */
#define SPANS_NEEDED 3u
#define SPANS_AT_ONCE 64u
#define CHECKS_LIMIT 1024u
#define BACKWARDS 16u /* 64 MiB */
#define HOPELESS_CHECKS SPANS_AT_ONCE
#define SEARCH_READS ((uint64_t)512 << 10)
#define NEIGHBOURS 4u
/* Of so many spans one may be wrong: they change meanwhile. */
#define WRONG_SHARE 16u
/* src/common.h: class_to_size_, of 32 bits, then class_to_pages_, of 64, both with room for 96
 * classes up to 2.8, for 128 since. */
#define LARGEST_BYTES 262144u
#define CLASSES_LEAST 40u
static const unsigned rooms[] = {128, 96};
/* src/page_heap.h: behind the root the lists of free spans, then bytes that the heap has, that are
 * free, that were returned, and that were not. */
#define TOTALS_BYTES ((uint64_t)32 << 10)
#define TOTALS_AT_ONCE 64u

void limpet_gperftools_done(struct limpet_gperftools *gperftools)
{
	free(gperftools->list);
	limpet_heap_ranges_done(&gperftools->tables);
	*gperftools = (struct limpet_gperftools){0};
}

const struct limpet_gperftools_span *limpet_gperftools_find(
	const struct limpet_gperftools *gperftools, uint64_t address)
{
	const struct limpet_gperftools_span *list = gperftools->list;
	/* cppcheck-suppress constStatement */
	size_t above = LIMPET_PARTITION_POINT(i, gperftools->count, list[i].start <= address);

	return above && address < list[above - 1].end ? &list[above - 1] : NULL;
}

/* ------------------------------------------------------------------ one span */

/* 0: the span that begins with this page, if the entry leads to one; 1: it does not; or -errno. */
static int read_span(const struct limpet_memory_reader *memory, uint64_t entry, uint64_t page,
		     struct limpet_gperftools_span *ret_span)
{
	uint64_t words[SPAN_WORDS], bits, state;
	int error;

	if (!entry || entry % 8 || entry >> USER_BITS)
		return 1;
	error = limpet_memory_reader_read(memory, entry, words, sizeof(words));
	if (error)
		return error;
	bits = words[SPAN_BITS];
	state = bits >> BITS_STATE_SHIFT & BITS_STATE;
	if (words[SPAN_START] != page || !words[SPAN_LENGTH] || words[SPAN_LENGTH] > UNITS - page ||
	    state > LIMPET_GPERFTOOLS_RETURNED)
		return 1;
	*ret_span = (struct limpet_gperftools_span){
		.start = page << UNIT_SHIFT,
		.end = (page + words[SPAN_LENGTH]) << UNIT_SHIFT,
		.state = (uint8_t)state,
		.class = (uint8_t)(bits >> BITS_CLASS_SHIFT & BITS_CLASS),
		.count = (uint16_t)(bits & BITS_COUNT)};
	return 0;
}

/* ------------------------------------------------------------------ the root */

static bool may_be_leaf(const struct limpet_maps *maps, uint64_t leaf)
{
	const struct limpet_map *map;

	if (!leaf || leaf % 8)
		return false;
	map = limpet_proc_maps_find(maps, leaf);
	return map && (limpet_map_is_anonymous(map) || !strcmp(map->path, "[heap]")) &&
	       map->perms[1] == 'w' && map->perms[3] == 'p' && 8 * LEAF_WORDS <= map->end - leaf;
}

/* The last page of the span leads back to it, if it is of the same leaf. */
static bool leads_back(const struct limpet_memory_reader *memory, uint64_t leaf, uint64_t entry,
		       const struct limpet_gperftools_span *span)
{
	const uint64_t last = (span->end >> UNIT_SHIFT) - 1;
	uint64_t word;

	return last >> LEAF_BITS != span->start >> LEAF_SHIFT ||
	       (limpet_memory_reader_read_word(memory, leaf + 8 * (last & LEAF_MASK), &word) &&
		word == entry);
}

/* A candidate for a leaf. */
struct candidate {
	const struct limpet_memory_reader *memory;
	uint64_t leaf;
	unsigned checks, spans, others;
};

/* Most data that looks like a root is none, which the first looks at it show. */
static bool is_hopeless(const struct candidate *candidate)
{
	return candidate->checks >= HOPELESS_CHECKS &&
	       candidate->spans < candidate->checks / WRONG_SHARE;
}

/* Up to the first span entries may be of former ones; behind it one follows the other, unless it
 * changes meanwhile: then, too, those up to the next one do not matter. */
static void judge_entries(struct candidate *candidate, const uint64_t *entries, uint64_t first)
{
	uint64_t page = first;
	bool follows = false;

	for (unsigned tries = 0; page < first + PAGE_WORDS && tries < SPANS_AT_ONCE; page++) {
		const uint64_t entry = entries[page - first];
		struct limpet_gperftools_span span;

		if (!entry || (page > first && entry == entries[page - first - 1]))
			continue;
		tries++;
		candidate->checks++;
		if (read_span(candidate->memory, entry, page, &span) == 0 &&
		    leads_back(candidate->memory, candidate->leaf, entry, &span)) {
			candidate->spans++;
			follows = true;
			page = (span.end >> UNIT_SHIFT) - 1;
		} else {
			candidate->others += follows;
			follows = false;
		}
	}
}

/* By the entries around this page, or, in the midst of a large span, before it. */
static void judge_around(struct candidate *candidate, uint64_t address)
{
	const uint64_t base = address >> LEAF_SHIFT << LEAF_BITS;
	const unsigned before = candidate->spans;
	uint64_t at = address >> UNIT_SHIFT & LEAF_MASK & ~(PAGE_WORDS - 1), entries[PAGE_WORDS];

	for (unsigned tries = 0; tries < BACKWARDS && candidate->checks < CHECKS_LIMIT; tries++) {
		if (limpet_memory_reader_read(candidate->memory, candidate->leaf + 8 * at, entries,
					      sizeof(entries)) == 0)
			judge_entries(candidate, entries, base + at);
		if (candidate->spans > before || !at)
			break;
		at -= PAGE_WORDS;
	}
}

/* Of the mapping's first page on, where the first spans are, and of all samples. */
static unsigned count_explained(const struct limpet_page_map_search *search, uint64_t leaf)
{
	struct candidate candidate = {.memory = search->memory, .leaf = leaf};
	const struct limpet_map *map =
		limpet_proc_maps_find(search->maps, search->samples->list[0]);
	uint64_t before = UINT64_MAX;

	if (map && map->start >> LEAF_SHIFT == search->samples->list[0] >> LEAF_SHIFT)
		judge_around(&candidate, map->start);
	for (size_t i = 0; i < search->samples->count && !is_hopeless(&candidate); i++) {
		const uint64_t window = search->samples->list[i] >> UNIT_SHIFT >> WINDOW_BITS;

		if (window != before)
			judge_around(&candidate, search->samples->list[i]);
		before = window;
	}
	return candidate.others <= candidate.spans / WRONG_SHARE ? candidate.spans : 0;
}

/* Neither leaf begins in the other one. A table of pointers to blocks fails here. */
static bool are_disjoint(uint64_t leaf, uint64_t other)
{
	return (leaf > other ? leaf - other : other - leaf) >= 8 * LEAF_WORDS;
}

/* The words around it, as far as they are of this root, lead to leaves, too, or nowhere. */
static bool may_be_of_root(const struct limpet_page_map_search *search, const uint64_t *data,
			   size_t words, size_t at)
{
	const uint64_t index = search->samples->list[0] >> LEAF_SHIFT;
	const size_t before = index < NEIGHBOURS ? (size_t)index : NEIGHBOURS;

	if (index >= ROOT_WORDS || !may_be_leaf(search->maps, data[at]))
		return false;
	for (size_t i = at > before ? at - before : 0; i < words && i <= at + NEIGHBOURS; i++)
		if (i != at && data[i] &&
		    (!are_disjoint(data[at], data[i]) || !may_be_leaf(search->maps, data[i])))
			return false;
	return true;
}

static const struct limpet_page_map_kind kind = {
	.root_bytes = 8 * ROOT_WORDS,
	.root_shift = LEAF_SHIFT,
	.least = SPANS_NEEDED,
	.reads = SEARCH_READS,
	.may_be_of_root = may_be_of_root,
	.explained = count_explained,
};

/* Of the program break, from which this tcmalloc takes memory first, or of no known owner. */
static int choose_samples(const struct limpet_maps *maps, const struct limpet_memory_ranges *ranges,
			  bool of_break, struct limpet_samples *ret_samples)
{
	struct limpet_memory_ranges chosen = {0};

	for (size_t i = 0; i < ranges->count; i++) {
		struct limpet_memory_range range = ranges->list[i];
		const struct limpet_map *map = limpet_proc_maps_find(maps, range.start);

		if ((map && !strcmp(map->path, "[heap]")) != of_break)
			continue;
		if (of_break)
			range.account = LIMPET_MEMORY_UNKNOWN;
		limpet_memory_ranges_add(&chosen, &range);
	}
	limpet_samples_choose(&chosen, ret_samples);
	limpet_memory_ranges_done(&chosen);
	return chosen.error;
}

/* ------------------------------------------------------------------ all spans */

struct map_walk {
	struct limpet_page_map_reader reader;
	struct limpet_gperftools *gperftools;
	uint64_t root;
	uint64_t base;       /* the first page of the leaf that is read */
	uint64_t next;       /* the page behind the last span */
	size_t right, wrong; /* spans; places where one should begin */
	bool is_lost;        /* since the last of the latter */
};

static int add_span(struct map_walk *walk, const struct limpet_gperftools_span *span)
{
	struct limpet_gperftools *gperftools = walk->gperftools;

	walk->next = span->end >> UNIT_SHIFT;
	walk->right++;
	walk->is_lost = false;
	if (gperftools->count >= SPANS_LIMIT) {
		gperftools->is_cut = true;
		return 0;
	}
	if (limpet_reserve(&gperftools->list, &gperftools->capacity, gperftools->count + 1,
			   sizeof(*gperftools->list)) < 0 ||
	    !gperftools->list)
		return -ENOMEM;
	gperftools->list[gperftools->count++] = *span;
	return 0;
}

static bool read_entry(const struct map_walk *walk, uint64_t page, uint64_t *ret_entry)
{
	uint64_t leaf;

	return limpet_memory_reader_read_word(walk->reader.memory,
					      walk->root + 8 * (page >> LEAF_BITS), &leaf) &&
	       leaf % 8 == 0 && !(leaf >> USER_BITS) &&
	       limpet_memory_reader_read_word(walk->reader.memory, leaf + 8 * (page & LEAF_MASK),
					      ret_entry);
}

/* As read_span. For some instructions of the program, one that was free and will be of small blocks
 * is one block, and one of which the rest stays free is longer than it will be. */
static int read_settled(const struct map_walk *walk, uint64_t entry, uint64_t page,
			struct limpet_gperftools_span *ret_span)
{
	struct limpet_gperftools_span span;
	uint64_t last;
	int result = read_span(walk->reader.memory, entry, page, ret_span);

	if (result || ret_span->state != LIMPET_GPERFTOOLS_IN_USE || ret_span->class)
		return result;
	if (!read_entry(walk, (ret_span->end >> UNIT_SHIFT) - 1, &last) || last != entry)
		return 1;
	result = read_span(walk->reader.memory, entry, page, &span);
	return result ? result
		      : span.end != ret_span->end || span.state != ret_span->state || span.class;
}

/* The span that begins with this page by now; otherwise as read_span. */
static int read_again(const struct map_walk *walk, uint64_t page,
		      struct limpet_gperftools_span *ret_span)
{
	uint64_t entry;

	return read_entry(walk, page, &entry) ? read_settled(walk, entry, page, ret_span) : 1;
}

/* Meanwhile the page became a part of the free span before it, which is read again. False: it did
 * not. */
static bool has_merged(struct map_walk *walk, uint64_t page)
{
	struct limpet_gperftools *gperftools = walk->gperftools;
	uint64_t end = page << UNIT_SHIFT;

	for (unsigned undone = 0; undone < UNDONE && gperftools->count; undone++) {
		struct limpet_gperftools_span *last = &gperftools->list[gperftools->count - 1], now;

		if (last->end != end)
			return false;
		end = last->start;
		if (read_again(walk, last->start >> UNIT_SHIFT, &now) == 0) {
			*last = now;
			if (now.end >> UNIT_SHIFT <= page)
				return false;
			walk->next = now.end >> UNIT_SHIFT;
			return true;
		}
		/* It is none any more: of the one before, as a rule. */
		gperftools->count--;
	}
	return false;
}

/* An entry where a span should begin, but none does. */
static int read_changing(struct map_walk *walk, uint64_t page)
{
	struct limpet_gperftools_span span;

	for (unsigned tries = 0; tries < TRIES; tries++) {
		if (has_merged(walk, page))
			return 0;
		if (read_again(walk, page, &span) == 0)
			return add_span(walk, &span);
	}
	walk->gperftools->missed = true;
	walk->wrong += !walk->is_lost;
	walk->is_lost = true;
	return 0;
}

/* Whether it cannot be the map: it does not lead to spans. */
static bool is_none(const struct map_walk *walk)
{
	return walk->wrong > 64 && walk->wrong > walk->right / WRONG_SHARE;
}

/* Entries of a leaf's pages. All of it that belongs to a large span is passed over. */
static int64_t visit_leaf(void *context, const uint64_t *entries, size_t count, size_t first)
{
	struct map_walk *walk = context;
	const uint64_t end = walk->base + first + count;
	int error = 0;

	for (size_t i = 0; i < count && !error && !walk->gperftools->is_cut; i++) {
		const uint64_t page = walk->base + first + i;
		struct limpet_gperftools_span span;
		int result;

		if (page < walk->next || !entries[i])
			continue;
		result = read_settled(walk, entries[i], page, &span);
		if (result == -ETIME)
			walk->gperftools->is_cut = walk->gperftools->missed = true;
		else if (result)
			error = read_changing(walk, page);
		else
			error = add_span(walk, &span);
	}
	if (error || is_none(walk))
		return error ? error : LIMPET_PAGE_MAP_END;
	return walk->next > end ? (int64_t)(walk->next - end) : 0;
}

static int64_t visit_root(void *context, const uint64_t *leaves, size_t count, size_t first)
{
	struct map_walk *walk = context;
	int error = 0;

	for (size_t i = 0; i < count && !error && !walk->gperftools->is_cut && !is_none(walk);
	     i++) {
		const uint64_t leaf = leaves[i];
		const size_t right = walk->right;

		if (!leaf || leaf % 8 || leaf >> USER_BITS)
			continue;
		walk->gperftools->is_cut |= limpet_memory_reader_is_spent(walk->reader.memory);
		walk->base = (uint64_t)(first + i) << LEAF_BITS;
		/* Two words that lead to one leaf do not matter: it has no span of the second. */
		error = limpet_page_map_read(&walk->reader, leaf, LEAF_WORDS, visit_leaf, walk);
		if (!error && walk->right > right)
			error = limpet_heap_ranges_add(&walk->gperftools->tables, leaf,
						       leaf + 8 * LEAF_WORDS, true);
	}
	return error || !is_none(walk) ? error : LIMPET_PAGE_MAP_END;
}

/* Whether the heap's own totals, behind the root, are those of the spans. */
static bool has_totals(const struct limpet_memory_reader *memory, uint64_t root,
		       const struct limpet_gperftools *gperftools)
{
	const uint64_t start = root + 8 * ROOT_WORDS;
	uint64_t words[TOTALS_AT_ONCE + 3], sum = 0;

	for (size_t i = 0; i < gperftools->count; i++)
		sum += gperftools->list[i].end - gperftools->list[i].start;
	for (uint64_t at = start; at < start + TOTALS_BYTES; at += 8 * (uint64_t)TOTALS_AT_ONCE) {
		if (limpet_memory_reader_read(memory, at, words, sizeof(words)) < 0)
			continue;
		for (size_t i = 0; i < TOTALS_AT_ONCE; i++)
			if (words[i] == sum && words[i + 1] <= sum && words[i + 2] <= sum &&
			    words[i + 3] == sum - words[i + 2] &&
			    words[i + 1] <= sum - words[i + 2])
				return true;
	}
	return false;
}

int limpet_gperftools_read_map(const struct limpet_memory_reader *memory,
			       struct limpet_pages *pages, uint64_t root,
			       struct limpet_gperftools *gperftools)
{
	struct map_walk walk = {.reader = {memory, pages, &gperftools->is_cut, &gperftools->missed},
				.gperftools = gperftools,
				.root = root};
	int error = limpet_page_map_read(&walk.reader, root, ROOT_WORDS, visit_root, &walk);

	limpet_heap_ranges_sort(&gperftools->tables);
	/* It was something else that explained a few samples. */
	if (!error && (!walk.right || walk.wrong > walk.right / WRONG_SHARE)) {
		const bool is_cut = gperftools->is_cut;

		limpet_gperftools_done(gperftools);
		gperftools->is_cut = is_cut;
	}
	gperftools->is_whole = gperftools->count && !gperftools->is_cut && !gperftools->missed &&
			       has_totals(memory, root, gperftools);
	return error;
}

/* ------------------------------------------------------------------ size classes */

struct class_search {
	const struct limpet_memory_reader *memory;
	const struct limpet_gperftools *gperftools;
	struct limpet_gperftools_classes found;
	bool is_ambiguous;
};

static bool fits(const struct limpet_gperftools_classes *classes,
		 const struct limpet_gperftools_span *span)
{
	const uint64_t bytes = span->end - span->start;

	return span->class < classes->count &&
	       (!span->class || (bytes == classes->pages[span->class] * UNIT_BYTES &&
				 span->count <= bytes / classes->bytes[span->class]));
}

static bool fits_all(const struct limpet_gperftools *gperftools,
		     const struct limpet_gperftools_classes *classes)
{
	size_t right = 0, wrong = 0;

	for (size_t i = 0; i < gperftools->count; i++) {
		const struct limpet_gperftools_span *span = &gperftools->list[i];

		if (span->state != LIMPET_GPERFTOOLS_IN_USE || !span->class)
			continue;
		if (fits(classes, span))
			right++;
		else
			wrong++;
	}
	return right && wrong <= right / WRONG_SHARE;
}

/* How many numbers there are; 0: these are no sizes of classes. */
static uint32_t judge_sizes(const uint32_t *sizes, size_t room)
{
	uint32_t count = 1;

	if (room < CLASSES_LEAST || sizes[0] || (sizes[1] != 8 && sizes[1] != 16))
		return 0;
	while (count < room && count < LIMPET_GPERFTOOLS_CLASSES &&
	       sizes[count - 1] < sizes[count] && sizes[count] % 8 == 0 &&
	       sizes[count] <= LARGEST_BYTES)
		count++;
	return count >= CLASSES_LEAST && sizes[count - 1] == LARGEST_BYTES ? count : 0;
}

static bool read_pages(const struct class_search *search, uint64_t address, unsigned room,
		       struct limpet_gperftools_classes *classes)
{
	uint64_t pages[LIMPET_GPERFTOOLS_CLASSES];
	const uint64_t at = (address + 4 * (uint64_t)room + 7) & ~(uint64_t)7;

	if (classes->count > room ||
	    limpet_memory_reader_read(search->memory, at, pages, 8 * (size_t)room) < 0 || pages[0])
		return false;
	for (size_t i = 1; i < classes->count; i++) {
		if (pages[i] > UINT16_MAX || pages[i] * UNIT_BYTES < classes->bytes[i])
			return false;
		classes->pages[i] = (uint32_t)pages[i];
	}
	return classes->count == room || !pages[classes->count];
}

static void note_classes(struct class_search *search,
			 const struct limpet_gperftools_classes *classes)
{
	if (!fits_all(search->gperftools, classes))
		return;
	if (search->found.count && memcmp(&search->found, classes, sizeof(*classes)) != 0)
		search->is_ambiguous = true;
	search->found = *classes;
}

static void scan_classes(void *context, const uint64_t *data, size_t bytes, uint64_t address)
{
	struct class_search *search = context;
	const uint32_t *words = (const uint32_t *)data;

	for (size_t i = 0; i + CLASSES_LEAST <= bytes / 4; i++) {
		struct limpet_gperftools_classes classes = {
			.count = judge_sizes(words + i, bytes / 4 - i)};

		if (!classes.count)
			continue;
		memcpy(classes.bytes, words + i, classes.count * sizeof(*words));
		for (size_t k = 0; k < LIMPET_COUNT_OF(rooms); k++)
			if (read_pages(search, address + 4 * i, rooms[k], &classes)) {
				note_classes(search, &classes);
				break;
			}
	}
}

static int find_classes(const struct limpet_memory_reader *memory, const struct limpet_maps *maps,
			struct limpet_pages *pages, struct limpet_gperftools *gperftools)
{
	struct class_search search = {.memory = memory, .gperftools = gperftools};
	int error = limpet_data_read(memory, maps, pages, scan_classes, &search);

	if (!error && !search.is_ambiguous)
		gperftools->classes = search.found;
	return error;
}

/* ------------------------------------------------------------------ all */

static int find_root(const struct limpet_memory_reader *memory, const struct limpet_maps *maps,
		     struct limpet_pages *pages, const struct limpet_memory_ranges *ranges,
		     bool of_break, struct limpet_gperftools *gperftools)
{
	struct limpet_samples samples;
	const struct limpet_page_map_search search = {&kind, memory, maps, &samples, NULL};
	bool was_cut = false;
	int error = choose_samples(maps, ranges, of_break, &samples);

	if (!error)
		error = limpet_page_map_find(&search, pages, &gperftools->root, &was_cut);
	gperftools->is_cut |= was_cut;
	return error;
}

int limpet_gperftools_read(const struct limpet_memory_reader *memory,
			   const struct limpet_maps *maps, struct limpet_pages *pages,
			   const struct limpet_memory_ranges *ranges,
			   struct limpet_gperftools *gperftools)
{
	int error = find_root(memory, maps, pages, ranges, true, gperftools);

	if (!error && !gperftools->root)
		error = find_root(memory, maps, pages, ranges, false, gperftools);
	if (error || !gperftools->root)
		return error;
	gperftools->is_cut = false;
	error = limpet_gperftools_read_map(memory, pages, gperftools->root, gperftools);
	return error || !gperftools->count ? error : find_classes(memory, maps, pages, gperftools);
}

uint64_t limpet_gperftools_used_bytes(const struct limpet_gperftools_classes *classes,
				      const struct limpet_gperftools_span *span)
{
	if (span->state != LIMPET_GPERFTOOLS_IN_USE)
		return 0;
	if (!span->class || !fits(classes, span))
		return span->end - span->start;
	return (uint64_t)span->count * classes->bytes[span->class];
}

void limpet_gperftools_count(const struct limpet_gperftools *gperftools,
			     const struct limpet_gperftools_classes *classes,
			     struct limpet_class_tally *tally)
{
	for (size_t i = 0; i < gperftools->count; i++) {
		const struct limpet_gperftools_span *span = &gperftools->list[i];

		if (span->state != LIMPET_GPERFTOOLS_IN_USE)
			continue;
		if (!span->class)
			limpet_class_tally_note(tally, span->end - span->start, 1);
		else if (fits(classes, span))
			limpet_class_tally_note(tally, classes->bytes[span->class], span->count);
		else
			tally->is_cut = true;
	}
	tally->is_cut |= !gperftools->is_whole;
}
