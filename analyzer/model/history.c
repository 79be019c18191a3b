#include "analyzer/model/history.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/model/model_counts.h"
#include "common/array.h"

#define NONE UINT32_MAX
#define NO_BLOCK SIZE_MAX

struct work {
	struct limpet_trace_reader *reader;
	const struct limpet_model *model;
	struct limpet_history *history;
	uint32_t *site_of;                /* by node; NONE */
	struct limpet_history_step *pool; /* in the order in which they were found */
	size_t *last;                     /* by site: its newest step in the pool + 1; 0: none */
	size_t *before;                   /* by step in the pool: the site's one before it, + 1 */
	size_t pool_count, pool_capacity, before_capacity;
	const struct limpet_replay_options *selection;
	size_t sums;           /* the SUMS block of what was discarded; NO_BLOCK: none */
	uint64_t live_bytes;   /* after the last period or row that was added */
	uint64_t *live_at_end; /* of each step; UINT64_MAX: nothing happened in it */
	bool of_blocks;        /* a filter selects blocks, but aggregates are of whole stacks */
	bool failed;           /* out of memory */
};

static int reserve_place(struct work *work)
{
	int code = limpet_reserve(&work->pool, &work->pool_capacity, work->pool_count + 1,
				  sizeof(*work->pool));

	return code < 0 ? code
			: limpet_reserve(&work->before, &work->before_capacity,
					 work->pool_count + 1, sizeof(*work->before));
}

/* The site's entry for that step, valid until the next call. NULL: out of memory, or a node that is
 * no site of the model. */
static struct limpet_history_step *place(struct work *work, uint32_t node, size_t step)
{
	uint32_t site = node < work->model->node_count ? work->site_of[node] : NONE;
	struct limpet_history_step *pool = work->pool;

	if (site == NONE)
		return NULL;
	if (pool && work->last[site] && pool[work->last[site] - 1].step == step)
		return &pool[work->last[site] - 1];
	if (reserve_place(work) < 0 || !work->pool) {
		work->failed = true;
		return NULL;
	}
	pool = work->pool;
	pool[work->pool_count] = (struct limpet_history_step){.step = (uint32_t)step};
	work->before[work->pool_count] = work->last[site];
	work->last[site] = ++work->pool_count;
	return &pool[work->pool_count - 1];
}

/* ------------------------------------------------------------------ steps */

static bool is_period(const struct limpet_trace_block *block)
{
	return block->type == LIMPET_TRACE_PERIOD && !block->damaged;
}

/* As in the model: a SUMS block counts only after a gap and before all periods. */
static size_t find_sums(struct limpet_trace_reader *reader)
{
	const struct limpet_trace_block *blocks;
	size_t count = limpet_trace_reader_blocks(reader, &blocks);
	bool gap = false;

	for (size_t i = 0; i < count; i++) {
		if (blocks[i].damaged)
			continue;
		if (blocks[i].type == LIMPET_TRACE_PERIOD || blocks[i].type == LIMPET_TRACE_EVENTS)
			break;
		if (blocks[i].type == LIMPET_TRACE_GAP)
			gap = true;
		if (blocks[i].type == LIMPET_TRACE_SUMS && gap)
			return i;
	}
	return NO_BLOCK;
}

static int set_edges(struct work *work, size_t most_steps)
{
	const struct limpet_trace_block *blocks;
	size_t count = limpet_trace_reader_blocks(work->reader, &blocks), periods = 0, each, at = 0;
	struct limpet_history *history = work->history;

	for (size_t i = 0; i < count; i++)
		periods += is_period(&blocks[i]);
	work->sums = work->model->sample_bytes ? NO_BLOCK : find_sums(work->reader);
	if (work->model->sample_bytes)
		periods = 0;
	each = periods / most_steps + 1;
	history->edges_ns = calloc(periods / each + 4, sizeof(*history->edges_ns));
	if (!history->edges_ns)
		return -ENOMEM;
	if (work->sums != NO_BLOCK && blocks[work->sums].last_ns) {
		history->edges_ns[++history->step_count] = blocks[work->sums].last_ns;
		history->of_sums = true;
	}
	for (size_t i = 0; periods && i < count; i++) {
		uint64_t *edges = history->edges_ns;

		if (!is_period(&blocks[i]) || ++at % each)
			continue;
		/* The file is hostile: time must not run backwards. */
		if (blocks[i].last_ns > edges[history->step_count])
			edges[++history->step_count] = blocks[i].last_ns;
	}
	if (!history->step_count ||
	    work->model->duration_ns > history->edges_ns[history->step_count])
		history->edges_ns[++history->step_count] = work->model->duration_ns;
	return 0;
}

size_t limpet_history_step_of(const struct limpet_history *history, uint64_t time_ns)
{
	return LIMPET_PARTITION_POINT(step, history->step_count - 1,
				      history->edges_ns[step + 1] < time_ns);
}

size_t limpet_history_find_step(const void *find_context, size_t block, uint64_t time_ns,
				uint64_t *ret_until_ns)
{
	const struct limpet_history *history = find_context;
	const size_t last = history->step_count - 1;
	size_t step = history->step_of_block[block];

	*ret_until_ns = UINT64_MAX;
	if (step == NONE) {
		step = limpet_history_step_of(history, time_ns);
		if (step < last)
			*ret_until_ns = history->edges_ns[step + 1] + 1;
	}
	return step < last ? step : last;
}

/* ------------------------------------------------------------------ figures of steps */

static void add_size(struct work *work, unsigned bucket, size_t step, uint64_t allocations,
		     uint64_t bytes)
{
	const struct limpet_model *model = work->model;

	for (size_t i = 0; allocations && i < model->size_count; i++) {
		struct limpet_model_size *size =
			&work->history->sizes[i * work->history->step_count + step];

		if (limpet_trace_size_bucket(model->sizes[i].from_bytes) != bucket)
			continue;
		size->allocations += allocations;
		size->allocated_bytes += bytes;
	}
}

static void add_figures(struct work *work, const struct limpet_trace_period *period, size_t step)
{
	for (uint32_t i = 0; i < period->site_count && !work->of_blocks; i++) {
		struct limpet_history_step *to = place(work, period->sites[i].node, step);

		if (to)
			limpet_counts_add(&to->counts, &period->sites[i].counts);
	}
	for (unsigned i = 0; i < LIMPET_TRACE_SIZE_BUCKETS && !work->selection; i++)
		add_size(work, i, step, period->sizes[i].allocations,
			 period->sizes[i].allocated_bytes);
}

static void note_high(struct work *work, size_t step, uint64_t bytes, uint64_t time_ns)
{
	struct limpet_history_high *high = &work->history->highs[step];

	if (bytes <= high->bytes)
		return;
	high->bytes = bytes;
	high->at_ns = time_ns;
}

static void note_live(struct work *work, size_t step, uint64_t live_bytes)
{
	work->live_bytes = live_bytes;
	work->live_at_end[step] = live_bytes;
}

/* What was live when a step began was live in it, too: a step without events has no other high. */
static void carry_over(struct work *work)
{
	struct limpet_history *history = work->history;

	for (size_t i = 1; i < history->step_count; i++) {
		const uint64_t before = work->live_at_end[i - 1];

		note_high(work, i, before, history->edges_ns[i]);
		if (work->live_at_end[i] == UINT64_MAX)
			work->live_at_end[i] = before;
	}
}

static void add_row(struct work *work, const struct limpet_trace_event *row)
{
	const struct limpet_model_counts whole = {0};
	size_t step = limpet_history_step_of(work->history, row->time_ns);
	struct limpet_history_step *to;
	struct limpet_counts counts;

	if (!limpet_model_counts_of_row(&whole, row, &counts))
		return;
	note_live(work, step,
		  limpet_at_least_zero(work->live_bytes + limpet_counts_live_bytes(&counts)));
	note_high(work, step, work->live_bytes, row->time_ns);
	if (work->of_blocks)
		return;
	to = place(work, row->node, step);
	if (!to)
		return;
	limpet_counts_add(&to->counts, &counts);
	if (!work->selection)
		add_size(work, limpet_trace_size_bucket(row->size), step, counts.allocations,
			 counts.allocated_bytes);
}

/* Events whose aggregates were not written, or are lost. */
static int add_events(struct work *work, size_t block)
{
	struct limpet_trace_events *events;
	struct limpet_trace_event row;
	int code = limpet_trace_events_open(work->reader, block, &events);

	if (code < 0)
		return code == -EBADMSG ? 0 : code;
	while ((code = limpet_trace_events_next(events, &row)) == 1)
		add_row(work, &row);
	limpet_trace_events_free(events);
	return code == -ENOMEM ? code : 0;
}

/* `events`: the EVENTS block before it that has no aggregates yet, or NO_BLOCK. */
static int add_period(struct work *work, const struct limpet_trace_block *blocks, size_t period,
		      size_t events)
{
	const size_t step = limpet_history_step_of(work->history, blocks[period].last_ns);
	struct limpet_trace_period *figures;
	int code = limpet_trace_period_load(work->reader, period, &figures);
	const bool loaded = !code;
	bool is_its =
		loaded && events != NO_BLOCK && figures->events_sequence == blocks[events].sequence;

	if (code == -EBADMSG)
		code = 0;
	if (is_its)
		work->history->step_of_block[events] = (uint32_t)step;
	else if (!code && events != NO_BLOCK)
		code = add_events(work, events);
	if (!loaded)
		return code;
	if (!code) {
		add_figures(work, figures, step);
		note_high(work, step, figures->peak_bytes, figures->peak_ns);
		note_live(work, step,
			  limpet_at_least_zero(limpet_counts_live_bytes(&figures->totals.counts)));
	}
	limpet_trace_period_free(figures);
	return code;
}

static int add_blocks(struct work *work)
{
	const struct limpet_trace_block *blocks;
	size_t count = limpet_trace_reader_blocks(work->reader, &blocks), events = NO_BLOCK;
	int code = 0;

	for (size_t i = 0; !code && i < count; i++) {
		if (is_period(&blocks[i]) || i == work->sums) {
			code = add_period(work, blocks, i, events);
			events = NO_BLOCK;
		} else if (blocks[i].type == LIMPET_TRACE_EVENTS && !blocks[i].damaged) {
			if (events != NO_BLOCK)
				code = add_events(work, events);
			events = i;
		}
	}
	if (!code && events != NO_BLOCK)
		code = add_events(work, events);
	return code;
}

/* ------------------------------------------------------------------ what a filter keeps */

/* What aggregates do not separate: sizes by stack, everything by thread and birth. The figures are
 * whole, since a sampled trace is one step. */
static int add_kept_blocks(void *context, size_t step, const struct limpet_replay_blocks *blocks)
{
	struct work *work = context;
	struct limpet_history_step *to;

	add_size(work, limpet_trace_size_bucket(blocks->size), step, blocks->counts.allocations,
		 blocks->counts.allocated_bytes);
	to = work->of_blocks ? place(work, blocks->node, step) : NULL;
	if (to)
		limpet_counts_add(&to->counts, &blocks->counts);
	return work->failed ? -ENOMEM : 0;
}

static int add_kept(struct work *work)
{
	const struct limpet_replay_parts parts = {
		.find = limpet_history_find_step,
		.find_context = work->history,
		.on_blocks = add_kept_blocks,
		.context = work,
	};
	struct limpet_replay_options options = *work->selection;
	struct limpet_replay *replay;
	int code;

	options.parts = &parts;
	code = limpet_replay_new(work->reader, work->model, &options, &replay);
	if (code == 0)
		limpet_replay_free(replay);
	return code;
}

/* ------------------------------------------------------------------ packing */

static void pack_step(struct limpet_bytes *to, const struct limpet_history_step *step)
{
	limpet_bytes_append_varint(to, step->step);
	limpet_bytes_append_varint(to, step->counts.allocations);
	limpet_bytes_append_varint(to, step->counts.allocated_bytes);
	limpet_bytes_append_varint(to, step->counts.frees + step->counts.untracked);
	limpet_bytes_append_varint(to, step->counts.freed_bytes + step->counts.untracked_bytes);
	limpet_bytes_append_varint(to, step->counts.temporary);
	limpet_bytes_append_varint(to, step->counts.reallocations);
}

/* Reverses the site's list; returns its oldest step. */
static size_t turn_round(struct work *work, size_t site)
{
	size_t after = 0;

	for (size_t step = work->last[site]; step;) {
		const size_t before = work->before[step - 1];

		work->before[step - 1] = after;
		after = step;
		step = before;
	}
	return after;
}

/* Packs the steps one site after the other. */
static int pack_steps(struct work *work)
{
	struct limpet_history *history = work->history;

	for (size_t i = 0; i < history->site_count; i++) {
		struct limpet_history_site *site = &history->sites[i];

		site->packed_from = history->packed.count;
		for (size_t step = turn_round(work, i); step; step = work->before[step - 1]) {
			pack_step(&history->packed, &work->pool[step - 1]);
			site->count++;
		}
		site->packed_bytes = history->packed.count - site->packed_from;
	}
	return history->packed.failed ? -ENOMEM : 0;
}

const struct limpet_history_site *limpet_history_site_of(const struct limpet_history *history,
							 uint32_t node)
{
	const size_t at =
		LIMPET_PARTITION_POINT(i, history->site_count, history->sites[i].node < node);

	return at < history->site_count && history->sites[at].node == node ? &history->sites[at]
									   : NULL;
}

struct limpet_cursor limpet_history_steps(const struct limpet_history *history,
					  const struct limpet_history_site *site)
{
	return site->count ? limpet_cursor_of(history->packed.data + site->packed_from,
					      site->packed_bytes)
			   : (struct limpet_cursor){0};
}

bool limpet_history_next(struct limpet_cursor *steps, struct limpet_history_step *ret_step)
{
	if (!limpet_cursor_left(steps))
		return false;
	ret_step->step = (uint32_t)limpet_cursor_varint(steps);
	ret_step->counts.allocations = limpet_cursor_varint(steps);
	ret_step->counts.allocated_bytes = limpet_cursor_varint(steps);
	ret_step->counts.frees = limpet_cursor_varint(steps);
	ret_step->counts.freed_bytes = limpet_cursor_varint(steps);
	ret_step->counts.temporary = limpet_cursor_varint(steps);
	ret_step->counts.reallocations = limpet_cursor_varint(steps);
	return true;
}

/* The figures of a sampled trace, which the model has estimated. */
static int add_whole(struct work *work)
{
	const struct limpet_model *model = work->model;

	for (size_t i = 0; i < model->site_count; i++) {
		const struct limpet_model_site *from = &model->sites[i];
		struct limpet_history_step *to = place(work, from->node, 0);

		if (!to)
			return -ENOMEM;
		to->counts = (struct limpet_counts){
			.allocations = from->allocations,
			.allocated_bytes = from->allocated_bytes,
			.frees = from->allocations - from->live_allocations,
			.freed_bytes = from->allocated_bytes - from->live_bytes,
			.temporary = from->temporary_allocations,
			.reallocations = from->reallocations,
		};
	}
	for (size_t i = 0; i < model->size_count; i++)
		work->history->sizes[i] = model->sizes[i];
	return 0;
}

/* Whether the steps add up to the model's figures of each site. They do not if a block is
 * damaged. */
static bool adds_up(const struct work *work)
{
	const struct limpet_history_step *pool = work->pool;

	for (size_t i = 0; i < work->model->site_count; i++) {
		const struct limpet_model_site *site = &work->model->sites[i];
		struct limpet_counts sum = {0};

		for (size_t step = work->last[i]; step; step = work->before[step - 1])
			limpet_counts_add(&sum, &pool[step - 1].counts);
		if (sum.allocations != site->allocations ||
		    sum.allocated_bytes != site->allocated_bytes ||
		    limpet_counts_live_bytes(&sum) != site->live_bytes)
			return false;
	}
	return true;
}

static int add_in_one(struct work *work)
{
	struct limpet_history *history = work->history;

	memset(work->last, 0, work->model->site_count * sizeof(*work->last));
	memset(history->sizes, 0,
	       work->model->size_count * history->step_count * sizeof(*history->sizes));
	work->pool_count = 0;
	history->of_sums = false;
	history->in_one = true;
	history->step_count = 1;
	history->edges_ns[1] = work->model->duration_ns;
	return add_whole(work);
}

/* Highs are known of all live blocks, not of what a filter keeps or samples represent. */
static bool has_highs(const struct work *work)
{
	const struct limpet_trace_damage *damage = work->model->damage;

	return !work->selection && !work->history->in_one && !damage->blocks_damaged &&
	       !damage->blocks_lost;
}

static int build(struct work *work, size_t most_steps)
{
	const struct limpet_model *model = work->model;
	struct limpet_history *history = work->history;
	const struct limpet_trace_block *blocks;
	const size_t block_bytes = (limpet_trace_reader_blocks(work->reader, &blocks) + 1) *
				   sizeof(*history->step_of_block);
	int code = set_edges(work, most_steps);

	if (code < 0)
		return code;
	history->step_of_block = malloc(block_bytes);
	history->highs = calloc(history->step_count, sizeof(*history->highs));
	work->live_at_end = malloc(history->step_count * sizeof(*work->live_at_end));
	history->site_count = model->site_count;
	history->sites = calloc(model->site_count + 1, sizeof(*history->sites));
	history->sizes =
		calloc(model->size_count * history->step_count + 1, sizeof(*history->sizes));
	work->site_of = malloc((model->node_count + 1ul) * sizeof(*work->site_of));
	work->last = calloc(model->site_count + 1, sizeof(*work->last));
	if (!history->step_of_block || !history->highs || !history->sites || !history->sizes ||
	    !work->site_of || !work->live_at_end || !work->last)
		return -ENOMEM;
	memset(history->step_of_block, 0xff, block_bytes);
	memset(work->live_at_end, 0xff, history->step_count * sizeof(*work->live_at_end));
	work->live_at_end[0] = 0;
	memset(work->site_of, 0xff, (model->node_count + 1ul) * sizeof(*work->site_of));
	for (size_t i = 0; i < model->site_count; i++) {
		history->sites[i].node = model->sites[i].node;
		history->sites[i].peak_bytes = model->sites[i].peak_bytes;
		work->site_of[model->sites[i].node] = (uint32_t)i;
	}
	history->in_one = model->sample_bytes != 0;
	code = model->sample_bytes ? add_whole(work) : add_blocks(work);
	if (!code && work->selection && !model->sample_bytes && !model->compact)
		code = add_kept(work);
	if (!code && !adds_up(work))
		code = add_in_one(work);
	if (code >= 0 && work->failed)
		code = -ENOMEM;
	if (code >= 0)
		carry_over(work);
	for (size_t i = 0; i < history->step_count; i++)
		history->highs[i].known = has_highs(work);
	return code < 0 ? code : pack_steps(work);
}

int limpet_history_build(struct limpet_trace_reader *reader, const struct limpet_model *model,
			 size_t most_steps, const struct limpet_replay_options *selection,
			 struct limpet_history **ret_history, struct limpet_err *err)
{
	struct limpet_history *history = calloc(1, sizeof(*history));
	struct work work = {.reader = reader,
			    .model = model,
			    .history = history,
			    .selection = selection,
			    .of_blocks = selection && selection->filter &&
					 limpet_filter_needs_events(selection->filter)};
	int code = history ? build(&work, most_steps) : -ENOMEM;

	free(work.site_of);
	free(work.last);
	free(work.before);
	free(work.pool);
	free(work.live_at_end);
	if (code < 0) {
		limpet_history_free(history);
		return limpet_err_set(err, code, "cannot read the trace's periods: %s",
				      strerror(-code));
	}
	*ret_history = history;
	return 0;
}

void limpet_history_free(struct limpet_history *history)
{
	if (!history)
		return;
	free(history->edges_ns);
	free(history->highs);
	free(history->sites);
	free(history->sizes);
	limpet_bytes_done(&history->packed);
	free(history->step_of_block);
	free(history);
}
