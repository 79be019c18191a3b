/* The PERIOD and LIVE blocks of limpet-trace(5): part of analyzer/trace/trace_reader.h. */
#include <errno.h>
#include <string.h>

#include "analyzer/trace/trace_reader.h"
#include "analyzer/trace/trace_reader_tables.h"
#include "common/trace_block.h"

/* The index of a node in the reader's table, or 0 if it is not there. */
static uint32_t known_node(const struct limpet_trace_reader *reader, uint64_t node)
{
	const struct limpet_trace_node *nodes;

	return node < limpet_trace_reader_nodes(reader, &nodes) ? (uint32_t)node : 0;
}

/* ------------------------------------------------------------------ PERIOD */

/* How a list of sites lies in memory: where in each item the node is, and what each column has. */
struct site_layout {
	size_t item_bytes, node_offset;
	const size_t *offsets;
	size_t column_count;
};

/* Reads a count, the nodes, and one column after the other into the members of an array of
 * structs. */
static int read_sites(const struct limpet_trace_reader *reader, struct limpet_cursor *list,
		      const struct site_layout *layout, void **ret_items, uint32_t *ret_count)
{
	uint64_t count = limpet_cursor_limited(list, LIMPET_TRACE_ROWS_MAX), node = 0;
	LIMPET_FREE uint8_t *items = NULL;

	if (*ret_items || count > limpet_cursor_left(list) / (layout->column_count + 1))
		return -EBADMSG;
	items = calloc(count + 1, layout->item_bytes);
	if (!items)
		return -ENOMEM;
	for (uint64_t i = 0; i < count; i++) {
		uint32_t known;

		node += limpet_cursor_limited(list, LIMPET_TRACE_NODES_MAX);
		known = known_node(reader, node);
		memcpy(items + i * layout->item_bytes + layout->node_offset, &known, sizeof(known));
	}
	for (size_t column = 0; column < layout->column_count; column++)
		for (uint64_t i = 0; i < count; i++) {
			uint64_t value = limpet_cursor_varint(list);

			memcpy(items + i * layout->item_bytes + layout->offsets[column], &value,
			       sizeof(value));
		}
	if (list->failed)
		return -EBADMSG;
	*ret_items = LIMPET_TAKE(items);
	*ret_count = (uint32_t)count;
	return 0;
}

#define SITE(member) offsetof(struct limpet_trace_site, member)
static const size_t site_columns[] = {
	SITE(counts.allocations),     SITE(counts.allocated_bytes), SITE(counts.frees),
	SITE(counts.freed_bytes),     SITE(counts.temporary),       SITE(counts.untracked),
	SITE(counts.untracked_bytes),
};
#define MAP(member) offsetof(struct limpet_trace_map_site, member)
static const size_t map_columns[] = {
	MAP(counts.mmaps),
	MAP(counts.mmap_bytes),
	MAP(counts.unmapped_parts),
	MAP(counts.unmapped_bytes),
};

#define HELD(member) offsetof(struct limpet_trace_held, member)
static const size_t held_columns[] = {HELD(allocations), HELD(bytes)};

static int read_points(struct limpet_trace_period *period, struct limpet_cursor *list)
{
	/* six numbers each */
	size_t room = limpet_cursor_left(list) / 6 + 1, count = 0;
	struct limpet_trace_point *points;
	uint64_t time_ns = 0;

	if (period->points)
		return -EBADMSG;
	points = calloc(room, sizeof(*points));
	if (!points)
		return -ENOMEM;
	period->points = points;
	for (; limpet_cursor_left(list) && count < room; count++) {
		time_ns += limpet_cursor_varint(list);
		points[count].time_ns = time_ns;
		points[count].live_bytes = limpet_cursor_varint(list);
		points[count].rss_bytes = limpet_cursor_varint(list);
		points[count].cgroup_bytes = limpet_cursor_varint(list);
		points[count].mapped_bytes = limpet_cursor_varint(list);
		points[count].allocations = limpet_cursor_varint(list);
	}
	period->point_count = (uint32_t)count;
	return list->failed ? -EBADMSG : 0;
}

static int read_size_list(struct limpet_trace_period *period, struct limpet_cursor *list)
{
	while (limpet_cursor_left(list)) {
		uint64_t bucket = limpet_cursor_limited(list, LIMPET_TRACE_SIZE_BUCKETS - 1);

		period->sizes[bucket].allocations = limpet_cursor_varint(list);
		period->sizes[bucket].allocated_bytes = limpet_cursor_varint(list);
	}
	return list->failed ? -EBADMSG : 0;
}

static int read_overloads(struct limpet_trace_period *period, struct limpet_cursor *list)
{
	struct limpet_trace_overload *overloads;
	size_t room = limpet_cursor_left(list) / 2;

	if (period->overloads)
		return -EBADMSG;
	overloads = calloc(room + 1, sizeof(*overloads));
	if (!overloads)
		return -ENOMEM;
	period->overloads = overloads;
	for (uint64_t last = 0; limpet_cursor_left(list);) {
		uint64_t from = limpet_cursor_limited(list, INT64_MAX);
		uint64_t to = from + limpet_cursor_limited(list, INT64_MAX);

		if (from < last || period->overload_count == room)
			return -EBADMSG;
		overloads[period->overload_count++] =
			(struct limpet_trace_overload){.from_ns = from, .to_ns = to};
		last = to;
	}
	return list->failed ? -EBADMSG : 0;
}

static void read_losses(struct limpet_trace_period *period, struct limpet_cursor *section)
{
	struct limpet_dropped *dropped = &period->dropped;
	uint64_t *const numbers[] = {
		&dropped->allocations,   &dropped->allocated_bytes, &dropped->frees,
		&dropped->freed_bytes,   &dropped->unsized_frees,   &dropped->mmaps,
		&dropped->mmap_bytes,    &dropped->munmaps,         &dropped->munmap_bytes,
		&period->inferred_frees, &period->inferred_bytes,
	};

	period->dropped_events = limpet_cursor_varint(section);
	period->truncated_stacks = limpet_cursor_varint(section);
	period->unseen_calls = limpet_cursor_varint(section);
	for (size_t i = 0; i < LIMPET_COUNT_OF(numbers); i++)
		*numbers[i] = limpet_cursor_varint(section);
}

static int read_site_list(const struct limpet_trace_reader *reader,
			  struct limpet_trace_period *period, struct limpet_cursor *section)
{
	void *items = (void *)(uintptr_t)period->sites;
	const struct site_layout layout = {sizeof(*period->sites), SITE(node), site_columns,
					   LIMPET_COUNT_OF(site_columns)};
	int code = read_sites(reader, section, &layout, &items, &period->site_count);

	period->sites = items;
	return code;
}

/* Frees that were a realloc's, of some of the sites, in the same order. */
static int read_reallocs(const struct limpet_trace_reader *reader,
			 struct limpet_trace_period *period, struct limpet_cursor *section)
{
	struct realloc_site {
		uint32_t node;
		uint64_t reallocations;
	};
	static const size_t columns[] = {offsetof(struct realloc_site, reallocations)};
	static const struct site_layout layout = {sizeof(struct realloc_site),
						  offsetof(struct realloc_site, node), columns,
						  LIMPET_COUNT_OF(columns)};
	struct limpet_trace_site *sites = (void *)(uintptr_t)period->sites;
	LIMPET_FREE void *items = NULL;
	uint32_t count = 0, at = 0;
	int code = limpet_cursor_left(section)
			   ? read_sites(reader, section, &layout, &items, &count)
			   : 0;

	for (uint32_t i = 0; i < count && code == 0; i++) {
		const struct realloc_site *from = (const struct realloc_site *)items + i;
		struct limpet_counts *counts;

		while (at < period->site_count && sites[at].node != from->node)
			at++;
		if (at == period->site_count)
			return -EBADMSG;
		counts = &sites[at++].counts;
		counts->reallocations =
			from->reallocations < counts->frees ? from->reallocations : counts->frees;
	}
	return code;
}

static int read_map_list(const struct limpet_trace_reader *reader,
			 struct limpet_trace_period *period, struct limpet_cursor *section)
{
	void *items = (void *)(uintptr_t)period->maps;
	const struct site_layout layout = {sizeof(*period->maps), MAP(node), map_columns,
					   LIMPET_COUNT_OF(map_columns)};
	int code = read_sites(reader, section, &layout, &items, &period->map_count);

	period->maps = items;
	return code;
}

static int read_held_list(const struct limpet_trace_reader *reader,
			  struct limpet_trace_period *period, struct limpet_cursor *section)
{
	void *items = (void *)(uintptr_t)period->held;
	const struct site_layout layout = {sizeof(*period->held), HELD(node), held_columns,
					   LIMPET_COUNT_OF(held_columns)};
	int code = read_sites(reader, section, &layout, &items, &period->held_count);

	period->held = items;
	return code;
}

static int read_period_section(const struct limpet_trace_reader *reader,
			       struct limpet_trace_period *period, unsigned tag,
			       struct limpet_cursor *section)
{
	switch (tag) {
	case LIMPET_PERIOD_EVENTS:
		period->events_sequence = (uint32_t)limpet_cursor_limited(section, UINT32_MAX);
		period->rows = (uint32_t)limpet_cursor_limited(section, LIMPET_TRACE_ROWS_MAX);
		break;
	case LIMPET_PERIOD_TOTALS:
		for (unsigned i = 0; i < LIMPET_TOTAL_COUNT; i++)
			*limpet_totals_at(&period->totals, i) = limpet_cursor_varint(section);
		break;
	case LIMPET_PERIOD_GAUGES:
		limpet_cursor_varint(section);
		period->rss_bytes = limpet_cursor_varint(section);
		period->cgroup_bytes = limpet_cursor_varint(section);
		period->threads = limpet_cursor_varint(section);
		period->agent_bytes = limpet_cursor_varint(section);
		period->file_bytes = limpet_cursor_varint(section);
		break;
	case LIMPET_PERIOD_LOSSES:
		read_losses(period, section);
		break;
	case LIMPET_PERIOD_REASONS:
		period->losses = limpet_losses_known(limpet_cursor_varint(section));
		break;
	case LIMPET_PERIOD_PEAK:
		period->peak_bytes = limpet_cursor_varint(section);
		period->peak_row = (uint32_t)limpet_cursor_limited(section, LIMPET_TRACE_ROWS_MAX);
		period->peak_ns = limpet_cursor_varint(section);
		period->capture_peak_bytes = limpet_cursor_varint(section);
		period->capture_peak_ns = limpet_cursor_varint(section);
		break;
	case LIMPET_PERIOD_SIZES:
		return read_size_list(period, section);
	case LIMPET_PERIOD_SITES:
		return read_site_list(reader, period, section);
	case LIMPET_PERIOD_MAPS:
		return read_map_list(reader, period, section);
	case LIMPET_PERIOD_OVERLOADS:
		return read_overloads(period, section);
	case LIMPET_PERIOD_HELD:
		return read_held_list(reader, period, section);
	case LIMPET_PERIOD_TIMELINE:
		return read_points(period, section);
	default:
		break;
	}
	return section->failed ? -EBADMSG : 0;
}

int limpet_trace_period_load(struct limpet_trace_reader *reader, size_t block,
			     struct limpet_trace_period **ret_period)
{
	const struct limpet_trace_block *blocks;
	LIMPET_FREE uint8_t *buffer = NULL;
	struct limpet_cursor sections, section, reallocs = {0};
	struct limpet_trace_period *period;
	unsigned tag;
	int code;

	if (block >= limpet_trace_reader_blocks(reader, &blocks) ||
	    (blocks[block].type != LIMPET_TRACE_PERIOD && blocks[block].type != LIMPET_TRACE_SUMS))
		return -EINVAL;
	code = limpet_trace_reader_load(reader, block, &buffer, &sections);
	if (code < 0)
		return code;
	period = calloc(1, sizeof(*period));
	if (!period)
		return -ENOMEM;
	period->is_sums = blocks[block].type == LIMPET_TRACE_SUMS;
	period->first_ns = blocks[block].first_ns;
	period->last_ns = blocks[block].last_ns;
	while (code == 0 && (tag = limpet_trace_next_section(&sections, &section)))
		if (tag == LIMPET_PERIOD_REALLOCS)
			reallocs = section;
		else
			code = read_period_section(reader, period, tag, &section);
	if (code == 0)
		code = sections.failed ? -EBADMSG : read_reallocs(reader, period, &reallocs);
	if (code < 0) {
		limpet_trace_period_free(period);
		return code;
	}
	*ret_period = period;
	return 0;
}

void limpet_trace_period_free(struct limpet_trace_period *period)
{
	if (!period)
		return;
	/* const only for the callers */
	free((void *)(uintptr_t)period->sites);
	free((void *)(uintptr_t)period->maps);
	free((void *)(uintptr_t)period->overloads);
	free((void *)(uintptr_t)period->held);
	free((void *)(uintptr_t)period->points);
	free(period);
}

/* ------------------------------------------------------------------ LIVE */

/* Loads a block, which must be of this type. *ret_buffer is what the sections point into. */
static int load(struct limpet_trace_reader *reader, size_t block, uint16_t type,
		uint8_t **ret_buffer, struct limpet_cursor *ret_sections)
{
	const struct limpet_trace_block *blocks;

	if (block >= limpet_trace_reader_blocks(reader, &blocks) || blocks[block].type != type)
		return -EINVAL;
	return limpet_trace_reader_load(reader, block, ret_buffer, ret_sections);
}

static int64_t read_live(const struct limpet_trace_reader *reader, struct limpet_cursor sections,
			 struct limpet_trace_live **ret_list)
{
	struct limpet_cursor columns[LIMPET_LIVE_SAMPLED + 1] = {0}, section;
	LIMPET_FREE struct limpet_trace_live *list = NULL;
	uint64_t count, kind, address = 0;
	bool failed, any_sampled;
	unsigned tag;

	while ((tag = limpet_trace_next_section(&sections, &section)))
		if (tag < LIMPET_COUNT_OF(columns))
			columns[tag] = section;
	count = limpet_cursor_limited(&columns[LIMPET_LIVE_COUNTS], LIMPET_TRACE_LIVE_MAX);
	kind = limpet_cursor_varint(&columns[LIMPET_LIVE_COUNTS]);
	if (sections.failed || columns[LIMPET_LIVE_COUNTS].failed ||
	    count > limpet_cursor_left(&columns[LIMPET_LIVE_ADDRESSES]))
		return -EBADMSG;
	any_sampled = limpet_cursor_left(&columns[LIMPET_LIVE_SAMPLED]);
	list = calloc(count + 1, sizeof(*list));
	if (!list)
		return -ENOMEM;
	for (uint64_t i = 0; i < count; i++) {
		uint64_t tick;

		address += limpet_cursor_varint(&columns[LIMPET_LIVE_ADDRESSES]);
		tick = limpet_cursor_limited(&columns[LIMPET_LIVE_TICKS],
					     UINT64_MAX / LIMPET_TRACE_TICK_NS);
		list[i] = (struct limpet_trace_live){
			.address = address,
			.size = limpet_cursor_varint(&columns[LIMPET_LIVE_SIZES]),
			.node = known_node(reader,
					   limpet_cursor_varint(&columns[LIMPET_LIVE_NODES])),
			.time_ns = tick * LIMPET_TRACE_TICK_NS,
			.tid = (uint32_t)limpet_cursor_limited(&columns[LIMPET_LIVE_TIDS],
							       UINT32_MAX),
			.mapping = kind == 1,
			.sampled =
				any_sampled && limpet_cursor_varint(&columns[LIMPET_LIVE_SAMPLED]),
		};
	}
	failed = false;
	for (size_t i = 0; i < LIMPET_COUNT_OF(columns); i++)
		failed |= columns[i].failed;
	if (failed)
		return -EBADMSG;
	*ret_list = LIMPET_TAKE(list);
	return (int64_t)count;
}

int64_t limpet_trace_live_load(struct limpet_trace_reader *reader, size_t block,
			       struct limpet_trace_live **ret_list)
{
	LIMPET_FREE uint8_t *buffer = NULL;
	struct limpet_cursor sections;
	int code = load(reader, block, LIMPET_TRACE_LIVE, &buffer, &sections);

	return code < 0 ? code : read_live(reader, sections, ret_list);
}

/* ------------------------------------------------------------------ RESIDENT */

#define PAGE_LEAST_BYTES 4096u
#define PAGE_MOST_BYTES (1u << 20)

static int read_runs(struct limpet_cursor *runs, uint64_t first, uint64_t end,
		     struct limpet_trace_resident *resident)
{
	for (size_t i = 0; i < resident->count; i++) {
		const uint64_t gap = limpet_cursor_limited(runs, end - first);
		const uint64_t start = first + gap;
		const uint64_t pages = limpet_cursor_limited(runs, end - start);

		/* Runs that touch would be one. */
		if (runs->failed || !pages || (i && !gap))
			return -EBADMSG;
		first = start + pages;
		resident->runs[i] = (struct limpet_trace_run){start * resident->page_bytes,
							      first * resident->page_bytes};
	}
	return 0;
}

static int read_resident(struct limpet_cursor sections, struct limpet_trace_resident **ret_resident)
{
	struct limpet_cursor counts = {0}, runs = {0}, section;
	struct limpet_trace_resident *resident;
	uint64_t count, page_bytes, first, end;
	unsigned tag;
	int code;

	while ((tag = limpet_trace_next_section(&sections, &section)))
		if (tag == LIMPET_RESIDENT_COUNTS)
			counts = section;
		else if (tag == LIMPET_RESIDENT_RUNS)
			runs = section;
	count = limpet_cursor_limited(&counts, LIMPET_TRACE_RUNS_MAX);
	page_bytes = limpet_cursor_limited(&counts, PAGE_MOST_BYTES);
	first = limpet_cursor_varint(&counts);
	end = limpet_cursor_varint(&counts);
	if (sections.failed || counts.failed || page_bytes < PAGE_LEAST_BYTES ||
	    page_bytes & (page_bytes - 1) || first >= end || end > UINT64_MAX / page_bytes ||
	    count > limpet_cursor_left(&runs) / 2)
		return -EBADMSG;
	resident = calloc(1, sizeof(*resident));
	if (!resident)
		return -ENOMEM;
	*resident = (struct limpet_trace_resident){.page_bytes = page_bytes,
						   .from = first * page_bytes,
						   .to = end * page_bytes,
						   .count = count};
	resident->runs = calloc(count + 1, sizeof(*resident->runs));
	code = resident->runs ? read_runs(&runs, first, end, resident) : -ENOMEM;
	if (code < 0) {
		limpet_trace_resident_free(resident);
		return code;
	}
	*ret_resident = resident;
	return 0;
}

int limpet_trace_resident_load(struct limpet_trace_reader *reader, size_t block,
			       struct limpet_trace_resident **ret_resident)
{
	LIMPET_FREE uint8_t *buffer = NULL;
	struct limpet_cursor sections;
	int code = load(reader, block, LIMPET_TRACE_RESIDENT, &buffer, &sections);

	return code < 0 ? code : read_resident(sections, ret_resident);
}

void limpet_trace_resident_free(struct limpet_trace_resident *resident)
{
	if (!resident)
		return;
	free(resident->runs);
	free(resident);
}
