#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "explain/mimalloc_census.h"
#include "explain/mimalloc_page.h"

/* include/mimalloc/types.h. A segment's head ends in entries, one for each slice of 64 KiB, as far
 * as there is room for them, and one more in newer releases. The entry of a page's or a free span's
 * first slice has the number of its slices, and that of its last slice the distance back, in bytes:
 * so entries tile the segment, by which their place and size is found. Before them are: pages in
 * use, cookie, slices, slices of the head. */
#define SLICE_BYTES ((uint64_t)64 << 10)
/* Of segments of 32 MiB, and of 64 MiB before 2.0.9. */
#define ENTRIES 512u
#define ENTRIES_LIMIT 1024u
#define ENTRY_LEAST_BYTES 72u
#define ENTRY_LIMIT_BYTES 192u
#define COPY_BYTES ((size_t)256 << 10)
#define PAGE ((uint64_t)4096)
/* Entries begin that many words after the number of slices. */
#define FIRST_LEAST 3u
#define FIRST_LIMIT 10u
/* A size of 32 bits that says: the size of the slices. */
#define SIZE_OF_SLICES ((uint64_t)2 << 30)
#define SAMPLES 8u
/* Of an entry: these are the same in all releases. */
enum { SLICES_AT = 0, DISTANCE_AT = 4, CAPACITY_AT = 10, RESERVED_AT = 12, FREE_AT = 16 };
/* The lowest bits of the waiting list: another thread puts, or has put, one block more into a list
 * of the heap. */
enum { STATE_MASK = 3, STATE_PUTTING = 1, STATE_PUT = 2 };

/* Offsets within an entry; 0: there is no such field. */
struct layout {
	uint8_t used, used_bytes, size, size_bytes;
	uint8_t shift; /* by which 1 is the block size, or 0 */
	uint8_t start; /* the address of the first block */
	uint8_t keys;
	uint8_t waiting;
};
static const struct layout layouts[] = {
	/* 2.0.0 to 2.1.6 */
	{.used = 24, .used_bytes = 4, .size = 28, .size_bytes = 4, .waiting = 40},
	/* 2.1.7 on */
	{.used = 32,
	 .used_bytes = 2,
	 .size = 40,
	 .size_bytes = 8,
	 .shift = 34,
	 .start = 48,
	 .waiting = 56},
	/* The same with encoded lists, built to be secure or to debug; and 2.0.0 to 2.0.7 so. */
	{.used = 24, .used_bytes = 4, .size = 28, .size_bytes = 4, .keys = 40, .waiting = 56},
	{.used = 32,
	 .used_bytes = 2,
	 .size = 40,
	 .size_bytes = 8,
	 .shift = 34,
	 .start = 48,
	 .keys = 56,
	 .waiting = 72},
	{.used = 40, .used_bytes = 4, .size = 44, .size_bytes = 4, .keys = 24, .waiting = 56},
};

/* The head of a segment, with zeros where nothing is present. */
struct segment {
	uint64_t address, slices, entries, own_slices, used;
	unsigned char copy[COPY_BYTES];
};

static uint64_t get(const unsigned char *copy, size_t at, size_t bytes)
{
	return limpet_mimalloc_get(copy, at, bytes);
}

struct shape {
	unsigned first, stride;
	const struct layout *layout;
};

struct walk {
	const struct limpet_memory_reader *memory;
	const struct limpet_maps *maps;
	const struct limpet_mimalloc *mimalloc;
	struct limpet_mimalloc_count count;
	struct shape shape;
	size_t map; /* the next segment: from there on */
	uint64_t at;
	struct segment segment;
};

/* ------------------------------------------------------------------ segments */

static bool read_segment(struct walk *walk, uint64_t address)
{
	const struct limpet_mimalloc *mimalloc = walk->mimalloc;
	const size_t words = mimalloc->offset + mimalloc->gap;
	struct segment *segment = &walk->segment;
	const uint64_t bytes = limpet_mimalloc_segment(walk->memory, mimalloc, address);

	if (!bytes)
		return false;
	memset(segment->copy, 0, sizeof(segment->copy));
	for (size_t at = 0; at < COPY_BYTES && at < bytes; at += PAGE) {
		const int error = limpet_memory_reader_read(walk->memory, address + at,
							    segment->copy + at, PAGE);

		walk->count.tally->is_cut |= error == -ETIME;
	}
	segment->address = address;
	segment->slices = bytes / SLICE_BYTES;
	segment->own_slices = get(segment->copy, 8 * (words + 1), 8);
	segment->used = mimalloc->offset ? get(segment->copy, 8 * (mimalloc->offset - 1), 8) : 0;
	/* After the segment's kind, before or after its thread. */
	segment->entries = get(segment->copy, 8 * (words + 3), 8);
	if (segment->entries != ENTRIES && segment->entries != ENTRIES_LIMIT)
		segment->entries = get(segment->copy, 8 * (words + 4), 8);
	if (segment->entries != ENTRIES_LIMIT)
		segment->entries = ENTRIES;
	return true;
}

/* The next segment that has pages in use. */
static bool next_segment(struct walk *walk)
{
	for (; walk->map < walk->maps->count; walk->map++) {
		const struct limpet_map *map = &walk->maps->list[walk->map];
		uint64_t at = map->start > walk->at ? map->start : walk->at;

		if (map->perms[1] != 'w' || map->perms[3] != 'p' || map->inode)
			continue;
		at = (at + LIMPET_MIMALLOC_SEGMENT_BYTES - 1) &
		     ~(LIMPET_MIMALLOC_SEGMENT_BYTES - 1);
		while (at < map->end && !limpet_memory_reader_is_spent(walk->memory)) {
			const bool is_one = read_segment(walk, at) && walk->segment.used;

			at += is_one ? walk->segment.slices * SLICE_BYTES
				     : LIMPET_MIMALLOC_SEGMENT_BYTES;
			at = (at + LIMPET_MIMALLOC_SEGMENT_BYTES - 1) &
			     ~(LIMPET_MIMALLOC_SEGMENT_BYTES - 1);
			walk->at = at;
			if (is_one)
				return true;
		}
	}
	walk->count.tally->is_cut |= limpet_memory_reader_is_spent(walk->memory);
	return false;
}

static void begin(struct walk *walk)
{
	walk->map = 0;
	walk->at = 0;
}

/* ------------------------------------------------------------------ where entries are */

static bool tiles(const struct segment *segment, unsigned first, unsigned stride)
{
	uint64_t at = 0;

	while (at < segment->slices && at <= segment->entries) {
		const unsigned char *entry = segment->copy + first + at * stride;
		const uint64_t slices = get(entry, SLICES_AT, 4), last = at + slices - 1;

		if (!slices || slices > segment->slices - at || get(entry, DISTANCE_AT, 4) ||
		    (!at && slices != segment->own_slices))
			return false;
		if (slices > 1 && last < segment->entries &&
		    get(segment->copy, first + last * stride + DISTANCE_AT, 4) !=
			    (slices - 1) * stride)
			return false;
		at += slices;
	}
	return at == segment->slices;
}

/* True: one shape, and no other, has tiled all samples, but for one that changed. */
static bool find_entries(struct walk *walk)
{
	const unsigned words = walk->mimalloc->offset + walk->mimalloc->gap;
	unsigned scores[FIRST_LIMIT][ENTRY_LIMIT_BYTES / 8 + 1] = {{0}};
	unsigned samples = 0, best = 0, same = 0;

	begin(walk);
	for (; samples < SAMPLES && next_segment(walk); samples++)
		for (unsigned i = FIRST_LEAST; i < FIRST_LIMIT; i++)
			for (unsigned k = ENTRY_LEAST_BYTES / 8; k <= ENTRY_LIMIT_BYTES / 8; k++)
				scores[i][k] += tiles(&walk->segment, 8 * (words + i), 8 * k);
	for (unsigned i = FIRST_LEAST; i < FIRST_LIMIT; i++)
		for (unsigned k = ENTRY_LEAST_BYTES / 8; k <= ENTRY_LIMIT_BYTES / 8; k++) {
			same = scores[i][k] > best ? 1 : same + (scores[i][k] == best);
			if (scores[i][k] <= best)
				continue;
			best = scores[i][k];
			walk->shape = (struct shape){.first = 8 * (words + i), .stride = 8 * k};
		}
	return best && same == 1 && best + 1 >= samples;
}

/* ------------------------------------------------------------------ one page */

/* An entry that is the first of a page in use. False: it cannot be one in this layout. */
static bool read_page(const struct segment *segment, size_t at, uint64_t index,
		      const struct layout *layout, struct limpet_mimalloc_page *ret_page)
{
	const unsigned char *entry = segment->copy + at;
	const uint64_t slices = get(entry, SLICES_AT, 4), waiting = get(entry, layout->waiting, 8);
	const unsigned state = waiting & STATE_MASK,
		       shift = layout->shift ? entry[layout->shift] : 0;
	struct limpet_mimalloc_page page = {
		.address = segment->address + at,
		.start = segment->address + index * SLICE_BYTES,
		.block_bytes = get(entry, layout->size, layout->size_bytes),
		.reserved = get(entry, RESERVED_AT, 2),
		.capacity = get(entry, CAPACITY_AT, 2),
		.used = get(entry, layout->used, layout->used_bytes),
		.free = get(entry, FREE_AT, 8),
		.waiting = waiting & ~(uint64_t)STATE_MASK,
		.is_one_put = state == STATE_PUTTING || state == STATE_PUT};

	page.end = page.start + slices * SLICE_BYTES;
	if (layout->size_bytes == 4 && page.block_bytes == SIZE_OF_SLICES)
		page.block_bytes = slices * SLICE_BYTES;
	if (layout->start) {
		const uint64_t start = get(entry, layout->start, 8);

		if (start < page.start)
			return false;
		page.start = start;
	}
	if (layout->keys) {
		memcpy(page.keys, entry + layout->keys, sizeof(page.keys));
		if (!page.keys[0] || !page.keys[1])
			return false;
	}
	*ret_page = page;
	/* After the waiting list: the heap to which the page belongs. */
	return limpet_mimalloc_page_is_right(&page) &&
	       get(entry, (size_t)layout->waiting + 8, 8) % 8 == 0 &&
	       (!shift || (shift < 64 && (uint64_t)1 << shift == page.block_bytes));
}

static bool is_used(const unsigned char *entry, const struct layout *layout)
{
	return get(entry, layout->size, layout->size_bytes) > 1;
}

/* ------------------------------------------------------------------ the layout */

/* How many pages of the segment this layout explains. 0: not all. */
static uint64_t explained(const struct segment *segment, const struct shape *shape,
			  const struct layout *layout)
{
	uint64_t count = 0, slices;

	for (uint64_t at = segment->own_slices; at < segment->slices && at <= segment->entries;
	     at += slices) {
		const size_t entry = shape->first + at * shape->stride;
		struct limpet_mimalloc_page page;

		slices = get(segment->copy, entry + SLICES_AT, 4);
		if (!slices)
			return 0;
		if (!is_used(segment->copy + entry, layout))
			continue;
		if (!read_page(segment, entry, at, layout, &page))
			return 0;
		count++;
	}
	return count == segment->used ? count : 0;
}

static bool find_layout(struct walk *walk)
{
	uint64_t scores[LIMPET_COUNT_OF(layouts)] = {0};
	unsigned samples = 0, right[LIMPET_COUNT_OF(layouts)] = {0};
	size_t best = 0;

	begin(walk);
	for (; samples < SAMPLES && next_segment(walk); samples++)
		for (size_t i = 0; i < LIMPET_COUNT_OF(layouts); i++) {
			const uint64_t pages =
				layouts[i].waiting + 16u <= walk->shape.stride
					? explained(&walk->segment, &walk->shape, &layouts[i])
					: 0;

			scores[i] += pages;
			right[i] += pages > 0;
		}
	/* Of equal ones the first: without keys, which are never 0. */
	for (size_t i = 1; i < LIMPET_COUNT_OF(layouts); i++)
		if (scores[i] > scores[best])
			best = i;
	walk->shape.layout = &layouts[best];
	return right[best] && right[best] + 1 >= samples;
}

/* ------------------------------------------------------------------ counting */

static void count_page(struct walk *walk, uint64_t index)
{
	const struct shape *shape = &walk->shape;
	const size_t at = shape->first + index * shape->stride;
	unsigned char *entry = walk->segment.copy + at;
	struct limpet_mimalloc_page page;

	for (unsigned tries = 0; tries < LIMPET_MIMALLOC_TRIES; tries++) {
		if (tries && limpet_memory_reader_read(walk->memory, walk->segment.address + at,
						       entry, shape->stride) < 0)
			break;
		if (!is_used(entry, shape->layout) ||
		    (read_page(&walk->segment, at, index, shape->layout, &page) &&
		     limpet_mimalloc_count_page(&walk->count, &page)))
			return;
	}
	limpet_mimalloc_count_miss(&walk->count, 1);
}

static void count_segment(struct walk *walk)
{
	struct segment *segment = &walk->segment;
	const struct shape *shape = &walk->shape;
	uint64_t slices;

	for (unsigned tries = 1; !tiles(segment, shape->first, shape->stride) ||
				 !explained(segment, shape, shape->layout);
	     tries++) {
		if (tries == LIMPET_MIMALLOC_TRIES) {
			walk->count.tally->is_cut = true;
			break;
		}
		/* It may be given back meanwhile. */
		if (!read_segment(walk, segment->address) || !segment->used)
			return;
	}
	if (!tiles(segment, shape->first, shape->stride)) {
		limpet_mimalloc_count_miss(&walk->count, segment->used);
		return;
	}
	for (uint64_t at = segment->own_slices; at < segment->slices && at <= segment->entries;
	     at += slices) {
		slices = get(segment->copy, shape->first + at * shape->stride + SLICES_AT, 4);
		if (is_used(segment->copy + shape->first + at * shape->stride, shape->layout))
			count_page(walk, at);
		slices = slices ? slices : 1;
	}
}

int limpet_mimalloc_count_segments(const struct limpet_memory_reader *memory,
				   const struct limpet_maps *maps,
				   const struct limpet_mimalloc *mimalloc,
				   struct limpet_class_tally *tally)
{
	LIMPET_FREE struct walk *walk = calloc(1, sizeof(*walk));

	if (!walk)
		return -ENOMEM;
	walk->memory = memory;
	walk->maps = maps;
	walk->mimalloc = mimalloc;
	walk->count = (struct limpet_mimalloc_count){.memory = memory, .tally = tally};
	if (!find_entries(walk) || !find_layout(walk)) {
		limpet_mimalloc_count_fail(&walk->count);
		return 0;
	}
	begin(walk);
	while (next_segment(walk))
		count_segment(walk);
	limpet_mimalloc_count_end(&walk->count);
	return 0;
}
