#include "analyzer/model/page_shares.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"

#define LEAST_BLOCK_BYTES 32u
#define CLASS_PARTS 4u

/* ------------------------------------------------------------------ dividing */

/* Bytes of [start, end) within the ranges. `start` never decreases: *at is the first range that
 * may still matter. */
static uint64_t bytes_within(const struct limpet_trace_run *list, size_t count, size_t *at,
			     uint64_t start, uint64_t end)
{
	uint64_t bytes = 0;

	while (*at < count && list[*at].end <= start)
		(*at)++;
	for (size_t i = *at; i < count && list[i].start < end; i++) {
		const uint64_t from = list[i].start > start ? list[i].start : start;
		const uint64_t to = list[i].end < end ? list[i].end : end;

		bytes += to - from;
	}
	return bytes;
}

static uint64_t resident(struct limpet_page_division *division, uint64_t start, uint64_t end)
{
	return bytes_within(division->runs, division->run_count, &division->run_at, start, end);
}

static uint64_t examined(struct limpet_page_division *division, uint64_t start, uint64_t end)
{
	return bytes_within(division->examined, division->examined_count, &division->examined_at,
			    start, end);
}

static bool is_alone(const struct limpet_page_division *division)
{
	for (size_t i = 1; i < division->part_count; i++)
		if (division->parts[i].group != division->parts[0].group)
			return false;
	return true;
}

/* Divides the last page. Rounds sums, not parts, so that they add up to the page. */
static void divide_page(struct limpet_page_division *division)
{
	const uint64_t page = division->page_bytes;
	const bool alone = is_alone(division);
	uint64_t all = 0, sum = 0, given = 0;

	if (!division->part_count ||
	    resident(division, division->page, division->page + page) < page) {
		division->part_count = 0;
		return;
	}
	for (size_t i = 0; i < division->part_count; i++)
		all += division->parts[i].bytes;
	for (size_t i = 0; i < division->part_count; i++) {
		const struct limpet_page_part *part = &division->parts[i];
		struct limpet_page_share *share = &division->groups[part->group];
		uint64_t held;

		sum += part->bytes;
		held = page * sum / all - given;
		given += held;
		share->held_bytes += held;
		share->alone_bytes += alone ? held : 0;
	}
	division->part_count = 0;
}

/* A part of a block within one page, of which other blocks may have the rest. Returns how much of
 * it is resident. */
static int64_t add_part(struct limpet_page_division *division, uint64_t start, uint64_t end,
			uint32_t group)
{
	const uint64_t page = start & ~(division->page_bytes - 1);

	if (page != division->page)
		divide_page(division);
	division->page = page;
	if (limpet_reserve(&division->parts, &division->part_capacity, division->part_count + 1,
			   sizeof(*division->parts)) < 0 ||
	    !division->parts)
		return -ENOMEM;
	division->parts[division->part_count++] = (struct limpet_page_part){group, end - start};
	return (int64_t)resident(division, start, end);
}

/* Whole pages of one block. */
static uint64_t add_pages(struct limpet_page_division *division, uint64_t start, uint64_t end,
			  uint32_t group)
{
	struct limpet_page_share *share = &division->groups[group];
	uint64_t bytes;

	if (start >= end)
		return 0;
	divide_page(division);
	bytes = resident(division, start, end);
	share->held_bytes += bytes;
	share->alone_bytes += bytes;
	return bytes;
}

int limpet_page_division_add(struct limpet_page_division *division, uint64_t address, uint64_t size,
			     uint32_t group)
{
	const uint64_t mask = division->page_bytes - 1;
	const uint64_t bytes = size ? size : 1;
	struct limpet_page_share *share = &division->groups[group];
	uint64_t start = address > division->block_end ? address : division->block_end;
	uint64_t end = address + bytes < address ? UINT64_MAX & ~mask : address + bytes;
	uint64_t unknown, whole, on_pages = 0;
	int64_t part = 0;

	share->blocks++;
	share->live_bytes += size;
	if (start >= end)
		return 0;
	division->block_end = end;
	unknown = end - start - examined(division, start, end);
	division->unexamined_bytes += unknown;
	division->unexamined_blocks += unknown != 0;
	if (start & mask) {
		const uint64_t limit = (start | mask) + 1 < end ? (start | mask) + 1 : end;

		part = add_part(division, start, limit, group);
		start = limit;
	}
	if (part < 0)
		return (int)part;
	on_pages += (uint64_t)part;
	whole = end & ~mask;
	if (start < whole) {
		on_pages += add_pages(division, start, whole, group);
		start = whole;
	}
	part = start < end ? add_part(division, start, end, group) : 0;
	if (part < 0)
		return (int)part;
	on_pages += (uint64_t)part;
	/* The byte of an empty block is none that the program has. */
	share->resident_live_bytes += size ? on_pages : 0;
	if (on_pages)
		share->needed_bytes += on_pages + on_pages / CLASS_PARTS + LEAST_BLOCK_BYTES;
	return 0;
}

void limpet_page_division_end(struct limpet_page_division *division)
{
	divide_page(division);
	free(division->parts);
	division->parts = NULL;
	division->part_capacity = 0;
}

/* ------------------------------------------------------------------ of a trace */

struct ranges {
	struct limpet_trace_run *list;
	size_t count, capacity;
};

static int add_range(struct ranges *ranges, const struct limpet_trace_run *range)
{
	if (ranges->count && range->start < ranges->list[ranges->count - 1].end)
		return -EBADMSG;
	if (limpet_reserve(&ranges->list, &ranges->capacity, ranges->count + 1,
			   sizeof(*ranges->list)) < 0)
		return -ENOMEM;
	ranges->list[ranges->count++] = *range;
	return 0;
}

/* A block that is damaged, or not in order, is one that was not examined. */
static int read_resident(struct limpet_trace_reader *reader, size_t block, uint64_t *page_bytes,
			 struct ranges *examined, struct ranges *runs)
{
	struct limpet_trace_resident *resident;
	int code = limpet_trace_resident_load(reader, block, &resident);

	if (code < 0)
		return code == -EBADMSG ? 0 : code;
	if (!*page_bytes)
		*page_bytes = resident->page_bytes;
	if (*page_bytes == resident->page_bytes)
		code = add_range(examined,
				 &(struct limpet_trace_run){resident->from, resident->to});
	else
		code = -EBADMSG;
	for (size_t i = 0; i < resident->count && code == 0; i++)
		code = add_range(runs, &resident->runs[i]);
	limpet_trace_resident_free(resident);
	return code == -EBADMSG ? 0 : code;
}

static int divide_block(struct limpet_trace_reader *reader, size_t block,
			const uint32_t *group_of_node, struct limpet_page_division *division)
{
	struct limpet_trace_live *live;
	int64_t count = limpet_trace_live_load(reader, block, &live);
	int code = 0;

	if (count < 0)
		return count == -EBADMSG ? 0 : (int)count;
	for (int64_t i = 0; i < count && code == 0; i++)
		if (!live[i].mapping)
			code = limpet_page_division_add(division, live[i].address, live[i].size,
							group_of_node[live[i].node]);
	free(live);
	return code;
}

static void add_share(struct limpet_page_share *to, const struct limpet_page_share *from)
{
	to->blocks += from->blocks;
	to->live_bytes += from->live_bytes;
	to->resident_live_bytes += from->resident_live_bytes;
	to->needed_bytes += from->needed_bytes;
	to->held_bytes += from->held_bytes;
	to->alone_bytes += from->alone_bytes;
}

static int divide(struct limpet_trace_reader *reader, const uint32_t *group_of_node,
		  struct limpet_page_division *division)
{
	const struct limpet_trace_block *blocks;
	const size_t count = limpet_trace_reader_blocks(reader, &blocks);
	int code = 0;

	for (size_t i = 0; i < count && code == 0; i++)
		if (blocks[i].type == LIMPET_TRACE_LIVE && !blocks[i].damaged)
			code = divide_block(reader, i, group_of_node, division);
	limpet_page_division_end(division);
	return code;
}

static int find_resident(struct limpet_trace_reader *reader, uint64_t *ret_page_bytes,
			 struct ranges *examined, struct ranges *runs)
{
	const struct limpet_trace_block *blocks;
	const size_t count = limpet_trace_reader_blocks(reader, &blocks);
	int code = 0;

	for (size_t i = 0; i < count && code == 0; i++)
		if (blocks[i].type == LIMPET_TRACE_RESIDENT && !blocks[i].damaged)
			code = read_resident(reader, i, ret_page_bytes, examined, runs);
	return code < 0 || examined->count ? code : -ENODATA;
}

int limpet_page_shares_new(struct limpet_trace_reader *reader, const struct limpet_model *model,
			   const uint32_t *group_of_node, size_t groups,
			   struct limpet_page_shares **ret_shares)
{
	struct limpet_page_shares *shares = calloc(1, sizeof(*shares));
	struct ranges examined = {0}, runs = {0};
	struct limpet_page_division division = {0};
	int code = -ENOMEM;

	if (shares)
		shares->groups = calloc(groups + 1, sizeof(*shares->groups));
	if (shares && shares->groups)
		code = model->sample_bytes
			       ? -ENODATA
			       : find_resident(reader, &division.page_bytes, &examined, &runs);
	if (code == 0) {
		division.runs = runs.list;
		division.run_count = runs.count;
		division.examined = examined.list;
		division.examined_count = examined.count;
		division.groups = shares->groups;
		code = divide(reader, group_of_node, &division);
	}
	free(runs.list);
	free(examined.list);
	if (code < 0) {
		limpet_page_shares_free(shares);
		return code;
	}
	shares->count = groups;
	shares->page_bytes = division.page_bytes;
	shares->unexamined_blocks = division.unexamined_blocks;
	shares->unexamined_bytes = division.unexamined_bytes;
	for (size_t i = 0; i < groups; i++)
		add_share(&shares->all, &shares->groups[i]);
	*ret_shares = shares;
	return 0;
}

void limpet_page_shares_free(struct limpet_page_shares *shares)
{
	if (!shares)
		return;
	free(shares->groups);
	free(shares);
}

const char *limpet_page_shares_unknown(const struct limpet_model *model)
{
	const enum limpet_end end = model->end->end;

	if (model->target->pages)
		return "this view is of blocks, for traces of limpet attach and limpet run: a "
		       "trace of limpet pages has none";
	if (model->sample_bytes)
		return "allocations were sampled: what else lies on the pages of a block is not "
		       "known";
	if (end == LIMPET_END_RUNNING)
		return "the capture is still running: pages are looked at when it ends";
	if (end == LIMPET_END_TARGET_EXIT || end == LIMPET_END_TARGET_EXEC ||
	    end == LIMPET_END_TARGET_KILLED)
		return "the program had ended before its pages could be looked at";
	return "the trace does not say which pages were resident: there were no live blocks, or "
	       "the pages could not be looked at";
}
