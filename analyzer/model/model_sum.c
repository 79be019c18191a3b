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
	bool begun, ended; /* the window */
	bool no_memory;
	struct segment *segments;
	size_t segment_count, segment_capacity;
	struct peak_place peak;
	uint64_t capture_peak_bytes, capture_peak_ns;
	uint32_t rows_left; /* of a replay that is to stop early */
	bool gap;           /* blocks were discarded, and their sums not read yet */
};

static uint64_t live_bytes(const struct work *work)
{
	const struct limpet_model_counts *sums = &work->sum->sums;

	return limpet_unscaled(limpet_counts_live_bytes(&sums->totals.counts),
			       sums->scale.byte_bits);
}

/* ------------------------------------------------------------------ the window */

static bool is_sampled(const struct work *work)
{
	return work->sum->sums.sample_bytes != 0;
}

static void start_window(struct work *work)
{
	struct limpet_model_sum *sum = work->sum;
	const size_t count = sum->sums.sites.count;

	work->begun = true;
	sum->peak_bytes = live_bytes(work);
	sum->peak_ns = work->from_tick * LIMPET_TRACE_TICK_NS;
	sum->totals_before = sum->sums.totals;
	memcpy(sum->sizes_before, sum->sums.sizes, sizeof(sum->sizes_before));
	sum->sites_before = calloc(count + 1, sizeof(*sum->sites_before));
	work->no_memory |= !sum->sites_before;
	if (!sum->sites_before || !count)
		return;
	memcpy(sum->sites_before, sum->sums.sites.list, count * sizeof(*sum->sites_before));
	sum->site_count_before = count;
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
	bool begins = !work->begun && work->from_tick && first >= work->from_tick;

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

static int reserve_estimates(struct limpet_model_sum *sum, size_t count)
{
	return limpet_reserve_zeroed(&sum->estimates, &sum->estimate_capacity, count,
				     sizeof(*sum->estimates));
}

/* How far off the figures of samples may be. */
static int estimate(struct work *work, const struct limpet_trace_event *row)
{
	struct limpet_model_sum *sum = work->sum;
	const struct limpet_model_counts *sums = &sum->sums;
	const struct limpet_weight weight =
		limpet_weight_of(row->size, limpet_model_counts_period(sums, row->sampled));
	const struct limpet_site_count *site;
	struct limpet_model_estimates *estimates;
	struct limpet_counts counts;

	if (!limpet_model_counts_of_row(sums, row, &counts))
		return 0;
	if (reserve_estimates(sum, sums->sites.count) < 0)
		return -ENOMEM;
	site = limpet_site_counts_find(&sums->sites, row->node);
	estimates = &sum->estimates[site - sums->sites.list];
	if (counts.frees) {
		limpet_model_estimates_free(estimates, &weight, row->size);
		limpet_model_estimates_free(&sum->estimate, &weight, row->size);
	} else {
		limpet_model_estimates_alloc(estimates, &weight, row->size, work->begun,
					     !counts.untracked);
		limpet_model_estimates_alloc(&sum->estimate, &weight, row->size, work->begun,
					     !counts.untracked);
	}
	return 0;
}

static int add_row(struct work *work, const struct limpet_trace_event *row)
{
	int code = limpet_model_counts_add_row(&work->sum->sums, row);

	return code == 0 && is_sampled(work) ? estimate(work, row) : code;
}

/* Counts the events of a segment one by one. -EBADMSG: they are damaged, nothing is counted. */
static int replay(struct work *work, size_t segment)
{
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
	work->sum->sums.parts = 0;
	while (rows < work->rows_left && (code = limpet_trace_events_next(events, &row)) == 1) {
		uint64_t tick = row.time_ns / LIMPET_TRACE_TICK_NS;

		if (tick >= work->to_tick) {
			work->ended = true;
			break;
		}
		if (!work->begun && tick >= work->from_tick)
			start_window(work);
		code = add_row(work, &row);
		if (code < 0)
			break;
		rows++;
		if (work->begun)
			try_peak(work, live_bytes(work), row.time_ns, segment, rows);
	}
	limpet_trace_events_free(events);
	return code < 0 ? code : 0;
}

/* ------------------------------------------------------------------ whole periods */

static int add_period(struct work *work, const struct limpet_trace_period *period, size_t segment)
{
	if (work->begun)
		try_peak(work, period->peak_bytes, period->peak_ns, segment, period->peak_row);
	return limpet_model_counts_add_period(&work->sum->sums, period);
}

static int add_point(struct work *work, const struct limpet_trace_period *period)
{
	struct limpet_model_sum *sum = work->sum;
	uint64_t tick = period->last_ns / LIMPET_TRACE_TICK_NS;

	if (tick < work->from_tick || tick >= work->to_tick)
		return 0;
	if (limpet_reserve(&sum->points, &sum->point_capacity, sum->point_count + 1,
			   sizeof(*sum->points)) < 0)
		return -ENOMEM;
	/* For a sampled trace, the sums so far. */
	sum->points[sum->point_count++] =
		is_sampled(work)
			? limpet_model_counts_point(period, &sum->sums.totals, sum->sums.scale)
			: limpet_model_counts_point(period, &period->totals, LIMPET_SCALE_WHOLE);
	return 0;
}

/* A long overload is recorded in parts, of which a later one may reach back into the one before. */
static int add_overloads(struct work *work, const struct limpet_trace_period *period)
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

static void set_losses(struct work *work, const struct limpet_trace_period *period)
{
	struct limpet_model_sum *sum = work->sum;

	limpet_model_bounds_set_missing(&sum->missing, period);
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
	if (!work->begun && first >= work->from_tick)
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
	if (!work->begun && first >= work->from_tick)
		start_window(work);
	cut = (!work->begun && last >= work->from_tick) || last >= work->to_tick;
	/* Without single events it cannot be cut: all of it is in the window. */
	if (cut && compact) {
		if (!work->begun) {
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
			work->sum->sums.totals = period->totals;
		if (code != -EBADMSG)
			return code;
		work->sum->losses |= LIMPET_LOSS_BIT(LIMPET_LOSS_DAMAGED);
		work->sum->losses |= LIMPET_LOSS_BIT(LIMPET_LOSS_BRIDGED);
		if (!work->begun)
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
	if (!work->begun && first >= work->from_tick)
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

static int read_period(struct work *work, size_t block, size_t *pending)
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
	set_losses(work, period);
	if (code == 0)
		code = add_overloads(work, period);
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
		sum->points[sum->point_count++] = limpet_model_counts_past_point(from);
	}
	return 0;
}

/* Adds the sums of all that was discarded. A window that begins or ends there begins or ends after
 * them. */
static int read_sums(struct work *work, size_t block)
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
	set_losses(work, sums);
	if (code == 0)
		code = add_period(work, sums, 0);
	if (code == 0 && !work->begun && sums->last_ns / LIMPET_TRACE_TICK_NS >= work->from_tick) {
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
			code = read_period(work, i, &pending);
		} else if (blocks[i].type == LIMPET_TRACE_GAP) {
			work->gap = true;
		} else if (blocks[i].type == LIMPET_TRACE_SUMS && work->gap) {
			code = flush_orphan(work, &pending);
			if (code == 0)
				code = read_sums(work, i);
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
		code = limpet_model_counts_add_period(&again->sum->sums, period);
		limpet_trace_period_free(period);
	}
	return code;
}

/* Takes what sites held at the peak, if it is in the file. Returns 1; 0: it is not; or an error. */
static int read_held(struct work *work)
{
	size_t block = work->segments[work->peak.segment].period;
	struct limpet_model_sum *sum = work->sum;
	struct limpet_trace_period *period;
	int code;

	if (block == NO_BLOCK)
		return 0;
	code = limpet_trace_period_load(work->reader, block, &period);
	if (code < 0)
		return code == -EBADMSG ? 0 : code;
	if (period->held && period->capture_peak_bytes == sum->peak_bytes)
		code = 1;
	for (uint32_t i = 0; period->held && code == 1 && i < period->held_count; i++) {
		const struct limpet_trace_held *held = &period->held[i];
		struct limpet_site_count *site = limpet_site_counts_at(&sum->at_peak, held->node);

		if (!site || !limpet_site_counts_at(&sum->sums.sites, held->node)) {
			code = -ENOMEM;
			break;
		}
		site->counts = (struct limpet_counts){.allocations = held->allocations,
						      .allocated_bytes = held->bytes};
	}
	/* The time within the period is not known. */
	if (code == 0 && period->peak_row == 0 && period->site_count &&
	    limpet_trace_reader_target(work->reader)->compact)
		work->sum->losses |= LIMPET_LOSS_BIT(LIMPET_LOSS_BRIDGED);
	limpet_trace_period_free(period);
	return code;
}

/* The peak is where the window begins. */
static int copy_before(struct limpet_model_sum *sum)
{
	for (size_t i = 0; i < sum->site_count_before; i++) {
		const struct limpet_site_count *from = &sum->sites_before[i];
		struct limpet_site_count *site = limpet_site_counts_at(&sum->at_peak, from->node);

		if (!site)
			return -ENOMEM;
		*site = *from;
	}
	return 0;
}

static int sum_peak(struct work *work)
{
	struct limpet_model_sum *sum = work->sum;
	struct limpet_model_sum second = {
		.sums = limpet_model_counts_new(sum->sums.sample_bytes, sum->sums.overloads_only)};
	struct work again = {.sum = &second,
			     .reader = work->reader,
			     .to_tick = UINT64_MAX,
			     .segments = work->segments,
			     .rows_left = UINT32_MAX,
			     .begun = true};
	int code;

	if (work->peak.segment == NO_BLOCK)
		return copy_before(sum);
	code = read_held(work);
	if (code)
		return code < 0 ? code : 0;
	code = sum_to_peak(&again, &work->peak);
	sum->at_peak = second.sums.sites;
	second.sums.sites = (struct limpet_site_counts){0};
	sum->losses |= second.losses;
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
static bool sites_add_up(const struct limpet_model_sum *sum)
{
	const struct limpet_counts *all = &sum->sums.totals.counts;
	const struct limpet_counts *before = &sum->totals_before.counts;
	struct limpet_counts sites = {0}, sites_before = {0};

	for (size_t i = 0; i < sum->sums.sites.count; i++)
		limpet_counts_add(&sites, &sum->sums.sites.list[i].counts);
	for (size_t i = 0; i < sum->site_count_before; i++)
		limpet_counts_add(&sites_before, &sum->sites_before[i].counts);
	return sites.allocations - sites_before.allocations ==
		       all->allocations - before->allocations &&
	       sites.frees - sites_before.frees == all->frees - before->frees &&
	       limpet_counts_live_bytes(&sites) == limpet_counts_live_bytes(all);
}

int limpet_model_sum_init(struct limpet_model_sum *sum, struct limpet_trace_reader *reader,
			  uint64_t from_ns, uint64_t to_ns)
{
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

	*sum = (struct limpet_model_sum){
		.from_ns = from_ns,
		.to_ns = to_ns,
		.sums = limpet_model_counts_new(sample_bytes < LIMPET_SAMPLE_MAX_BYTES
							? sample_bytes
							: LIMPET_SAMPLE_MAX_BYTES,
						overloads)};
	code = sum_blocks(&work);
	if (code == 0 && !work.begun)
		start_window(&work);
	if (code == 0)
		code = sum_peak(&work);
	if (code == 0 && (work.no_memory || reserve_estimates(sum, sum->sums.sites.count + 1) < 0))
		code = -ENOMEM;
	/* The highest point was in a period that is lost. */
	if (work.from_tick == 0 && work.to_tick == UINT64_MAX && !is_sampled(&work) &&
	    work.capture_peak_bytes > sum->peak_bytes) {
		sum->peak_bytes = work.capture_peak_bytes;
		sum->peak_ns = work.capture_peak_ns;
		sum->losses |= LIMPET_LOSS_BIT(LIMPET_LOSS_BRIDGED);
	}
	if (!is_sampled(&work) && !sites_add_up(sum))
		sum->losses |= LIMPET_LOSS_BIT(LIMPET_LOSS_BRIDGED);
	free(work.segments);
	if (code < 0)
		limpet_model_sum_done(sum);
	return code;
}

void limpet_model_sum_done(struct limpet_model_sum *sum)
{
	limpet_model_counts_done(&sum->sums);
	limpet_site_counts_done(&sum->at_peak);
	free(sum->sites_before);
	free(sum->estimates);
	free(sum->points);
	free(sum->overloads);
	*sum = (struct limpet_model_sum){0};
}
