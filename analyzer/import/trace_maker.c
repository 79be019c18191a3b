#include "analyzer/import/trace_maker.h"

#include <string.h>
#include <sys/mman.h>

#include "analyzer/import/trace_maker_blocks.h"
#include "common/array.h"
#include "common/base_name.h"
#include "common/file_io.h"

/* A time span of which sums are kept: at least this long, and at least this part of all the time
 * until then. */
#define SPAN_LEAST_NS 10000000u
#define SPAN_PART 512u

int limpet_trace_maker_new(struct limpet_trace_maker **ret_maker)
{
	struct limpet_trace_maker *maker = calloc(1, sizeof(*maker));

	if (maker)
		maker->zstd = limpet_trace_zstd_new();
	/* The first of each is none. */
	if (!maker || !maker->zstd ||
	    limpet_reserve_zeroed(&maker->strings, &maker->string_room, 1,
				  sizeof(*maker->strings)) < 0 ||
	    limpet_reserve_zeroed(&maker->places, &maker->place_room, 1, sizeof(*maker->places)) <
		    0 ||
	    limpet_reserve_zeroed(&maker->kinds, &maker->kind_room, 1, sizeof(*maker->kinds)) < 0 ||
	    limpet_reserve_zeroed(&maker->nodes, &maker->node_room, 1, sizeof(*maker->nodes)) < 0) {
		limpet_trace_maker_free(maker);
		return -ENOMEM;
	}
	maker->string_count = maker->place_count = maker->node_count = maker->kind_count = 1;
	maker->sequence = 1; /* 0 is the HEADER's */
	maker->span = 1;
	*ret_maker = maker;
	return 0;
}

void limpet_trace_maker_free(struct limpet_trace_maker *maker)
{
	if (!maker)
		return;
	limpet_maker_blocks_done(maker);
	limpet_bytes_done(&maker->text);
	free(maker->strings);
	free(maker->places);
	free(maker->frames);
	free(maker->nodes);
	free(maker->kinds);
	free(maker->runs);
	free(maker->sites);
	free(maker->touched);
	free(maker);
}

/* ------------------------------------------------------------------ names and stacks */

int limpet_trace_maker_string(struct limpet_trace_maker *maker, const char *text, size_t bytes)
{
	if (bytes > LIMPET_TRACE_STRING_MAX_BYTES)
		bytes = LIMPET_TRACE_STRING_MAX_BYTES;
	bytes = strnlen(text, bytes);
	if (maker->string_count > LIMPET_MAKER_STRINGS_MAX ||
	    maker->text.count + bytes > LIMPET_MAKER_STRING_BYTES_MAX)
		return -E2BIG;
	if (limpet_reserve_zeroed(&maker->strings, &maker->string_room, maker->string_count + 1,
				  sizeof(*maker->strings)) < 0)
		return -ENOMEM;
	maker->strings[maker->string_count].start = maker->text.count;
	maker->strings[maker->string_count].bytes = (uint32_t)bytes;
	limpet_bytes_append(&maker->text, text, bytes);
	if (maker->text.failed)
		return -ENOMEM;
	maker->string_count++;
	return 0;
}

static int check_place(const struct limpet_trace_maker *maker,
		       const struct limpet_maker_place *place)
{
	if (place->module >= maker->string_count)
		return -EINVAL;
	for (size_t i = 0; i < place->frame_count; i++)
		if (place->frames[i].function >= maker->string_count ||
		    place->frames[i].file >= maker->string_count)
			return -EINVAL;
	return 0;
}

/* Modules are numbered when they are first used. */
static int add_module(struct limpet_trace_maker *maker, uint32_t string)
{
	struct limpet_maker_string *path = &maker->strings[string];

	if (!string || path->module)
		return 0;
	if (maker->module_count == LIMPET_TRACE_MODULES_MAX - 1)
		return -E2BIG;
	path->module = ++maker->module_count;
	return 0;
}

int limpet_trace_maker_place(struct limpet_trace_maker *maker,
			     const struct limpet_maker_place *place)
{
	int code = check_place(maker, place);

	if (code < 0)
		return code;
	if (maker->place_count > LIMPET_MAKER_PLACES_MAX ||
	    place->frame_count > LIMPET_MAKER_FRAMES_MAX - maker->frame_count)
		return -E2BIG;
	if (limpet_reserve(&maker->places, &maker->place_room, maker->place_count + 1,
			   sizeof(*maker->places)) < 0 ||
	    limpet_reserve(&maker->frames, &maker->frame_room,
			   maker->frame_count + place->frame_count, sizeof(*maker->frames)) < 0)
		return -ENOMEM;
	code = add_module(maker, place->module);
	if (code < 0)
		return code;
	maker->places[maker->place_count++] =
		(struct limpet_maker_stored_place){.address = place->address,
						   .module = maker->strings[place->module].module,
						   .first_frame = (uint32_t)maker->frame_count,
						   .frame_count = (uint32_t)place->frame_count};
	if (place->frame_count)
		memcpy(maker->frames + maker->frame_count, place->frames,
		       place->frame_count * sizeof(*place->frames));
	maker->frame_count += place->frame_count;
	return 0;
}

int limpet_trace_maker_node(struct limpet_trace_maker *maker, uint32_t place, uint32_t parent,
			    uint32_t *ret_node)
{
	if (!place || place >= maker->place_count || parent >= maker->node_count)
		return -EINVAL;
	if (maker->node_count >= LIMPET_TRACE_NODES_MAX)
		return -E2BIG;
	if (limpet_reserve(&maker->nodes, &maker->node_room, maker->node_count + 1ul,
			   sizeof(*maker->nodes)) < 0)
		return -ENOMEM;
	*ret_node = maker->node_count;
	maker->nodes[maker->node_count++] =
		(struct limpet_maker_node){.place = place, .parent = parent};
	return 0;
}

/* ------------------------------------------------------------------ blocks */

int limpet_trace_maker_kind(struct limpet_trace_maker *maker, uint32_t node, uint64_t bytes)
{
	if (node >= maker->node_count || bytes > LIMPET_MAKER_BLOCK_MAX_BYTES)
		return -EINVAL;
	if (maker->kind_count > LIMPET_MAKER_KINDS_MAX)
		return -E2BIG;
	if (limpet_reserve(&maker->kinds, &maker->kind_room, maker->kind_count + 1ul,
			   sizeof(*maker->kinds)) < 0)
		return -ENOMEM;
	maker->kinds[maker->kind_count++] =
		(struct limpet_maker_kind){.bytes = bytes, .node = node};
	return 0;
}

/* Found, or added; notes that it has events in this span. */
static int touch_site(struct limpet_trace_maker *maker, uint32_t node,
		      struct limpet_maker_site **ret_site)
{
	struct limpet_maker_node *at = &maker->nodes[node];
	struct limpet_maker_site *site;

	if (limpet_reserve(&maker->touched, &maker->touched_room, maker->touched_count + 1,
			   sizeof(*maker->touched)) < 0)
		return -ENOMEM;
	if (!at->site) {
		if (maker->site_count == LIMPET_MAKER_SITES_MAX)
			return -E2BIG;
		if (limpet_reserve(&maker->sites, &maker->site_room, maker->site_count + 1ul,
				   sizeof(*maker->sites)) < 0)
			return -ENOMEM;
		maker->sites[maker->site_count++] = (struct limpet_maker_site){.node = node};
		at->site = maker->site_count;
	}
	site = &maker->sites[at->site - 1];
	if (!site->touched)
		maker->touched[maker->touched_count++] = at->site - 1;
	site->touched = true;
	*ret_site = site;
	return 0;
}

/* One more block, allocated now. */
static int push_block(struct limpet_trace_maker *maker, struct limpet_maker_kind *kind)
{
	const uint64_t tick = maker->time_ns / LIMPET_TRACE_TICK_NS;
	uint32_t index = kind->runs;

	if (index && maker->runs[index - 1].tick == tick &&
	    maker->runs[index - 1].count < UINT32_MAX) {
		maker->runs[index - 1].count++;
		return 0;
	}
	index = maker->free_runs;
	if (index) {
		maker->free_runs = maker->runs[index - 1].next;
	} else {
		if (maker->run_count == LIMPET_MAKER_RUNS_MAX)
			return -E2BIG;
		if (limpet_reserve(&maker->runs, &maker->run_room, maker->run_count + 1ul,
				   sizeof(*maker->runs)) < 0)
			return -ENOMEM;
		index = ++maker->run_count;
	}
	maker->runs[index - 1] =
		(struct limpet_maker_run){.tick = tick, .count = 1, .next = kind->runs};
	kind->runs = index;
	return 0;
}

/* Removes the last block, of which there is one. Returns its age. */
static uint64_t pop_block(struct limpet_trace_maker *maker, struct limpet_maker_kind *kind)
{
	const uint32_t index = kind->runs;
	struct limpet_maker_run *run = &maker->runs[index - 1];
	const uint64_t age = maker->time_ns / LIMPET_TRACE_TICK_NS - run->tick;

	if (--run->count)
		return age;
	kind->runs = run->next;
	run->next = maker->free_runs;
	maker->free_runs = index;
	return age;
}

static int end_span(struct limpet_trace_maker *maker, uint64_t to_ns)
{
	int code = limpet_maker_blocks_span(maker, to_ns);

	if (code < 0)
		return code;
	for (size_t i = 0; i < maker->touched_count; i++) {
		struct limpet_maker_site *site = &maker->sites[maker->touched[i]];

		site->span = (struct limpet_counts){0};
		site->touched = false;
	}
	maker->touched_count = 0;
	memset(maker->sizes, 0, sizeof(maker->sizes));
	maker->span_ns = to_ns;
	maker->span_peak = (struct limpet_maker_peak){maker->live_bytes, to_ns, 0};
	maker->rss_bytes = 0;
	maker->span++;
	return 0;
}

/* After an event: its block is counted. */
static int end_event(struct limpet_trace_maker *maker)
{
	maker->totals.events++;
	if (maker->live_bytes > maker->span_peak.bytes)
		maker->span_peak = (struct limpet_maker_peak){maker->live_bytes, maker->time_ns,
							      maker->rows.count};
	if (maker->live_bytes > maker->highest.bytes)
		maker->highest = maker->span_peak;
	return maker->rows.count < LIMPET_TRACE_ROWS_PER_BLOCK ? 0
							       : end_span(maker, maker->time_ns);
}

int limpet_trace_maker_allocate(struct limpet_trace_maker *maker, uint32_t number)
{
	struct limpet_maker_kind *kind = number < maker->kind_count ? &maker->kinds[number] : NULL;
	struct limpet_size_counts *sizes;
	struct limpet_maker_site *site;
	int code = number && kind ? touch_site(maker, kind->node, &site) : -EINVAL;

	if (code == 0)
		code = push_block(maker, kind);
	if (code == 0)
		code = limpet_maker_blocks_row(maker, kind, LIMPET_ROW_ALLOC, 0);
	if (code < 0)
		return code;
	limpet_counts_allocate(&site->span, 1, kind->bytes);
	limpet_counts_allocate(&maker->totals.counts, 1, kind->bytes);
	sizes = &maker->sizes[limpet_trace_size_bucket(kind->bytes)];
	sizes->allocations++;
	sizes->allocated_bytes += kind->bytes;
	maker->live_bytes += kind->bytes;
	return end_event(maker);
}

int limpet_trace_maker_release(struct limpet_trace_maker *maker, uint32_t number, bool temporary)
{
	const uint8_t op = LIMPET_ROW_FREE | (temporary ? LIMPET_ROW_TEMPORARY : 0);
	struct limpet_maker_kind *kind = number < maker->kind_count ? &maker->kinds[number] : NULL;
	struct limpet_maker_site *site;
	int code = number && kind && kind->runs ? touch_site(maker, kind->node, &site) : -EINVAL;

	if (code == 0)
		code = limpet_maker_blocks_row(maker, kind, op, pop_block(maker, kind));
	if (code < 0)
		return code;
	limpet_counts_free(&site->span, 1, kind->bytes, temporary, false);
	limpet_counts_free(&maker->totals.counts, 1, kind->bytes, temporary, false);
	maker->live_bytes -= kind->bytes;
	return end_event(maker);
}

/* ------------------------------------------------------------------ time */

int limpet_trace_maker_time(struct limpet_trace_maker *maker, uint64_t time_ns)
{
	const uint64_t part_ns = time_ns / SPAN_PART;
	int code = 0;

	if (time_ns < maker->time_ns || time_ns > INT64_MAX)
		return -EINVAL;
	if (time_ns - maker->span_ns >= (part_ns > SPAN_LEAST_NS ? part_ns : SPAN_LEAST_NS))
		code = end_span(maker, time_ns);
	maker->time_ns = time_ns;
	return code;
}

void limpet_trace_maker_rss(struct limpet_trace_maker *maker, uint64_t bytes)
{
	if (bytes > maker->rss_bytes)
		maker->rss_bytes = bytes;
}

int limpet_trace_maker_finish(struct limpet_trace_maker *maker,
			      const struct limpet_maker_head *head, int *ret_fd)
{
	LIMPET_CLOSE int fd = memfd_create("imported", MFD_CLOEXEC);
	int code;

	if (fd < 0)
		return -errno;
	code = end_span(maker, head->end_ns > maker->time_ns ? head->end_ns : maker->time_ns);
	if (code == 0)
		code = limpet_maker_blocks_write(maker, head, fd);
	if (code == 0)
		*ret_fd = limpet_take_fd(&fd);
	return code;
}
