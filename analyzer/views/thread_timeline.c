#include "analyzer/views/thread_timeline.h"

#include <errno.h>
#include <stdlib.h>
#include <uthash.h>

#include "common/array.h"

/* Sums of the current step, in the scale of the replay. */
struct thread_now {
	uint32_t tid, step;
	struct limpet_counts counts;
	uint64_t own_frees;
	UT_hash_handle hh;
};
/* Blocks of a site that were freed in a step at an age. */
struct life_now {
	uint32_t before; /* index + 1 of the site's previous entry; 0: none */
	uint32_t step, age;
	uint64_t blocks, bytes; /* bytes: in the scale of blocks */
};

struct work {
	struct limpet_scale scale;
	struct limpet_thread_timeline *thread_timeline;
	uint32_t *lives_of_node; /* index + 1 of the last; 0: nothing was freed yet */
	struct life_now *lives;
	size_t life_count;
	uint32_t node_count;
	struct thread_now *threads, *last_thread;
	size_t step_capacity, life_capacity;
};

static int close_thread(struct work *work, struct thread_now *now)
{
	struct limpet_thread_timeline *thread_timeline = work->thread_timeline;
	int code = limpet_reserve(&thread_timeline->steps, &work->step_capacity,
				  thread_timeline->step_count + 1, sizeof(*thread_timeline->steps));

	if (code < 0)
		return code;
	thread_timeline->steps[thread_timeline->step_count++] =
		(struct limpet_thread_timeline_step){
			.tid = now->tid,
			.step = now->step,
			.counts = limpet_counts_unscaled(&now->counts, work->scale),
			.own_frees = limpet_unscaled(now->own_frees, work->scale.block_bits),
		};
	now->counts = (struct limpet_counts){0};
	now->own_frees = 0;
	return 0;
}

/* Finds or adds an entry; those of the site's newest step come first. NULL: no memory. */
static struct life_now *life_at(struct work *work, uint32_t node, uint32_t step, unsigned age)
{
	struct life_now *now;

	for (uint32_t at = work->lives_of_node[node]; at; at = now->before) {
		now = &work->lives[at - 1];
		if (now->step != step)
			break;
		if (now->age == age)
			return now;
	}
	if (work->life_count >= UINT32_MAX ||
	    limpet_reserve(&work->lives, &work->life_capacity, work->life_count + 1,
			   sizeof(*work->lives)) < 0)
		return NULL;
	now = &work->lives[work->life_count];
	*now = (struct life_now){.before = work->lives_of_node[node], .step = step, .age = age};
	work->lives_of_node[node] = (uint32_t)++work->life_count;
	return now;
}

/* NULL: no memory. */
static struct thread_now *thread_at(struct work *work, uint32_t tid, uint32_t step)
{
	struct thread_now *now = work->last_thread;

	if (!now || now->tid != tid)
		HASH_FIND(hh, work->threads, &tid, sizeof(tid), now);
	if (!now) {
		now = calloc(1, sizeof(*now));
		if (!now)
			return NULL;
		now->tid = tid;
		now->step = step;
		HASH_ADD(hh, work->threads, tid, sizeof(now->tid), now);
	}
	if (now->step != step && close_thread(work, now) < 0)
		return NULL;
	now->step = step;
	work->last_thread = now;
	return now;
}

static int add_share(void *context, size_t step, const struct limpet_replay_share *share)
{
	struct thread_now *now = thread_at(context, share->tid, (uint32_t)step);

	if (!now)
		return -ENOMEM;
	limpet_counts_add(&now->counts, &share->counts);
	now->own_frees += share->own_frees;
	return 0;
}

static int add_blocks(void *context, size_t step, const struct limpet_replay_blocks *blocks)
{
	struct work *work = context;

	for (unsigned age = 0; age < LIMPET_REPLAY_AGES; age++) {
		struct life_now *now;

		if (!blocks->freed[age])
			continue;
		now = life_at(work, blocks->node, (uint32_t)step, age);
		if (!now)
			return -ENOMEM;
		now->blocks += blocks->freed[age];
		now->bytes += blocks->freed[age] * blocks->size;
	}
	return 0;
}

static int add_block(void *context, const struct limpet_replay_block *block)
{
	struct limpet_thread_timeline *timeline = context;
	const int code = limpet_site_threads_add(&timeline->site_threads, block);

	return code == 0 && block->freed_ns == UINT64_MAX
		       ? limpet_survivors_add(&timeline->survivors, block)
		       : code;
}

static int compare_steps(const void *a, const void *b)
{
	const struct limpet_thread_timeline_step *x = a, *y = b;

	if (x->tid != y->tid)
		return x->tid < y->tid ? -1 : 1;
	return x->step < y->step ? -1 : x->step > y->step;
}

static int compare_lives(const void *a, const void *b)
{
	const struct limpet_thread_timeline_life *x = a, *y = b;

	if (x->node != y->node)
		return x->node < y->node ? -1 : 1;
	if (x->step != y->step)
		return x->step < y->step ? -1 : 1;
	return x->age < y->age ? -1 : x->age > y->age;
}

/* By node, step and age. */
static int fill_lives(struct work *work)
{
	struct limpet_thread_timeline *timeline = work->thread_timeline;
	const unsigned bits = work->scale.block_bits;

	timeline->lives = calloc(work->life_count + 1, sizeof(*timeline->lives));
	if (!timeline->lives)
		return -ENOMEM;
	for (uint32_t node = 0; node < work->node_count; node++) {
		const size_t first = timeline->life_count;

		for (uint32_t at = work->lives_of_node[node]; at; at = work->lives[at - 1].before) {
			const struct life_now *now = &work->lives[at - 1];

			if (!limpet_unscaled(now->blocks, bits))
				continue;
			timeline->lives[timeline->life_count++] =
				(struct limpet_thread_timeline_life){
					.node = node,
					.step = now->step,
					.age = now->age,
					.blocks = limpet_unscaled(now->blocks, bits),
					.bytes = limpet_unscaled(now->bytes, bits)};
		}
		if (timeline->life_count - first > 1)
			qsort(&timeline->lives[first], timeline->life_count - first,
			      sizeof(*timeline->lives), compare_lives);
	}
	return 0;
}

static int close_all(struct work *work)
{
	int code = 0;

	for (struct thread_now *now = work->threads; now && code == 0; now = now->hh.next)
		code = close_thread(work, now);
	if (work->thread_timeline->step_count)
		qsort(work->thread_timeline->steps, work->thread_timeline->step_count,
		      sizeof(*work->thread_timeline->steps), compare_steps);
	return code < 0 ? code : fill_lives(work);
}

static void free_work(struct work *work)
{
	struct thread_now *now = work->threads;

	HASH_CLEAR(hh, work->threads);
	while (now) {
		struct thread_now *next = now->hh.next;

		free(now);
		now = next;
	}
	free(work->lives_of_node);
	free(work->lives);
}

/* Divides steps into parts of about the same length, so that a short step has its own part.
 * *ret_count 0: none. */
static int choose_ends(const struct limpet_model *model, const struct limpet_history *history,
		       uint64_t **ret_ends, size_t *ret_count)
{
	const size_t steps = history->step_count;
	const double part_ns = (double)history->edges_ns[steps] / LIMPET_TIMELINE_MOMENTS;
	uint64_t *ends;
	size_t count = 0;

	*ret_ends = NULL;
	*ret_count = 0;
	if (model->given_up_ns)
		return 0;
	/* Rounding adds at most one part per step. */
	ends = calloc(LIMPET_TIMELINE_MOMENTS + steps + 1, sizeof(*ends));
	if (!ends)
		return -ENOMEM;
	for (size_t step = 0; step < steps; step++) {
		const uint64_t from_ns = history->edges_ns[step];
		const uint64_t length_ns = history->edges_ns[step + 1] - from_ns;
		const size_t parts =
			(double)length_ns > part_ns ? (size_t)((double)length_ns / part_ns) : 1;

		/* A part includes the events of its end's time. */
		for (size_t i = 1; i < parts; i++)
			ends[count++] = from_ns + 1 +
					(uint64_t)((double)length_ns * (double)i / (double)parts);
		ends[count++] = history->edges_ns[step + 1] + 1;
	}
	*ret_ends = ends;
	*ret_count = count;
	return 0;
}

int limpet_thread_timeline_build(struct limpet_trace_reader *reader,
				 const struct limpet_model *model,
				 const struct limpet_history *history,
				 const struct limpet_replay_options *selection,
				 struct limpet_thread_timeline **ret_thread_timeline)
{
	struct limpet_thread_timeline *thread_timeline = calloc(1, sizeof(*thread_timeline));
	struct work work = {.scale = limpet_scale_of(model->sample_bytes),
			    .thread_timeline = thread_timeline,
			    .lives_of_node = calloc(model->node_count + 1ul, sizeof(uint32_t)),
			    .node_count = model->node_count};
	const struct limpet_replay_parts parts = {.find = limpet_history_find_step,
						  .find_context = history,
						  .on_thread = add_share,
						  .on_blocks = add_blocks,
						  .context = &work};
	struct limpet_replay_options options = *selection;
	LIMPET_FREE uint64_t *ends = NULL;
	int code = -ENOMEM;

	options.parts = &parts;
	options.on_block = add_block;
	if (thread_timeline && work.lives_of_node) {
		thread_timeline->survivors.history = history;
		options.block_context = thread_timeline;
		code = choose_ends(model, history, &ends, &options.end_count);
	}
	options.ends = ends;
	if (code == 0)
		code = limpet_replay_new(reader, model, &options, &thread_timeline->replay);
	if (code == 0)
		code = close_all(&work);
	free_work(&work);
	if (code == 0)
		code = limpet_survivors_finish(&thread_timeline->survivors, model);
	if (code == 0)
		code = limpet_site_threads_finish(&thread_timeline->site_threads);
	if (code < 0) {
		limpet_thread_timeline_free(thread_timeline);
		return code;
	}
	*ret_thread_timeline = thread_timeline;
	return 0;
}

size_t limpet_thread_timeline_thread(const struct limpet_thread_timeline *thread_timeline,
				     uint32_t tid,
				     const struct limpet_thread_timeline_step **ret_steps)
{
	return LIMPET_EQUAL_RANGE(thread_timeline->steps, thread_timeline->step_count, tid, tid,
				  ret_steps);
}

size_t limpet_thread_timeline_site(const struct limpet_thread_timeline *thread_timeline,
				   uint32_t node,
				   const struct limpet_thread_timeline_life **ret_lives)
{
	return LIMPET_EQUAL_RANGE(thread_timeline->lives, thread_timeline->life_count, node, node,
				  ret_lives);
}

void limpet_thread_timeline_free(struct limpet_thread_timeline *thread_timeline)
{
	if (!thread_timeline)
		return;
	limpet_replay_free(thread_timeline->replay);
	free(thread_timeline->steps);
	free(thread_timeline->lives);
	limpet_survivors_done(&thread_timeline->survivors);
	limpet_site_threads_done(&thread_timeline->site_threads);
	free(thread_timeline);
}
