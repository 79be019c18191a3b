#include "analyzer/model/model_sum.h"

#include <errno.h>
#include <string.h>

#include "analyzer/model/model_bounds.h"
#include "common/array.h"
#include "common/sample.h"

#define NO_BLOCK SIZE_MAX

/* What the file has of a period of the capture: aggregates, events, or both. */
struct segment {
	size_t period, events; /* blocks, or NO_BLOCK */
};

/* Where the peak was found. */
struct peak_place {
	size_t segment; /* NO_BLOCK: at the window's start */
	uint32_t rows;  /* of its events, up to the peak */
};

struct work {
	struct limpet_model_sum *sum;
	struct limpet_trace_reader *reader;
	uint64_t from_tick, to_tick;
	bool ended; /* the window */
	struct segment *segments;
	size_t segment_count, segment_capacity;
	struct peak_place peak;
	uint64_t capture_peak_bytes, capture_peak_ns;
	uint32_t rows_left; /* of a replay that is to stop early */
	bool gap;           /* blocks were discarded, and their sums not read yet */
};

static uint64_t live_bytes(const struct work *work)
{
	return limpet_model_accounting_live_bytes(work->sum->accounting.totals);
}

/* ------------------------------------------------------------------ the window */

static bool is_sampled(const struct work *work)
{
	return work->sum->accounting.sample_bytes != 0;
}

static void start_window(struct work *work)
{
	limpet_model_accounting_count(&work->sum->accounting);
	work->sum->peak_bytes = live_bytes(work);
	work->sum->peak_ns = work->from_tick * LIMPET_TRACE_TICK_NS;
}

static void try_peak(struct work *work, uint64_t bytes, uint64_t time_ns, size_t segment,
		     uint32_t rows)
{
	if (bytes <= work->sum->peak_bytes)
		return;
	work->sum->peak_bytes = bytes;
	work->sum->peak_ns = time_ns;
	work->peak.segment = segment;
	work->peak.rows = rows;
}

/* ------------------------------------------------------------------ event by event */

/* A block is counted only if all of it can be read. */
static int check_events(struct limpet_trace_reader *reader, size_t block)
{
	struct limpet_trace_events *events;
	struct limpet_trace_event row;
	int code = limpet_trace_events_open(reader, block, &events);

	if (code < 0)
		return code;
	while ((code = limpet_trace_events_next(events, &row)) == 1)
		;
	limpet_trace_events_free(events);
	return code < 0 ? code : 0;
}

/* A period covers the time until it was written, but events are merged a little later than they
 * happen: the first ones of a segment may have times before the time that it covers. Those of later
 * segments do not precede them. */
static uint64_t first_tick(struct work *work, size_t segment, uint64_t covered_ns)
{
	uint64_t first = covered_ns / LIMPET_TRACE_TICK_NS;
	size_t block = work->segments[segment].events;
	struct limpet_trace_events *events;
	struct limpet_trace_event row;
	bool begins =
		!work->sum->accounting.counting && work->from_tick && first >= work->from_tick;

	/* Read them only if it makes a difference. */
	if (block == NO_BLOCK || (!begins && first < work->to_tick) ||
	    limpet_trace_events_open(work->reader, block, &events) < 0)
		return first;
	if (limpet_trace_events_next(events, &row) == 1 &&
	    row.time_ns / LIMPET_TRACE_TICK_NS < first)
		first = row.time_ns / LIMPET_TRACE_TICK_NS;
	limpet_trace_events_free(events);
	return first;
}

/* Counts the events of a segment one by one. -EBADMSG: they are damaged, nothing is counted. */
static int replay(struct work *work, size_t segment)
{
	struct limpet_model_accounting *accounting = &work->sum->accounting;
	size_t block = work->segments[segment].events;
	struct limpet_trace_events *events;
	struct limpet_trace_event row;
	uint32_t rows = 0;
	int code = check_events(work->reader, block);

	if (code < 0)
		return code;
	code = limpet_trace_events_open(work->reader, block, &events);
	if (code < 0)
		return code;
	accounting->parts = 0;
	while (rows < work->rows_left && (code = limpet_trace_events_next(events, &row)) == 1) {
		uint64_t tick = row.time_ns / LIMPET_TRACE_TICK_NS;

		if (tick >= work->to_tick) {
			work->ended = true;
			break;
		}
		if (!accounting->counting && tick >= work->from_tick)
			start_window(work);
		code = limpet_model_accounting_add_row(accounting, &row);
		if (code < 0)
			break;
		rows++;
		if (accounting->counting)
			try_peak(work, live_bytes(work), row.time_ns, segment, rows);
	}
	limpet_trace_events_free(events);
	return code < 0 ? code : 0;
}

/* ------------------------------------------------------------------ whole periods */

static int add_period(struct work *work, const struct limpet_trace_period *period, size_t segment)
{
	if (work->sum->accounting.counting)
		try_peak(work, period->peak_bytes, period->peak_ns, segment, period->peak_row);
	return limpet_model_accounting_add_period(&work->sum->accounting, period);
}

static int add_point(struct work *work, const struct limpet_trace_period *period)
{
	struct limpet_model_sum *sum = work->sum;
	/* For a sampled trace, the sums so far. */
	const uint64_t *totals = is_sampled(work) ? sum->accounting.totals : period->totals;
	uint64_t tick = period->last_ns / LIMPET_TRACE_TICK_NS;

	if (tick < work->from_tick || tick >= work->to_tick)
		return 0;
	if (limpet_reserve(&sum->points, &sum->point_capacity, sum->point_count + 1,
			   sizeof(*sum->points)) < 0)
		return -ENOMEM;
	sum->points[sum->point_count++] = (struct limpet_model_point){
		.time_ns = period->last_ns,
		.live_bytes = limpet_model_accounting_live_bytes(totals),
		.rss_bytes = period->rss_bytes,
		.cgroup_bytes = period->cgroup_bytes,
		.mapped_bytes = limpet_model_clamp(totals[LIMPET_TOTAL_MMAP_BYTES],
						   totals[LIMPET_TOTAL_UNMAPPED_BYTES]),
		.allocations = totals[LIMPET_TOTAL_ALLOCATIONS],
		.live_allocations = limpet_model_clamp(totals[LIMPET_TOTAL_ALLOCATIONS],
						       totals[LIMPET_TOTAL_FREES] +
							       totals[LIMPET_TOTAL_UNTRACKED]),
		.threads = period->threads,
		.agent_bytes = period->agent_bytes,
		.file_bytes = period->file_bytes,
	};
	return 0;
}

/* A long overload is recorded in parts, of which a later one may reach back into the one before. */
static int take_overloads(struct work *work, const struct limpet_trace_period *period)
{
	struct limpet_model_sum *sum = work->sum;

	for (uint32_t i = 0; i < period->overload_count; i++) {
		struct limpet_trace_overload part = period->overloads[i];
		struct limpet_trace_overload *last =
			sum->overload_count ? &sum->overloads[sum->overload_count - 1] : NULL;

		if (last && part.from_ns <= last->to_ns) {
			if (part.to_ns > last->to_ns)
				last->to_ns = part.to_ns;
			continue;
		}
		if (limpet_reserve(&sum->overloads, &sum->overload_capacity,
				   sum->overload_count + 1, sizeof(*sum->overloads)) < 0 ||
		    !sum->overloads)
			return -ENOMEM;
		sum->overloads[sum->overload_count++] = part;
	}
	return 0;
}

static void take_losses(struct work *work, const struct limpet_trace_period *period)
{
	struct limpet_model_sum *sum = work->sum;

	limpet_model_bounds_take(&sum->missing, period);
	sum->truncated_stacks = period->truncated_stacks;
	if (period->capture_peak_bytes > work->capture_peak_bytes) {
		work->capture_peak_bytes = period->capture_peak_bytes;
		work->capture_peak_ns = period->capture_peak_ns;
	}
}

/* What a sample represents depends on its size: sums of periods do not have it, and samples are few
 * enough to be read one by one. */
static int add_sampled(struct work *work, const struct limpet_trace_period *period, size_t segment)
{
	uint64_t first = first_tick(work, segment, period->first_ns);
	int code = 0;

	if (first >= work->to_tick) {
		work->ended = true;
		return 0;
	}
	if (!work->sum->accounting.counting && first >= work->from_tick)
		start_window(work);
	if (period->rows)
		code = work->segments[segment].events == NO_BLOCK ? -EBADMSG
								  : replay(work, segment);
	if (code != -EBADMSG)
		return code;
	work->sum->losses |= LIMPET_LOSS_BIT(LIMPET_LOSS_DAMAGED);
	work->sum->losses |= LIMPET_LOSS_BIT(LIMPET_LOSS_BRIDGED);
	return 0;
}

/* Adds a period with aggregates. If the window cuts it, the times of its events decide which are
 * in. */
static int add_whole(struct work *work, const struct limpet_trace_period *period, size_t segment)
{
	const bool compact = limpet_trace_reader_target(work->reader)->compact;
	uint64_t first = first_tick(work, segment, period->first_ns);
	/* Of sums, the next period has what happens in the last tick: it may begin at a mark. */
	uint64_t last = (period->last_ns - (compact && period->last_ns)) / LIMPET_TRACE_TICK_NS;
	bool cut;

	if (first >= work->to_tick) {
		work->ended = true;
		return 0;
	}
	if (!work->sum->accounting.counting && first >= work->from_tick)
		start_window(work);
	cut = (!work->sum->accounting.counting && last >= work->from_tick) || last >= work->to_tick;
	/* Without single events it cannot be cut: all of it is in the window. */
	if (cut && compact) {
		if (!work->sum->accounting.counting) {
			work->from_tick = first;
			work->sum->from_ns = period->first_ns;
			start_window(work);
		}
		if (last >= work->to_tick)
			work->sum->to_ns = period->last_ns;
	} else if (cut && period->rows) {
		int code = -EBADMSG;

		if (work->segments[segment].events != NO_BLOCK)
			code = replay(work, segment);
		if (code == 0 && !work->ended)
			memcpy(work->sum->accounting.totals, period->totals,
			       sizeof(period->totals));
		if (code != -EBADMSG)
			return code;
		work->sum->losses |= LIMPET_LOSS_BIT(LIMPET_LOSS_DAMAGED);
		work->sum->losses |= LIMPET_LOSS_BIT(LIMPET_LOSS_BRIDGED);
		if (!work->sum->accounting.counting)
			start_window(work);
	}
	return add_period(work, period, segment);
}

/* Events whose aggregates are lost, or were not yet written. */
static int add_orphan(struct work *work, size_t segment)
{
	const struct limpet_trace_block *blocks;
	uint64_t first;
	int code;

	limpet_trace_reader_blocks(work->reader, &blocks);
	first = first_tick(work, segment, blocks[work->segments[segment].events].first_ns);
	if (first >= work->to_tick) {
		work->ended = true;
		return 0;
	}
	if (!work->sum->accounting.counting && first >= work->from_tick)
		start_window(work);
	code = replay(work, segment);
	if (code != -EBADMSG)
		return code;
	work->sum->losses |= LIMPET_LOSS_BIT(LIMPET_LOSS_BRIDGED);
	return 0;
}

/* ------------------------------------------------------------------ the file */

static int add_segment(struct work *work, size_t period, size_t events)
{
	if (limpet_reserve(&work->segments, &work->segment_capacity, work->segment_count + 1,
			   sizeof(*work->segments)) < 0)
		return -ENOMEM;
	work->segments[work->segment_count++] =
		(struct segment){.period = period, .events = events};
	return 0;
}

/* Adds the events of one period, once they are known to have no aggregates. */
static int flush_orphan(struct work *work, size_t *pending)
{
	int code;

	if (*pending == NO_BLOCK)
		return 0;
	work->sum->losses |=
		LIMPET_LOSS_BIT(LIMPET_LOSS_DAMAGED); /* its PERIOD was damaged, or never written */
	code = add_segment(work, NO_BLOCK, *pending);
	*pending = NO_BLOCK;
	if (code < 0 || work->ended)
		return code;
	return add_orphan(work, work->segment_count - 1);
}

static int take_period(struct work *work, size_t block, size_t *pending)
{
	struct limpet_trace_period *period;
	size_t events = NO_BLOCK;
	int code;

	code = limpet_trace_period_load(work->reader, block, &period);
	if (code == -EBADMSG) {
		work->sum->losses |= LIMPET_LOSS_BIT(LIMPET_LOSS_DAMAGED);
		return 0;
	}
	if (code < 0)
		return code;
	if (period->events_sequence && *pending != NO_BLOCK) {
		const struct limpet_trace_block *blocks;

		limpet_trace_reader_blocks(work->reader, &blocks);
		if (blocks[*pending].sequence == period->events_sequence) {
			events = *pending;
			*pending = NO_BLOCK;
		}
	}
	code = flush_orphan(work, pending);
	if (code == 0)
		code = add_segment(work, block, events);
	take_losses(work, period);
	if (code == 0)
		code = take_overloads(work, period);
	if (code == 0 && !work->ended && is_sampled(work))
		code = add_sampled(work, period, work->segment_count - 1);
	if (code == 0)
		code = add_point(work, period);
	if (code == 0 && !work->ended && !is_sampled(work))
		code = add_whole(work, period, work->segment_count - 1);
	limpet_trace_period_free(period);
	return code;
}

static int add_past_points(struct work *work, const struct limpet_trace_period *sums)
{
	struct limpet_model_sum *sum = work->sum;

	for (uint32_t i = 0; i < sums->point_count; i++) {
		const struct limpet_trace_point *from = &sums->points[i];
		uint64_t tick = from->time_ns / LIMPET_TRACE_TICK_NS;

		if (tick < work->from_tick || tick >= work->to_tick)
			continue;
		if (limpet_reserve(&sum->points, &sum->point_capacity, sum->point_count + 1,
				   sizeof(*sum->points)) < 0)
			return -ENOMEM;
		sum->points[sum->point_count++] =
			(struct limpet_model_point){.time_ns = from->time_ns,
						    .live_bytes = from->live_bytes,
						    .rss_bytes = from->rss_bytes,
						    .cgroup_bytes = from->cgroup_bytes,
						    .mapped_bytes = from->mapped_bytes,
						    .allocations = from->allocations,
						    .live_allocations = UINT64_MAX};
	}
	return 0;
}

/* Adds the sums of all that was discarded. A window that begins or ends there begins or ends after
 * them. */
static int take_sums(struct work *work, size_t block)
{
	struct limpet_trace_period *sums;
	int code;

	/* Blocks before the sums are left: the file is damaged, and the sums would hide it. */
	if (work->segment_count)
		return 0;
	code = limpet_trace_period_load(work->reader, block, &sums);
	if (code < 0) {
		return code == -EBADMSG ? 0 : code;
	}
	work->gap = false;
	work->sum->given_up_ns = sums->last_ns;
	if (sums->last_ns / LIMPET_TRACE_TICK_NS >= work->to_tick) {
		work->sum->losses |= LIMPET_LOSS_BIT(LIMPET_LOSS_GIVEN_UP);
		work->ended = true;
	}
	if (work->from_tick == 0)
		start_window(work);
	code = add_segment(work, block, NO_BLOCK);
	if (code == 0)
		code = add_past_points(work, sums);
	take_losses(work, sums);
	if (code == 0)
		code = add_period(work, sums, 0);
	if (code == 0 && !work->sum->accounting.counting &&
	    sums->last_ns / LIMPET_TRACE_TICK_NS >= work->from_tick) {
		work->sum->losses |= LIMPET_LOSS_BIT(LIMPET_LOSS_GIVEN_UP);
		start_window(work);
	}
	limpet_trace_period_free(sums);
	return code;
}

static int sum_blocks(struct work *work)
{
	const struct limpet_trace_block *blocks;
	size_t count = limpet_trace_reader_blocks(work->reader, &blocks), pending = NO_BLOCK;
	int code = 0;

	for (size_t i = 0; code == 0 && i < count; i++) {
		if (blocks[i].damaged)
			continue;
		if (blocks[i].type == LIMPET_TRACE_EVENTS) {
			code = flush_orphan(work, &pending);
			pending = i;
		} else if (blocks[i].type == LIMPET_TRACE_PERIOD) {
			code = take_period(work, i, &pending);
		} else if (blocks[i].type == LIMPET_TRACE_GAP) {
			work->gap = true;
		} else if (blocks[i].type == LIMPET_TRACE_SUMS && work->gap) {
			code = flush_orphan(work, &pending);
			if (code == 0)
				code = take_sums(work, i);
		}
	}
	return code < 0 ? code : flush_orphan(work, &pending);
}

/* ------------------------------------------------------------------ what sites held at the peak */

/* Sums all segments before that of the peak, and the rows of that one up to the peak. */
static int sum_to_peak(struct work *again, const struct peak_place *peak)
{
	int code = 0;

	for (size_t i = 0; code == 0 && i <= peak->segment; i++) {
		struct segment *segment = &again->segments[i];
		struct limpet_trace_period *period;

		if (i == peak->segment)
			again->rows_left = peak->rows;
		if (i == peak->segment || segment->period == NO_BLOCK || is_sampled(again)) {
			if (again->rows_left == 0)
				break;
			if (segment->events == NO_BLOCK && segment->period != NO_BLOCK)
				continue; /* no events, or already counted as lost */
			code = segment->events != NO_BLOCK ? replay(again, i) : -EBADMSG;
			if (code == -EBADMSG) {
				again->sum->losses |= LIMPET_LOSS_BIT(LIMPET_LOSS_BRIDGED);
				code = 0;
			}
			continue;
		}
		code = limpet_trace_period_load(again->reader, segment->period, &period);
		if (code < 0)
			break;
		code = limpet_model_accounting_add_period(&again->sum->accounting, period);
		limpet_trace_period_free(period);
	}
	return code;
}

/* Takes what sites held at the peak, if it is in the file. Returns 1; 0: it is not; or an error. */
static int take_held(struct work *work)
{
	size_t block = work->segments[work->peak.segment].period;
	struct limpet_model_accounting *accounting = &work->sum->accounting;
	struct limpet_trace_period *period;
	int code;

	if (block == NO_BLOCK)
		return 0;
	code = limpet_trace_period_load(work->reader, block, &period);
	if (code < 0)
		return code == -EBADMSG ? 0 : code;
	if (period->held && period->capture_peak_bytes == work->sum->peak_bytes)
		code = 1;
	for (uint32_t i = 0; period->held && code == 1 && i < period->held_count; i++) {
		struct limpet_model_sum_site *site =
			limpet_model_accounting_site(accounting, period->held[i].node);

		if (site) {
			site->peak_live = period->held[i].allocations;
			site->peak_bytes = period->held[i].bytes;
		} else {
			code = -ENOMEM;
		}
	}
	/* The time within the period is not known. */
	if (code == 0 && period->peak_row == 0 && period->site_count &&
	    limpet_trace_reader_target(work->reader)->compact)
		work->sum->losses |= LIMPET_LOSS_BIT(LIMPET_LOSS_BRIDGED);
	limpet_trace_period_free(period);
	return code;
}

static int sum_peak(struct work *work)
{
	struct limpet_model_accounting *accounting = &work->sum->accounting;
	struct limpet_model_sum second = {0};
	const struct limpet_trace_node *nodes;
	uint32_t node_count = limpet_trace_reader_nodes(work->reader, &nodes);
	struct work again = {.sum = &second,
			     .reader = work->reader,
			     .to_tick = UINT64_MAX,
			     .segments = work->segments,
			     .rows_left = UINT32_MAX};
	int code;

	if (work->peak.segment == NO_BLOCK) {
		for (size_t i = 0; i < accounting->site_count; i++) {
			accounting->sites[i].peak_live = accounting->sites[i].start_live;
			accounting->sites[i].peak_bytes = accounting->sites[i].start_bytes;
		}
		return 0;
	}
	code = take_held(work);
	if (code)
		return code < 0 ? code : 0;
	code = limpet_model_accounting_init(&second.accounting, node_count,
					    accounting->sample_bytes, accounting->overloads_only);
	if (code < 0)
		return code;
	code = sum_to_peak(&again, &work->peak);
	for (size_t i = 0; code == 0 && i < second.accounting.site_count; i++) {
		const struct limpet_model_sum_site *from = &second.accounting.sites[i];
		struct limpet_model_sum_site *site =
			limpet_model_accounting_site(accounting, from->node);

		if (!site) {
			code = -ENOMEM;
			break;
		}
		site->peak_live = from->live;
		site->peak_bytes = from->live_bytes;
	}
	work->sum->losses |= second.losses;
	limpet_model_sum_done(&second);
	return code;
}

/* Whether anything was sampled in an overload. A period that cannot be read may have had one. */
static bool was_overloaded(struct limpet_trace_reader *reader)
{
	const struct limpet_trace_block *blocks;
	size_t count = limpet_trace_reader_blocks(reader, &blocks);

	for (size_t i = 0; i < count; i++) {
		struct limpet_trace_period *period;
		bool overloaded;

		if (blocks[i].type != LIMPET_TRACE_PERIOD)
			continue;
		if (blocks[i].damaged || limpet_trace_period_load(reader, i, &period) < 0)
			return true;
		overloaded = period->overload_count > 0;
		limpet_trace_period_free(period);
		if (overloaded)
			return true;
	}
	return false;
}

/* Sums of sites come from all blocks of the file, totals from the last one that is left. */
static bool sites_add_up(const struct limpet_model_accounting *accounting)
{
	uint64_t allocations = 0, frees = 0, bytes = 0;

	for (size_t i = 0; i < accounting->site_count; i++) {
		allocations += accounting->sites[i].counts.allocations;
		frees += accounting->sites[i].counts.frees;
		bytes += accounting->sites[i].live_bytes;
	}
	return allocations == accounting->totals[LIMPET_TOTAL_ALLOCATIONS] -
				      accounting->start_totals[LIMPET_TOTAL_ALLOCATIONS] &&
	       frees == accounting->totals[LIMPET_TOTAL_FREES] -
				accounting->start_totals[LIMPET_TOTAL_FREES] &&
	       bytes == accounting->totals[LIMPET_TOTAL_ALLOCATED_BYTES] -
				accounting->totals[LIMPET_TOTAL_FREED_BYTES] -
				accounting->totals[LIMPET_TOTAL_UNTRACKED_BYTES];
}

int limpet_model_sum_init(struct limpet_model_sum *sum, struct limpet_trace_reader *reader,
			  uint64_t from_ns, uint64_t to_ns)
{
	const struct limpet_trace_node *nodes;
	uint32_t node_count = limpet_trace_reader_nodes(reader, &nodes);
	const struct limpet_trace_target *target = limpet_trace_reader_target(reader);
	bool overloads = !target->sample_bytes && target->overload_bytes && was_overloaded(reader);
	uint64_t sample_bytes = overloads ? target->overload_bytes : target->sample_bytes;
	struct work work = {.sum = sum,
			    .reader = reader,
			    .from_tick = from_ns / LIMPET_TRACE_TICK_NS,
			    .to_tick =
				    to_ns == UINT64_MAX ? UINT64_MAX : to_ns / LIMPET_TRACE_TICK_NS,
			    .peak = {.segment = NO_BLOCK},
			    .rows_left = UINT32_MAX};
	int code;

	*sum = (struct limpet_model_sum){.from_ns = from_ns, .to_ns = to_ns};
	code = limpet_model_accounting_init(
		&sum->accounting, node_count,
		sample_bytes < LIMPET_SAMPLE_MAX_BYTES ? sample_bytes : LIMPET_SAMPLE_MAX_BYTES,
		overloads);
	if (code < 0)
		return code;
	code = sum_blocks(&work);
	if (code == 0 && !sum->accounting.counting)
		start_window(&work);
	if (code == 0)
		code = sum_peak(&work);
	/* The highest point was in a period that is lost. */
	if (work.from_tick == 0 && work.to_tick == UINT64_MAX && !is_sampled(&work) &&
	    work.capture_peak_bytes > sum->peak_bytes) {
		sum->peak_bytes = work.capture_peak_bytes;
		sum->peak_ns = work.capture_peak_ns;
		sum->losses |= LIMPET_LOSS_BIT(LIMPET_LOSS_BRIDGED);
	}
	if (!is_sampled(&work) && !sites_add_up(&sum->accounting))
		sum->losses |= LIMPET_LOSS_BIT(LIMPET_LOSS_BRIDGED);
	free(work.segments);
	if (code < 0)
		limpet_model_sum_done(sum);
	return code;
}

void limpet_model_sum_done(struct limpet_model_sum *sum)
{
	limpet_model_accounting_done(&sum->accounting);
	free(sum->points);
	free(sum->overloads);
	*sum = (struct limpet_model_sum){0};
}
