#include "analyzer/model/tail.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/model/model_bounds.h"
#include "analyzer/model/model_counts.h"
#include "common/array.h"
#include "common/number_table.h"
#include "common/sample.h"

#define POINTS_MAX 4096u
/* Limit of the deltas kept for windows; the oldest are dropped first: some 72 MiB. */
#define DELTAS_MAX (1u << 20)
/* Events read at a time for threads. */
#define THREAD_ROWS_MAX (4u << 20)

/* What a period added to a site. */
struct delta {
	uint32_t node;
	struct limpet_counts counts;
};
struct thread {
	uint32_t tid;
	struct limpet_counts counts;
};
/* What one period added. */
struct step {
	uint64_t from_ns, to_ns;
	struct delta *deltas;
	size_t count, capacity;
	struct limpet_totals totals;    /* since the capture's start, at its end */
	uint32_t rows, events_sequence; /* of its EVENTS block; 0: none */
	bool threads_known;
	bool threads_lost; /* its events are: no window reaches beyond it */
	struct thread *threads;
	size_t thread_count, thread_capacity;
};

enum reading {
	AT_FIRST,  /* all that is there */
	FOLLOWING, /* what is new: it must continue where the last period ended */
	AGAIN      /* all of it, without steps: these exist already */
};

struct limpet_tail {
	char *path;
	struct limpet_trace_reader *reader;
	size_t blocks; /* of the reader, processed so far */
	struct limpet_model *model;
	struct limpet_model_symbols *symbols; /* the model's */
	struct limpet_namer *namer;
	uint64_t generation, window_ns;
	uint64_t symbols_ns; /* of the newest block of symbols that was read */

	struct limpet_model_counts sums,
		part; /* since the capture's start; of the current period */
	struct limpet_site_counts window;

	struct step *steps; /* by time */
	size_t step_count, step_capacity, delta_count;
	struct limpet_totals earliest; /* before the first step */
	uint64_t earliest_ns, last_ns;
	uint64_t peak_bytes, peak_ns;
	struct limpet_model_missing missing;
	uint64_t truncated_stacks;

	struct limpet_model_point *points;
	size_t point_count, point_step, point_skip;

	bool row_by_row;                 /* from here on periods are not enough */
	bool begun;                      /* the first sums were taken */
	bool gap;                        /* blocks were discarded, and their sums not read yet */
	bool again;                      /* all of it must be added up again */
	struct limpet_number_table tids; /* of the threads of one list */
	bool inexact;

	size_t added, most; /* by the current update: sums of sites, and rows; most 0: no limit */
};

/* ------------------------------------------------------------------ one period */

/* -EBADMSG: the events are damaged or gone; what was added stays. */
static int add_rows(struct limpet_tail *tail, const struct limpet_trace_period *period)
{
	long block = limpet_trace_reader_find(tail->reader, period->events_sequence);
	struct limpet_trace_events *events;
	struct limpet_trace_event row;
	int code;

	if (!period->rows)
		return 0;
	if (block < 0)
		return -EBADMSG;
	code = limpet_trace_events_open(tail->reader, (size_t)block, &events);
	if (code < 0)
		return code == -EINVAL ? -EBADMSG : code;
	while ((code = limpet_trace_events_next(events, &row)) == 1) {
		code = limpet_model_counts_add_row(&tail->part, &row);
		if (code < 0)
			break;
	}
	limpet_trace_events_free(events);
	return code;
}

/* Adds the part to the whole, and to the step if there is one. */
static int add_part(struct limpet_tail *tail, struct step *step)
{
	const struct limpet_site_counts *part = &tail->part.sites;

	if (step &&
	    limpet_reserve(&step->deltas, &step->capacity, part->count, sizeof(*step->deltas)) < 0)
		return -ENOMEM;
	for (size_t i = 0; i < part->count; i++) {
		const struct limpet_site_count *from = &part->list[i];
		struct limpet_site_count *to = limpet_site_counts_at(&tail->sums.sites, from->node);

		if (!to)
			return -ENOMEM;
		limpet_counts_add(&to->counts, &from->counts);
		if (step)
			step->deltas[step->count++] =
				(struct delta){.node = from->node, .counts = from->counts};
	}
	return 0;
}

/* The distance between points doubles whenever there is no more room. */
static int add_point(struct limpet_tail *tail, const struct limpet_model_point *point)
{
	if (!tail->points) {
		tail->points = calloc(POINTS_MAX, sizeof(*tail->points));
		tail->point_step = 1;
	}
	if (!tail->points)
		return -ENOMEM;
	if (tail->point_skip++ % tail->point_step)
		return 0;
	if (tail->point_count == POINTS_MAX) {
		tail->point_count = limpet_halve(tail->points, POINTS_MAX, sizeof(*tail->points));
		tail->point_step *= 2;
	}
	tail->points[tail->point_count++] = *point;
	return 0;
}

static int add_past_points(struct limpet_tail *tail, const struct limpet_trace_period *sums)
{
	int code = 0;

	for (uint32_t i = 0; i < sums->point_count && code == 0; i++) {
		const struct limpet_model_point point =
			limpet_model_counts_past_point(&sums->points[i]);

		code = add_point(tail, &point);
	}
	return code;
}

static void set_losses(struct limpet_tail *tail, const struct limpet_trace_period *period)
{
	limpet_model_bounds_set_missing(&tail->missing, period);
	tail->truncated_stacks = period->truncated_stacks;
	if (period->capture_peak_bytes > tail->peak_bytes) {
		tail->peak_bytes = period->capture_peak_bytes;
		tail->peak_ns = period->capture_peak_ns;
	}
}

/* `step` NULL: adds only to the sums of the whole capture. */
static int add_period(struct limpet_tail *tail, struct step *step,
		      const struct limpet_trace_period *period)
{
	struct limpet_model_point point;
	struct limpet_counts counts;
	int code;

	tail->row_by_row |= period->overload_count > 0;
	tail->added += tail->row_by_row ? period->rows : period->site_count;
	limpet_site_counts_clear(&tail->part.sites);
	tail->part.totals.counts = tail->sums.totals.counts;
	if (tail->row_by_row)
		code = add_rows(tail, period);
	else
		code = limpet_model_counts_add_period(&tail->part, period);
	if (code == -EBADMSG) {
		tail->inexact = true;
		code = 0;
	}
	if (code == 0)
		code = add_part(tail, step);
	counts = tail->part.totals.counts;
	tail->sums.totals = period->totals;
	tail->sums.totals.counts = counts;
	set_losses(tail, period);
	tail->last_ns = period->last_ns;
	tail->begun = true;
	point = limpet_model_counts_point(period, &tail->sums.totals, tail->sums.scale);
	return code < 0 ? code : add_point(tail, &point);
}

/* ------------------------------------------------------------------ steps */

static void step_done(struct step *step)
{
	free(step->deltas);
	free(step->threads);
}

/* Drops the oldest steps: those that no window reaches any more, or for which there is no room. */
static void drop_steps(struct limpet_tail *tail)
{
	size_t drop = 0;

	while (drop < tail->step_count &&
	       (tail->steps[drop].to_ns + LIMPET_TAIL_WINDOW_MAX_NS <= tail->last_ns ||
		(tail->delta_count > DELTAS_MAX && drop + 1 < tail->step_count))) {
		tail->earliest_ns = tail->steps[drop].to_ns;
		tail->earliest = tail->steps[drop].totals;
		tail->delta_count -= tail->steps[drop].count;
		step_done(&tail->steps[drop]);
		drop++;
	}
	tail->step_count -= drop;
	if (drop && tail->step_count)
		memmove(tail->steps, tail->steps + drop, tail->step_count * sizeof(*tail->steps));
}

/* `tail` takes the step over; on failure the step is freed. */
static int end_step(struct limpet_tail *tail, struct step *step, int code)
{
	if (code == 0)
		code = limpet_reserve(&tail->steps, &tail->step_capacity, tail->step_count + 1,
				      sizeof(*tail->steps));
	if (code < 0 || !tail->steps) {
		step_done(step);
		return code < 0 ? code : -ENOMEM;
	}
	step->totals = tail->sums.totals;
	tail->delta_count += step->count;
	tail->steps[tail->step_count++] = *step;
	drop_steps(tail);
	return 0;
}

static int read_period(struct limpet_tail *tail, size_t block, enum reading reading)
{
	struct limpet_trace_period *period;
	struct step step;
	int code = limpet_trace_period_load(tail->reader, block, &period);

	if (code == -EBADMSG) {
		tail->inexact = true;
		return 0;
	}
	if (code < 0)
		return code;
	step = (struct step){.from_ns = tail->last_ns,
			     .to_ns = period->last_ns,
			     .rows = period->rows,
			     .events_sequence = period->rows ? period->events_sequence : 0};
	if (tail->begun && period->first_ns < tail->last_ns && period->last_ns <= tail->last_ns) {
		/* Replaces periods that were already added: ignored. A period without duration is a
		 * new one. */
	} else if (tail->begun && reading == FOLLOWING && period->first_ns != tail->last_ns) {
		tail->again = true;
	} else {
		tail->inexact |= tail->begun && period->first_ns != tail->last_ns;
		code = add_period(tail, reading == AGAIN ? NULL : &step, period);
		if (reading != AGAIN)
			code = end_step(tail, &step, code);
	}
	limpet_trace_period_free(period);
	return code;
}

/* Adds the sums of all that was discarded. */
static int read_given_up(struct limpet_tail *tail, size_t block)
{
	struct limpet_trace_period *sums;
	int code = limpet_trace_period_load(tail->reader, block, &sums);

	if (code < 0) {
		tail->inexact = true;
		return code == -EBADMSG ? 0 : code;
	}
	code = add_past_points(tail, sums);
	if (code == 0)
		code = add_period(tail, NULL, sums);
	limpet_trace_period_free(sums);
	return code;
}

/* The model was opened with all that there were at first. A rewritten trace has blocks again that
 * were read, with the time of the rewriting. */
static int read_symbols(struct limpet_tail *tail, const struct limpet_trace_block *block,
			enum reading reading)
{
	const bool is_new =
		reading == FOLLOWING || (reading == AGAIN && block->last_ns >= tail->symbols_ns);

	if (block->last_ns > tail->symbols_ns)
		tail->symbols_ns = block->last_ns;
	if (!is_new)
		return 0;
	tail->generation++;
	return limpet_model_symbols_add_block(tail->symbols, tail->reader, tail->blocks);
}

static int read_blocks(struct limpet_tail *tail, enum reading reading)
{
	const struct limpet_trace_block *blocks;
	size_t count = limpet_trace_reader_blocks(tail->reader, &blocks);
	int code = 0;

	for (; tail->blocks < count && code == 0 && !tail->again; tail->blocks++) {
		const struct limpet_trace_block *block = &blocks[tail->blocks];

		if (reading == FOLLOWING && tail->most && tail->added >= tail->most)
			break;
		if (block->damaged)
			continue;
		if (block->type == LIMPET_TRACE_GAP)
			tail->gap = true;
		else if (block->type == LIMPET_TRACE_SUMS && tail->gap && !tail->begun)
			code = read_given_up(tail, tail->blocks);
		else if (block->type == LIMPET_TRACE_PERIOD)
			code = read_period(tail, tail->blocks, reading);
		else if (block->type == LIMPET_TRACE_SYMBOLS)
			code = read_symbols(tail, block, reading);
	}
	return code;
}

/* ------------------------------------------------------------------ opening, following */

/* Starts at the first block of a reader just opened. */
static int add_up(struct limpet_tail *tail, enum reading reading)
{
	const struct limpet_trace_target *target = limpet_trace_reader_target(tail->reader);
	uint64_t sample_bytes =
		target->sample_bytes ? target->sample_bytes : target->overload_bytes;

	if (sample_bytes > LIMPET_SAMPLE_MAX_BYTES)
		sample_bytes = LIMPET_SAMPLE_MAX_BYTES;
	limpet_model_counts_done(&tail->sums);
	limpet_model_counts_done(&tail->part);
	tail->sums = tail->part = limpet_model_counts_new(sample_bytes, !target->sample_bytes);
	tail->row_by_row = target->sample_bytes != 0;
	tail->begun = tail->gap = tail->again = tail->inexact = false;
	tail->last_ns = 0;
	tail->blocks = tail->point_count = tail->point_skip = 0;
	tail->point_step = 1;
	return read_blocks(tail, reading);
}

/* Adds the difference to the step. */
static int add_differences(struct limpet_tail *tail, const struct limpet_site_counts *before,
			   struct step *step)
{
	static const struct limpet_counts nothing;
	const struct limpet_site_counts *sites = &tail->sums.sites;

	if (limpet_reserve(&step->deltas, &step->capacity, sites->count, sizeof(*step->deltas)) < 0)
		return -ENOMEM;
	for (size_t i = 0; i < sites->count; i++) {
		const struct limpet_site_count *now = &sites->list[i];
		const struct limpet_site_count *then = limpet_site_counts_find(before, now->node);
		const struct limpet_counts counts =
			limpet_counts_less(&now->counts, then ? &then->counts : &nothing);

		if (counts.allocations || counts.frees)
			step->deltas[step->count++] =
				(struct delta){.node = now->node, .counts = counts};
	}
	return 0;
}

/* What was read has been rewritten: reads all of it again; the difference is one step. */
static int add_up_again(struct limpet_tail *tail, struct limpet_err *err)
{
	struct step step = {.from_ns = tail->last_ns, .threads_lost = true};
	struct limpet_site_counts before;
	struct limpet_trace_reader *reader;
	int code = limpet_trace_reader_open(tail->path, &reader, err);

	if (code < 0)
		return code;
	limpet_trace_reader_free(tail->reader);
	tail->reader = reader;
	limpet_model_live_refresh(tail->model, reader);
	before = tail->sums.sites;
	tail->sums.sites = (struct limpet_site_counts){0};
	code = add_up(tail, AGAIN);
	step.to_ns = tail->last_ns > step.from_ns ? tail->last_ns : step.from_ns;
	if (code == 0)
		code = add_differences(tail, &before, &step);
	limpet_site_counts_done(&before);
	/* Sequence numbers may now be those of other blocks. */
	for (size_t i = 0; i < tail->step_count; i++)
		tail->steps[i].events_sequence = 0;
	return end_step(tail, &step, code);
}

static int open_live(struct limpet_tail *tail, struct limpet_err *err)
{
	int code = limpet_trace_reader_open(tail->path, &tail->reader, err);

	if (code < 0)
		return code;
	if (limpet_trace_reader_target(tail->reader)->recorder[0]) {
		limpet_err_set(err, -ENOTSUP,
			       "'%s' is a file of %s: it is not followed while it is written",
			       tail->path, limpet_trace_reader_target(tail->reader)->recorder);
		limpet_err_hint(err, "limpet report %s", tail->path);
		return -ENOTSUP;
	}
	code = limpet_model_symbols_new(tail->reader, &tail->symbols);
	if (code == 0)
		code = limpet_model_live_new(tail->symbols, &tail->model);
	if (code < 0)
		return code;
	limpet_model_live_refresh(tail->model, tail->reader);
	tail->generation = 1;
	return add_up(tail, AT_FIRST);
}

int limpet_tail_open(const char *path, struct limpet_tail **ret_tail, struct limpet_err *err)
{
	struct limpet_tail *tail = calloc(1, sizeof(*tail));
	int code = -ENOMEM;

	*err = (struct limpet_err){0};
	if (tail)
		tail->path = strdup(path);
	if (tail && tail->path)
		code = open_live(tail, err);
	if (code < 0) {
		limpet_tail_free(tail);
		return err->message[0] ? code
				       : limpet_err_set(err, code, "cannot read '%s': %s", path,
							strerror(-code));
	}
	*ret_tail = tail;
	return 0;
}

void limpet_tail_free(struct limpet_tail *tail)
{
	if (!tail)
		return;
	limpet_namer_free(tail->namer);
	limpet_model_free(tail->model);
	limpet_trace_reader_free(tail->reader);
	for (size_t i = 0; i < tail->step_count; i++)
		step_done(&tail->steps[i]);
	free(tail->steps);
	limpet_model_counts_done(&tail->sums);
	limpet_model_counts_done(&tail->part);
	limpet_site_counts_done(&tail->window);
	limpet_number_table_done(&tail->tids);
	free(tail->points);
	free(tail->path);
	free(tail);
}

void limpet_tail_set_namer(struct limpet_tail *tail, struct limpet_namer *namer)
{
	limpet_namer_free(tail->namer);
	tail->namer = namer;
}

static int update_names(struct limpet_tail *tail)
{
	int code;

	if (!tail->namer)
		return 0;
	code = limpet_namer_request(tail->namer, tail->model);
	if (code == 0)
		code = limpet_namer_collect(tail->namer, tail->symbols);
	return code;
}

int limpet_tail_update(struct limpet_tail *tail, struct limpet_err *err)
{
	const uint32_t nodes = tail->model->node_count;
	const bool behind = limpet_tail_is_behind(tail);
	int64_t blocks = behind ? 0 : limpet_trace_reader_follow(tail->reader);
	bool news = behind || blocks > 0 || blocks == -ESTALE;
	int code = blocks < 0 && blocks != -ESTALE ? (int)blocks : 0, names;

	*err = (struct limpet_err){0};
	tail->added = 0;
	if (blocks >= 0) {
		limpet_model_live_refresh(tail->model, tail->reader);
		code = read_blocks(tail, FOLLOWING);
	}
	if (code == 0 && (tail->again || blocks == -ESTALE))
		code = add_up_again(tail, err);
	names = code == 0 ? update_names(tail) : 0;
	tail->generation += tail->model->node_count != nodes || names > 0;
	if (code == 0 && names < 0)
		code = names;
	if (code < 0)
		return err->message[0] ? code
				       : limpet_err_set(err, code, "cannot read '%s': %s",
							tail->path, strerror(-code));
	return news || names > 0;
}

void limpet_tail_bound(struct limpet_tail *tail, size_t most)
{
	tail->most = most;
}

bool limpet_tail_is_behind(const struct limpet_tail *tail)
{
	const struct limpet_trace_block *blocks;

	return tail->blocks < limpet_trace_reader_blocks(tail->reader, &blocks);
}

uint64_t limpet_tail_generation(const struct limpet_tail *tail)
{
	return tail->generation;
}

bool limpet_tail_is_over(const struct limpet_tail *tail)
{
	return !limpet_trace_reader_writer_alive(tail->reader);
}

/* ------------------------------------------------------------------ figures */

void limpet_tail_window(struct limpet_tail *tail, uint64_t window_ns)
{
	tail->window_ns =
		window_ns < LIMPET_TAIL_WINDOW_MAX_NS ? window_ns : LIMPET_TAIL_WINDOW_MAX_NS;
}

/* The first step of the window; *ret_from and *ret_totals are time and totals before it. */
static size_t first_step(const struct limpet_tail *tail, uint64_t *ret_from,
			 const struct limpet_totals **ret_totals)
{
	static const struct limpet_totals nothing;
	size_t first = tail->step_count;

	if (!tail->window_ns) {
		*ret_from = 0;
		*ret_totals = &nothing;
		return 0;
	}
	while (first > 0 && tail->steps[first - 1].to_ns + tail->window_ns > tail->last_ns)
		first--;
	*ret_from = first ? tail->steps[first - 1].to_ns : tail->earliest_ns;
	*ret_totals = first ? &tail->steps[first - 1].totals : &tail->earliest;
	return first;
}

static void fill_totals(struct limpet_tail *tail, const struct limpet_totals *before)
{
	struct limpet_model_totals *totals = &tail->model->totals;

	*totals = limpet_model_counts_totals(&tail->sums.totals, before, tail->sums.scale);
	totals->peak_bytes = tail->peak_bytes;
	totals->peak_ns = tail->peak_ns;
	totals->dropped_events = tail->missing.dropped_events;
	totals->truncated_stacks = tail->truncated_stacks;
	totals->unseen_calls = tail->missing.unseen_calls;
}

/* Sums what the steps of the window added. */
static int sum_window(struct limpet_tail *tail, size_t first)
{
	limpet_site_counts_clear(&tail->window);
	for (size_t i = first; i < tail->step_count; i++)
		for (size_t k = 0; k < tail->steps[i].count; k++) {
			const struct delta *delta = &tail->steps[i].deltas[k];
			struct limpet_site_count *site =
				limpet_site_counts_at(&tail->window, delta->node);

			if (!site)
				return -ENOMEM;
			limpet_counts_add(&site->counts, &delta->counts);
		}
	return 0;
}

/* What the site had before the window. */
static struct limpet_counts counts_before(const struct limpet_tail *tail,
					  const struct limpet_site_count *site)
{
	const struct limpet_site_count *within = limpet_site_counts_find(&tail->window, site->node);

	if (!tail->window_ns)
		return (struct limpet_counts){0};
	return within ? limpet_counts_less(&site->counts, &within->counts) : site->counts;
}

static int fill_sites(struct limpet_tail *tail, size_t first)
{
	struct limpet_model *model = tail->model;
	const struct limpet_site_counts *from = &tail->sums.sites;
	struct limpet_model_site *sites =
		reallocarray(model->sites, from->count + 1, sizeof(*sites));

	if (sites)
		model->sites = sites;
	model->site_count = 0;
	if (!sites || (tail->window_ns && sum_window(tail, first) < 0))
		return -ENOMEM;
	for (size_t i = 0; i < from->count; i++) {
		const struct limpet_counts before = counts_before(tail, &from->list[i]);
		const struct limpet_model_site site = limpet_model_counts_site(
			from->list[i].node, &from->list[i].counts, &before, tail->sums.scale);

		if (site.allocations || site.frees || site.live_allocations)
			sites[model->site_count++] = site;
	}
	return 0;
}

const struct limpet_model *limpet_tail_model(struct limpet_tail *tail)
{
	struct limpet_model *model = tail->model;
	struct limpet_model_point *points =
		reallocarray(model->timeline, tail->point_count + 1, sizeof(*points));
	const struct limpet_totals *before;
	size_t first = first_step(tail, &model->from_ns, &before);

	if (points)
		model->timeline = points;
	if (!points || fill_sites(tail, first) < 0)
		return NULL;
	model->timeline_count = tail->point_count;
	if (tail->point_count)
		memcpy(points, tail->points, tail->point_count * sizeof(*points));
	fill_totals(tail, before);
	model->windowed = tail->window_ns != 0;
	model->to_ns = tail->last_ns;
	model->compact = model->target->compact;
	model->sample_bytes = tail->row_by_row ? tail->sums.sample_bytes : 0;
	model->missing = tail->missing;
	limpet_model_judge(model, limpet_loss_if(tail->inexact, LIMPET_LOSS_BRIDGED));
	return model;
}

/* ------------------------------------------------------------------ threads */

/* In the list whose threads tail->tids numbers. NULL: no memory. */
static struct thread *find_thread(struct limpet_tail *tail, struct thread **list, size_t *count,
				  size_t *capacity, uint32_t tid)
{
	const uint32_t number = limpet_number_table_of(&tail->tids, tid);

	if (!number || limpet_reserve(list, capacity, number, sizeof(**list)) < 0)
		return NULL;
	if (number > *count)
		(*list)[(*count)++] = (struct thread){.tid = tid};
	return &(*list)[number - 1];
}

static int add_threads(struct limpet_tail *tail, struct step *step,
		       struct limpet_trace_events *events)
{
	struct limpet_trace_event row;
	struct thread *thread = NULL;
	int code;

	limpet_number_table_clear(&tail->tids);
	while ((code = limpet_trace_events_next(events, &row)) == 1) {
		struct limpet_counts counts;

		if (!limpet_model_counts_of_row(&tail->sums, &row, &counts))
			continue;
		if (!thread || thread->tid != row.tid)
			thread = find_thread(tail, &step->threads, &step->thread_count,
					     &step->thread_capacity, row.tid);
		if (!thread)
			return -ENOMEM;
		limpet_counts_add(&thread->counts, &counts);
	}
	return code;
}

/* -EBADMSG: its events are lost. */
static int read_threads(struct limpet_tail *tail, struct step *step)
{
	long block = limpet_trace_reader_find(tail->reader, step->events_sequence);
	struct limpet_trace_events *events;
	int code;

	if (step->threads_lost || (step->rows && (!step->events_sequence || block < 0)))
		return -EBADMSG;
	code = step->rows ? limpet_trace_events_open(tail->reader, (size_t)block, &events) : 0;
	if (step->rows && code == 0) {
		code = add_threads(tail, step, events);
		limpet_trace_events_free(events);
	}
	if (code < 0)
		step->thread_count = 0;
	step->threads_known = code == 0;
	return code == -EINVAL ? -EBADMSG : code;
}

static int compare_threads(const void *a, const void *b)
{
	const struct limpet_replay_thread *x = a, *y = b;

	if (x->figures.allocated_bytes != y->figures.allocated_bytes)
		return x->figures.allocated_bytes > y->figures.allocated_bytes ? -1 : 1;
	return x->tid < y->tid ? -1 : x->tid > y->tid;
}

static int64_t list_threads(const struct thread *threads, size_t count, struct limpet_scale scale,
			    struct limpet_replay_thread **ret_list)
{
	struct limpet_replay_thread *list = calloc(count + 1, sizeof(*list));

	if (!list)
		return -ENOMEM;
	for (size_t i = 0; i < count; i++) {
		const struct limpet_counts counts =
			limpet_counts_unscaled(&threads[i].counts, scale);

		list[i] = (struct limpet_replay_thread){
			.tid = threads[i].tid,
			.figures = {.allocations = counts.allocations,
				    .allocated_bytes = counts.allocated_bytes,
				    .temporary_allocations = counts.temporary},
			.own_frees = counts.frees,
			.own_freed_bytes = counts.freed_bytes,
		};
	}
	qsort(list, count, sizeof(*list), compare_threads);
	*ret_list = list;
	return (int64_t)count;
}

int64_t limpet_tail_threads(struct limpet_tail *tail, struct limpet_replay_thread **ret_list,
			    uint64_t *ret_ns)
{
	LIMPET_FREE struct thread *all = NULL;
	size_t count = 0, capacity = 0, i = tail->step_count;
	uint64_t from_ns = tail->last_ns, rows = 0;
	const struct limpet_totals *before;
	uint64_t window_from;
	size_t first = first_step(tail, &window_from, &before);

	if (limpet_trace_reader_target(tail->reader)->compact)
		return -ENODATA;
	while (i-- > first && rows < THREAD_ROWS_MAX) {
		struct step *step = &tail->steps[i];
		int code = 0;

		if (!step->threads_known) {
			code = read_threads(tail, step);
			rows += step->rows;
		}
		step->threads_lost |= code == -EBADMSG;
		if (step->threads_lost)
			break;
		if (code < 0)
			return code;
		from_ns = step->from_ns;
	}
	limpet_number_table_clear(&tail->tids);
	for (i++; i < tail->step_count; i++)
		for (size_t k = 0; k < tail->steps[i].thread_count; k++) {
			struct thread *thread = find_thread(tail, &all, &count, &capacity,
							    tail->steps[i].threads[k].tid);

			if (!thread)
				return -ENOMEM;
			limpet_counts_add(&thread->counts, &tail->steps[i].threads[k].counts);
		}
	*ret_ns = tail->last_ns - from_ns;
	return list_threads(all, count, tail->sums.scale, ret_list);
}
