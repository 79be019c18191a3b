#include "analyzer/replay.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <uthash.h>

#include "analyzer/open_blocks.h"
#include "common/estimate.h"

const uint64_t limpet_replay_age_limits_ns[LIMPET_REPLAY_AGES - 1] = {
	10000,       100000,      1000000,     10000000,     100000000,
	1000000000u, 10000000000, 60000000000, 600000000000, 3600000000000,
};

/* Sums are doubles: exact for whole numbers below 2^53, and samples count for parts of one. */
struct sums {
	double allocations, bytes, frees, freed_bytes, temporary;
	double live, live_bytes, start_bytes, peak, peak_bytes;
};
struct age_sums {
	double blocks[LIMPET_REPLAY_AGES], bytes[LIMPET_REPLAY_AGES];
};
struct site {
	uint32_t node;
	struct sums sums;
	struct age_sums freed, alive;
	uint64_t smallest, largest, oldest_ns;
};
struct thread {
	uint32_t tid;
	bool kept;
	struct sums sums;
	double own_frees, own_freed_bytes;
	UT_hash_handle hh;
};
struct moment {
	double live_bytes, last_bytes, allocations, bytes, frees, temporary;
};

struct work {
	const struct limpet_model *model;
	const struct limpet_replay_options *options;
	struct limpet_open_blocks open;
	struct site *sites;
	size_t site_count, site_room;
	uint32_t *site_of_node; /* index + 1 */
	struct thread *threads, *last_thread;
	struct moment *moments; /* one more than `ends`, for what is behind the last */
	size_t moment;
	double sizes[LIMPET_TRACE_SIZE_BUCKETS][2]; /* allocations, bytes */
	double live_bytes;                          /* of what is kept */
	double all_live_bytes;                      /* of everything, to know the peak by */
	bool counting, ended, peaked, exact;
};

static uint64_t rounded(double value)
{
	return value > 0 ? (uint64_t)llround(value < 0x1p62 ? value : 0x1p62) : 0;
}

static struct site *find_site(struct work *work, uint32_t node)
{
	if (!work->site_of_node[node]) {
		if (work->site_count == work->site_room) {
			size_t room = 2 * work->site_room + 64;
			struct site *grown = reallocarray(work->sites, room, sizeof(*grown));

			if (!grown)
				return NULL;
			work->sites = grown;
			work->site_room = room;
		}
		work->sites[work->site_count] = (struct site){.node = node};
		work->site_of_node[node] = (uint32_t)++work->site_count;
	}
	return &work->sites[work->site_of_node[node] - 1];
}

static struct thread *find_thread(struct work *work, uint32_t tid)
{
	struct thread *thread = work->last_thread;

	if (thread && thread->tid == tid)
		return thread;
	HASH_FIND(hh, work->threads, &tid, sizeof(tid), thread);
	if (!thread) {
		thread = calloc(1, sizeof(*thread));
		if (!thread)
			return NULL;
		thread->tid = tid;
		thread->kept = !work->options->filter ||
			       limpet_filter_keeps_thread(work->options->filter, tid);
		HASH_ADD(hh, work->threads, tid, sizeof(thread->tid), thread);
	}
	work->last_thread = thread;
	return thread;
}

static unsigned age_bucket(uint64_t age_ns)
{
	unsigned bucket = 0;

	while (bucket < LIMPET_REPLAY_AGES - 1 && age_ns >= limpet_replay_age_limits_ns[bucket])
		bucket++;
	return bucket;
}

/* Of now, or NULL. */
static struct moment *this_moment(struct work *work)
{
	return work->moments && work->counting ? &work->moments[work->moment] : NULL;
}

static void note_level(struct work *work)
{
	struct moment *moment = this_moment(work);

	if (!moment)
		return;
	moment->last_bytes = work->live_bytes;
	if (work->live_bytes > moment->live_bytes)
		moment->live_bytes = work->live_bytes;
}

static void pass_moments(struct work *work, uint64_t time_ns)
{
	while (work->moments && work->moment < work->options->end_count &&
	       time_ns >= work->options->ends[work->moment]) {
		work->moment++;
		note_level(work);
	}
}

/* How many blocks one stands for. */
static double weight_of(const struct work *work, uint64_t size, bool sampled)
{
	const struct limpet_model *model = work->model;
	/* Of a trace whose overloads alone are sampled, what came between them is certain. */
	const bool certain = !model->sample_bytes || (!model->target->sample_bytes && !sampled);

	return certain ? 1 : limpet_weight_of(size, model->sample_bytes).weight;
}

/* ------------------------------------------------------------------ the window and the peak */

static void start_sums(struct sums *sums)
{
	sums->start_bytes = sums->live_bytes;
}

static void start_window(struct work *work)
{
	work->counting = true;
	for (size_t i = 0; i < work->site_count; i++)
		start_sums(&work->sites[i].sums);
	for (struct thread *thread = work->threads; thread; thread = thread->hh.next)
		start_sums(&thread->sums);
}

static void take_peak_of(struct sums *sums)
{
	sums->peak = sums->live;
	sums->peak_bytes = sums->live_bytes;
}

static void take_peak(struct work *work)
{
	work->peaked = true;
	for (size_t i = 0; i < work->site_count; i++)
		take_peak_of(&work->sites[i].sums);
	for (struct thread *thread = work->threads; thread; thread = thread->hh.next)
		take_peak_of(&thread->sums);
}

static uint64_t tick_of(uint64_t time_ns)
{
	return time_ns / LIMPET_TRACE_TICK_NS;
}

/* The model knows when the peak was and how high; the first row that gets there is it. Where what
 * was lost keeps it from being reached, the moment alone counts. */
static void watch_peak(struct work *work, uint64_t time_ns)
{
	const struct limpet_model_totals *totals = &work->model->totals;

	if (!work->peaked && work->counting && tick_of(time_ns) == tick_of(totals->peak_ns) &&
	    work->all_live_bytes + 0.5 >= (double)totals->peak_bytes)
		take_peak(work);
}

/* ------------------------------------------------------------------ rows */

static void add_alloc(struct sums *sums, double weight, double bytes, bool live, bool counting)
{
	sums->live += live ? weight : 0;
	sums->live_bytes += live ? bytes : 0;
	sums->allocations += counting ? weight : 0;
	sums->bytes += counting ? bytes : 0;
}

static void add_free(struct sums *sums, double weight, double bytes, bool temporary, bool counting)
{
	sums->live -= weight;
	sums->live_bytes -= bytes;
	sums->frees += counting ? weight : 0;
	sums->freed_bytes += counting ? bytes : 0;
	sums->temporary += counting && temporary ? weight : 0;
}

static int add_allocation(struct work *work, const struct limpet_trace_event *row, double weight)
{
	const double bytes = weight * (double)row->size;
	const bool live = row->kind == LIMPET_ROW_ALLOC;
	struct thread *thread = find_thread(work, row->tid);
	struct moment *moment;
	struct site *site;
	int code = 0;

	if (!thread)
		return -ENOMEM;
	work->all_live_bytes += live ? bytes : 0;
	if (!thread->kept || (work->options->kept && !work->options->kept[row->node]))
		return 0;
	site = find_site(work, row->node);
	if (!site)
		return -ENOMEM;
	if (live)
		code = limpet_open_blocks_add(&work->open,
					      &(struct limpet_open_block){.size = row->size,
									  .time_ns = row->time_ns,
									  .node = row->node,
									  .tid = row->tid,
									  .sampled = row->sampled});
	add_alloc(&site->sums, weight, bytes, live, work->counting);
	add_alloc(&thread->sums, weight, bytes, live, work->counting);
	work->live_bytes += live ? bytes : 0;
	if (!work->counting)
		return code;
	if (!site->largest || row->size < site->smallest)
		site->smallest = row->size;
	if (row->size > site->largest)
		site->largest = row->size;
	moment = this_moment(work);
	if (moment) {
		moment->allocations += weight;
		moment->bytes += bytes;
	}
	work->sizes[limpet_trace_size_bucket(row->size)][0] += weight;
	work->sizes[limpet_trace_size_bucket(row->size)][1] += bytes;
	note_level(work);
	return code;
}

static int add_release(struct work *work, const struct limpet_trace_event *row, double weight)
{
	const double bytes = weight * (double)row->size;
	const struct limpet_open_block like = {
		.size = row->size,
		.time_ns = row->time_ns > row->age_ns ? row->time_ns - row->age_ns : 0,
		.node = row->node,
		.tid = row->tid,
		.sampled = row->sampled};
	struct limpet_open_block block;
	struct thread *thread, *caller = find_thread(work, row->tid);
	struct moment *moment;
	struct site *site;
	unsigned bucket = age_bucket(row->age_ns);

	if (!caller)
		return -ENOMEM;
	work->all_live_bytes -= bytes;
	if (work->counting && row->kind == LIMPET_ROW_FREE &&
	    (!work->options->kept || work->options->kept[row->node])) {
		caller->own_frees += weight;
		caller->own_freed_bytes += bytes;
	}
	/* Not there: its stack or thread is not kept, or its allocation was lost. */
	if (!limpet_open_blocks_take(&work->open, &like, &block))
		return 0;
	thread = find_thread(work, block.tid);
	site = find_site(work, row->node);
	if (!thread || !site)
		return -ENOMEM;
	add_free(&site->sums, weight, bytes, row->temporary, work->counting);
	add_free(&thread->sums, weight, bytes, row->temporary, work->counting);
	work->live_bytes -= bytes;
	if (!work->counting)
		return 0;
	site->freed.blocks[bucket] += weight;
	site->freed.bytes[bucket] += bytes;
	moment = this_moment(work);
	if (moment) {
		moment->frees += weight;
		moment->temporary += row->temporary ? weight : 0;
	}
	note_level(work);
	return 0;
}

static int add_row(struct work *work, const struct limpet_trace_event *row)
{
	const double weight = weight_of(work, row->size, row->sampled);

	switch (row->kind) {
	case LIMPET_ROW_ALLOC:
	case LIMPET_ROW_UNTRACKED:
		return add_allocation(work, row, weight);
	case LIMPET_ROW_FREE:
	case LIMPET_ROW_INFERRED_FREE:
		return add_release(work, row, weight);
	default:
		return 0;
	}
}

/* Between rows: before the first at a new time, what the time before left counts. */
static void pass_time(struct work *work, uint64_t time_ns)
{
	if (!work->counting &&
	    time_ns / LIMPET_TRACE_TICK_NS >= work->model->from_ns / LIMPET_TRACE_TICK_NS) {
		pass_moments(work, work->model->from_ns);
		start_window(work);
		note_level(work);
		if (work->all_live_bytes + 0.5 >= (double)work->model->totals.peak_bytes)
			take_peak(work);
	}
	if (work->counting)
		pass_moments(work, time_ns);
	if (work->counting && !work->peaked &&
	    tick_of(time_ns) > tick_of(work->model->totals.peak_ns))
		take_peak(work);
}

static int replay_block(struct work *work, struct limpet_trace_reader *reader, size_t block)
{
	struct limpet_trace_events *events;
	struct limpet_trace_event row;
	int code = limpet_trace_events_open(reader, block, &events);

	if (code < 0)
		return code;
	while ((code = limpet_trace_events_next(events, &row)) == 1) {
		/* Windows are cut in ticks, as the model cuts them. */
		if (work->model->windowed && row.time_ns / LIMPET_TRACE_TICK_NS >=
						     work->model->to_ns / LIMPET_TRACE_TICK_NS) {
			work->ended = true;
			code = 0;
			break;
		}
		pass_time(work, row.time_ns);
		code = add_row(work, &row);
		if (code < 0)
			break;
		watch_peak(work, row.time_ns);
	}
	limpet_trace_events_free(events);
	return code < 0 ? code : 0;
}

static int replay_all(struct work *work, struct limpet_trace_reader *reader)
{
	const struct limpet_trace_block *blocks;
	size_t count = limpet_trace_reader_blocks(reader, &blocks);

	for (size_t i = 0; i < count && !work->ended; i++) {
		int code;

		if (work->options->progress)
			work->options->progress(work->options->context, i, count);
		if (blocks[i].type != LIMPET_TRACE_EVENTS)
			continue;
		code = blocks[i].damaged ? -EBADMSG : replay_block(work, reader, i);
		if (code == -EBADMSG)
			work->exact = false;
		else if (code < 0)
			return code;
	}
	pass_time(work, UINT64_MAX);
	return 0;
}

static void add_alive(struct work *work)
{
	const uint64_t end_ns = work->model->to_ns;
	struct limpet_open_block block;
	uint64_t count;
	size_t at = 0;

	while ((count = limpet_open_blocks_next(&work->open, &at, &block))) {
		uint64_t age_ns = end_ns > block.time_ns ? end_ns - block.time_ns : 0;
		unsigned bucket = age_bucket(age_ns);
		double weight = (double)count * weight_of(work, block.size, block.sampled);
		struct site *site = &work->sites[work->site_of_node[block.node] - 1];

		site->alive.blocks[bucket] += weight;
		site->alive.bytes[bucket] += weight * (double)block.size;
		if (age_ns > site->oldest_ns)
			site->oldest_ns = age_ns;
	}
}

/* ------------------------------------------------------------------ the answer */

static struct limpet_model_site figures_of(const struct sums *sums, uint32_t node)
{
	return (struct limpet_model_site){
		.node = node,
		.allocations = rounded(sums->allocations),
		.allocated_bytes = rounded(sums->bytes),
		.frees = rounded(sums->frees),
		.freed_bytes = rounded(sums->freed_bytes),
		.temporary_allocations = rounded(sums->temporary),
		.live_allocations = rounded(sums->live),
		.live_bytes = rounded(sums->live_bytes),
		.peak_allocations = rounded(sums->peak),
		.peak_bytes = rounded(sums->peak_bytes),
		.growth_bytes = llround(sums->live_bytes - sums->start_bytes),
	};
}

static void take_ages(struct limpet_replay_ages *to, const struct age_sums *from)
{
	for (unsigned i = 0; i < LIMPET_REPLAY_AGES; i++) {
		to->blocks[i] = rounded(from->blocks[i]);
		to->bytes[i] = rounded(from->bytes[i]);
	}
}

static bool has_figure(const struct limpet_model_site *figures)
{
	return figures->allocations || figures->frees || figures->live_allocations ||
	       figures->peak_allocations;
}

static int compare_sites(const void *a, const void *b)
{
	const struct limpet_replay_site *x = a, *y = b;

	return x->figures.node < y->figures.node ? -1 : x->figures.node > y->figures.node;
}

static int compare_threads(const void *a, const void *b)
{
	const struct limpet_replay_thread *x = a, *y = b;

	if (x->figures.live_bytes != y->figures.live_bytes)
		return x->figures.live_bytes > y->figures.live_bytes ? -1 : 1;
	if (x->figures.allocated_bytes != y->figures.allocated_bytes)
		return x->figures.allocated_bytes > y->figures.allocated_bytes ? -1 : 1;
	return x->tid < y->tid ? -1 : x->tid > y->tid;
}

static int take_sites(const struct work *work, struct limpet_replay *replay)
{
	replay->sites = calloc(work->site_count + 1, sizeof(*replay->sites));
	if (!replay->sites)
		return -ENOMEM;
	for (size_t i = 0; i < work->site_count; i++) {
		const struct site *from = &work->sites[i];
		struct limpet_replay_site *to = &replay->sites[replay->site_count];

		to->figures = figures_of(&from->sums, from->node);
		if (!has_figure(&to->figures))
			continue;
		to->smallest_bytes = from->smallest;
		to->largest_bytes = from->largest;
		to->oldest_ns = from->oldest_ns;
		take_ages(&to->freed, &from->freed);
		take_ages(&to->alive, &from->alive);
		replay->site_count++;
	}
	qsort(replay->sites, replay->site_count, sizeof(*replay->sites), compare_sites);
	return 0;
}

static int take_threads(const struct work *work, struct limpet_replay *replay)
{
	replay->threads = calloc(HASH_COUNT(work->threads) + 1ul, sizeof(*replay->threads));
	if (!replay->threads)
		return -ENOMEM;
	for (const struct thread *from = work->threads; from; from = from->hh.next) {
		struct limpet_replay_thread *to = &replay->threads[replay->thread_count];

		if (!from->kept)
			continue;
		to->tid = from->tid;
		to->figures = figures_of(&from->sums, 0);
		to->own_frees = rounded(from->own_frees);
		to->own_freed_bytes = rounded(from->own_freed_bytes);
		if (has_figure(&to->figures) || to->own_frees)
			replay->thread_count++;
	}
	qsort(replay->threads, replay->thread_count, sizeof(*replay->threads), compare_threads);
	return 0;
}

static int take_moments(const struct work *work, struct limpet_replay *replay)
{
	/* Moments were made for all ends, or there are none. */
	const size_t count = work->moments ? work->options->end_count : 0;
	uint64_t from_ns = work->model->from_ns;

	replay->moments = calloc(count + 1, sizeof(*replay->moments));
	if (!replay->moments)
		return -ENOMEM;
	for (size_t i = 0; i < count; i++) {
		replay->moments[i] = (struct limpet_replay_moment){
			.from_ns = from_ns,
			.to_ns = work->options->ends[i],
			.live_bytes = rounded(work->moments[i].live_bytes),
			.last_bytes = rounded(work->moments[i].last_bytes),
			.allocations = rounded(work->moments[i].allocations),
			.allocated_bytes = rounded(work->moments[i].bytes),
			.frees = rounded(work->moments[i].frees),
			.temporary_allocations = rounded(work->moments[i].temporary),
		};
		from_ns = work->options->ends[i];
	}
	replay->moment_count = count;
	return 0;
}

static int take_sizes(const struct work *work, struct limpet_replay *replay)
{
	replay->sizes = calloc(LIMPET_TRACE_SIZE_BUCKETS, sizeof(*replay->sizes));
	if (!replay->sizes)
		return -ENOMEM;
	for (unsigned i = 0; i < LIMPET_TRACE_SIZE_BUCKETS; i++) {
		if (!rounded(work->sizes[i][0]))
			continue;
		replay->sizes[replay->size_count++] = (struct limpet_model_size){
			.from_bytes = i ? 1ull << (i - 1) : 0,
			.to_bytes = i == 64 ? UINT64_MAX : (1ull << i) - 1,
			.allocations = rounded(work->sizes[i][0]),
			.allocated_bytes = rounded(work->sizes[i][1]),
		};
	}
	return 0;
}

static void free_work(struct work *work)
{
	struct thread *thread = work->threads;

	HASH_CLEAR(hh, work->threads);
	while (thread) {
		struct thread *next = thread->hh.next;

		free(thread);
		thread = next;
	}
	limpet_open_blocks_done(&work->open);
	free(work->sites);
	free(work->site_of_node);
	free(work->moments);
}

int limpet_replay_new(struct limpet_trace_reader *reader, const struct limpet_model *model,
		      const struct limpet_replay_options *options,
		      struct limpet_replay **ret_replay)
{
	struct limpet_replay *replay = calloc(1, sizeof(*replay));
	/* Of what was given up there are sums alone. */
	struct work work = {.model = model, .options = options, .exact = !model->given_up_ns};
	int code = -ENOMEM;

	work.site_of_node = calloc(model->node_count + 1ul, sizeof(*work.site_of_node));
	if (options->end_count)
		work.moments = calloc(options->end_count + 1, sizeof(*work.moments));
	if (model->compact)
		code = -ENODATA;
	else if (replay && work.site_of_node && (!options->end_count || work.moments))
		code = replay_all(&work, reader);
	if (code == 0) {
		add_alive(&work);
		replay->exact = work.exact;
		code = take_sites(&work, replay);
	}
	if (code == 0)
		code = take_threads(&work, replay);
	if (code == 0)
		code = take_moments(&work, replay);
	if (code == 0)
		code = take_sizes(&work, replay);
	free_work(&work);
	if (code < 0) {
		limpet_replay_free(replay);
		return code;
	}
	*ret_replay = replay;
	return 0;
}

void limpet_replay_free(struct limpet_replay *replay)
{
	if (!replay)
		return;
	free(replay->sites);
	free(replay->threads);
	free(replay->moments);
	free(replay->sizes);
	free(replay);
}
