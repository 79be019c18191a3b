#include "analyzer/model/replay.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <uthash.h>

#include "analyzer/model/model_counts.h"
#include "analyzer/model/open_blocks.h"
#include "analyzer/model/open_maps.h"
#include "common/array.h"

const uint64_t limpet_replay_age_limits_ns[LIMPET_REPLAY_AGES - 1] = {
	100000000, 1000000000u, 10000000000, 60000000000, 600000000000, 3600000000000,
};

/* Since the first event: now, when the window began, and at the peak. */
struct counts {
	struct limpet_counts now, before, peak;
};
/* One age of a site's blocks. */
struct age {
	uint64_t blocks, bytes;
	uint32_t next; /* index + 1 of the site's next; 0: none */
	uint8_t bucket;
	bool alive;
};
struct site {
	uint32_t node, ages; /* ages: index + 1 of its first; 0: none */
	struct counts counts;
	uint64_t smallest, largest; /* smallest > largest: nothing was allocated in the window */
	uint64_t oldest_ns;
};
struct moment {
	int64_t live_bytes, last_bytes;
	struct limpet_counts counts;
};

/* Rows are first counted by thread, and by kind, which is a stack and a size in the current EVENTS
 * block. These counts are folded into the sums when the block ends, and before anything that reads
 * the sums or makes later rows count elsewhere. */
struct thread {
	uint32_t tid, number; /* index in work->threads */
	bool kept, seen;      /* seen: since the last fold */
	/* Since then; from `counts` on, in all. */
	struct limpet_counts new;
	uint64_t own_frees, own_freed_bytes;
	struct counts counts;
	uint64_t all_own_frees, all_own_freed_bytes;
	UT_hash_handle hh;
};
struct kind {
	struct limpet_scaled_block one;
	uint64_t size, seed;
	uint32_t node;
	bool kept, sampled, seen;
	uint32_t allocations, untracked, temporary, reallocations;
	uint32_t freed[LIMPET_REPLAY_AGES]; /* without those by a realloc */
};

struct work {
	const struct limpet_trace_reader *reader;
	const struct limpet_model *model;
	const struct limpet_replay_options *options;
	struct limpet_model_counts weights; /* only its scale and the rules of sampling */
	struct limpet_open_blocks open;
	struct site *sites;
	size_t site_count, site_capacity;
	uint32_t *site_of_node; /* index + 1 */
	struct age *ages;
	size_t age_count, age_capacity;
	struct thread *by_tid, **threads, **threads_seen, **threads_of_block;
	size_t thread_count, thread_capacity, seen_capacity, thread_seen_count, of_block_capacity;
	struct limpet_open_maps maps; /* only with a filter that needs events */
	struct kind *kinds;           /* of the block: one per pair, two if samples differ */
	uint32_t *kinds_seen;
	size_t kind_capacity, kind_seen_capacity, kind_seen_count;
	uint32_t sampled_from;  /* index of the kind of pair 0 if sampled */
	struct moment *moments; /* one more than `ends`, for what is after the last */
	size_t moment, block, part;
	struct limpet_size_counts sizes[LIMPET_TRACE_SIZE_BUCKETS];
	int64_t live_bytes, high_bytes; /* of kept blocks: now, and maximum since the last fold */
	int64_t all_live_bytes;         /* of all blocks, to find the peak */
	int64_t older_bytes; /* part of live_bytes, from sums: allocated before the first events */
	uint64_t born_from,
		born_ticks; /* ticks in which blocks are kept, if they are made in them */
	uint64_t part_until_ns;
	uint64_t next_tick; /* the first at which more than counting is to be done */
	uint64_t peak_tick; /* in which to look for the peak; UINT64_MAX: not now */
	bool counting, ended, peaked;
	uint64_t losses;
	uint8_t ages_below[65]; /* by bit length of an age in ticks: bucket of the smallest such */
};

static struct site *find_site(struct work *work, uint32_t node)
{
	if (!work->site_of_node[node]) {
		if (limpet_reserve(&work->sites, &work->site_capacity, work->site_count + 1,
				   sizeof(*work->sites)) < 0)
			return NULL;
		work->sites[work->site_count] = (struct site){.node = node, .smallest = UINT64_MAX};
		work->site_of_node[node] = (uint32_t)++work->site_count;
	}
	return &work->sites[work->site_of_node[node] - 1];
}

static struct thread *find_thread(struct work *work, uint32_t tid)
{
	struct thread *thread;

	HASH_FIND(hh, work->by_tid, &tid, sizeof(tid), thread);
	if (thread)
		return thread;
	if (limpet_reserve(&work->threads, &work->thread_capacity, work->thread_count + 1,
			   sizeof(struct thread *)) < 0 ||
	    limpet_reserve(&work->threads_seen, &work->seen_capacity, work->thread_count + 1,
			   sizeof(struct thread *)) < 0)
		return NULL;
	thread = calloc(1, sizeof(*thread));
	if (!thread)
		return NULL;
	thread->tid = tid;
	thread->number = (uint32_t)work->thread_count;
	thread->kept =
		!work->options->filter ||
		limpet_filter_keeps_thread(work->options->filter, tid,
					   limpet_trace_reader_thread_name(work->reader, tid));
	work->threads[work->thread_count++] = thread;
	HASH_ADD(hh, work->by_tid, tid, sizeof(thread->tid), thread);
	return thread;
}

static unsigned age_bucket(uint64_t age_ns)
{
	unsigned bucket = 0;

	while (bucket < LIMPET_REPLAY_AGES - 1 && age_ns >= limpet_replay_age_limits_ns[bucket])
		bucket++;
	return bucket;
}

/* The same for ticks. No two limits are within a factor of two. */
static inline unsigned age_bucket_of_ticks(const struct work *work, uint64_t ticks)
{
	const unsigned length = ticks ? 64u - (unsigned)__builtin_clzll(ticks) : 0;
	const unsigned low = work->ages_below[length];

	return low + (low < LIMPET_REPLAY_AGES - 1 &&
		      ticks >= limpet_replay_age_limits_ns[low] / LIMPET_TRACE_TICK_NS);
}

/* UINT64_MAX: past the end, or never. */
static uint64_t time_of(uint64_t tick)
{
	return tick > UINT64_MAX / LIMPET_TRACE_TICK_NS ? UINT64_MAX : tick * LIMPET_TRACE_TICK_NS;
}

static uint64_t tick_of(uint64_t time_ns)
{
	return time_ns / LIMPET_TRACE_TICK_NS;
}

/* The first tick that is not before time_ns. */
static uint64_t tick_from(uint64_t time_ns)
{
	return tick_of(time_ns) + (time_ns % LIMPET_TRACE_TICK_NS != 0);
}

/* ------------------------------------------------------------------ folding */

/* The current moment, or NULL. */
static struct moment *this_moment(struct work *work)
{
	return work->moments && work->counting ? &work->moments[work->moment] : NULL;
}

static void note_level(struct work *work)
{
	struct moment *moment = this_moment(work);

	if (moment) {
		moment->last_bytes = work->live_bytes;
		if (work->high_bytes > moment->live_bytes)
			moment->live_bytes = work->high_bytes;
	}
	work->high_bytes = work->live_bytes;
}

static int add_age(struct work *work, struct site *site, bool alive, unsigned bucket,
		   uint64_t blocks, uint64_t bytes)
{
	uint32_t at = site->ages;

	while (at && (work->ages[at - 1].bucket != bucket || work->ages[at - 1].alive != alive))
		at = work->ages[at - 1].next;
	if (!at) {
		if (work->age_count >= UINT32_MAX ||
		    limpet_reserve(&work->ages, &work->age_capacity, work->age_count + 1,
				   sizeof(*work->ages)) < 0)
			return -ENOMEM;
		work->ages[work->age_count] =
			(struct age){.next = site->ages, .bucket = (uint8_t)bucket, .alive = alive};
		at = site->ages = (uint32_t)++work->age_count;
	}
	work->ages[at - 1].blocks += blocks;
	work->ages[at - 1].bytes += bytes;
	return 0;
}

static int count_kind(struct work *work, const struct kind *kind, struct site *site,
		      const struct limpet_counts *counts)
{
	const struct limpet_size_counts size = limpet_counts_allocated(counts);
	struct moment *moment = this_moment(work);
	int code = 0;

	if (counts->allocations && kind->size < site->smallest)
		site->smallest = kind->size;
	if (counts->allocations && kind->size > site->largest)
		site->largest = kind->size;
	if (moment)
		limpet_counts_add(&moment->counts, counts);
	limpet_size_counts_add(&work->sizes[limpet_trace_size_bucket(kind->size)], &size);
	for (unsigned i = 0; i < LIMPET_REPLAY_AGES && code == 0; i++)
		if (kind->freed[i])
			code = add_age(work, site, false, i, kind->one.blocks * kind->freed[i],
				       kind->one.bytes * kind->freed[i]);
	return code;
}

static int notify_kind(const struct work *work, const struct kind *kind,
		       const struct limpet_counts *counts)
{
	const struct limpet_replay_parts *parts = work->options->parts;
	struct limpet_replay_blocks blocks = {
		.node = kind->node, .size = kind->size, .counts = *counts};

	if (!parts || !parts->on_blocks)
		return 0;
	for (unsigned i = 0; i < LIMPET_REPLAY_AGES; i++)
		blocks.freed[i] = kind->one.blocks * kind->freed[i];
	return parts->on_blocks(parts->context, work->part, &blocks);
}

static struct limpet_counts counts_of(const struct kind *kind)
{
	const uint64_t made = (uint64_t)kind->allocations + kind->untracked;
	const uint64_t blocks = kind->one.blocks, bytes = kind->one.bytes;
	uint64_t frees = kind->reallocations;

	for (unsigned i = 0; i < LIMPET_REPLAY_AGES; i++)
		frees += kind->freed[i];
	return (struct limpet_counts){.allocations = blocks * made,
				      .allocated_bytes = bytes * made,
				      .untracked = blocks * kind->untracked,
				      .untracked_bytes = bytes * kind->untracked,
				      .frees = blocks * frees,
				      .freed_bytes = bytes * frees,
				      .temporary = blocks * kind->temporary,
				      .reallocations = blocks * kind->reallocations};
}

static int fold_kind(struct work *work, struct kind *kind)
{
	const struct limpet_counts counts = counts_of(kind);
	struct site *site = find_site(work, kind->node);
	int code = 0;

	if (!site)
		return -ENOMEM;
	limpet_counts_add(&site->counts.now, &counts);
	if (work->counting) {
		code = count_kind(work, kind, site, &counts);
		if (code == 0)
			code = notify_kind(work, kind, &counts);
	}
	kind->seen = false;
	kind->allocations = kind->untracked = kind->temporary = kind->reallocations = 0;
	memset(kind->freed, 0, sizeof(kind->freed));
	return code;
}

static int fold_thread(struct work *work, struct thread *thread)
{
	const struct limpet_replay_parts *parts = work->options->parts;
	const struct limpet_replay_share share = {
		.tid = thread->tid, .counts = thread->new, .own_frees = thread->own_frees};

	limpet_counts_add(&thread->counts.now, &thread->new);
	if (work->counting) {
		thread->all_own_frees += thread->own_frees;
		thread->all_own_freed_bytes += thread->own_freed_bytes;
	}
	thread->seen = false;
	thread->new = (struct limpet_counts){0};
	thread->own_frees = thread->own_freed_bytes = 0;
	return work->counting && parts && parts->on_thread
		       ? parts->on_thread(parts->context, work->part, &share)
		       : 0;
}

static int fold(struct work *work)
{
	int code = 0;

	for (size_t i = 0; i < work->kind_seen_count && code >= 0; i++)
		code = fold_kind(work, &work->kinds[work->kinds_seen[i]]);
	for (size_t i = 0; i < work->thread_seen_count && code >= 0; i++)
		code = fold_thread(work, work->threads_seen[i]);
	work->kind_seen_count = work->thread_seen_count = 0;
	note_level(work);
	return code;
}

/* ------------------------------------------------------------------ the window and the peak */

/* By more than stacks. */
static bool filters_blocks(const struct work *work)
{
	const struct limpet_filter *filter = work->options->filter;

	return filter && limpet_filter_needs_events(filter);
}

static bool is_filtered(const struct work *work)
{
	return work->options->kept || filters_blocks(work);
}

/* Blocks whose allocations were discarded: only their bytes in all are known. */
static void add_older(struct work *work)
{
	const struct limpet_model_totals *totals = &work->model->totals;
	const int64_t start_bytes = (int64_t)totals->live_bytes - totals->growth_bytes;

	if (!work->model->given_up_ns || work->model->sample_bytes)
		return;
	work->all_live_bytes = start_bytes;
	if (is_filtered(work))
		return;
	/* The first events in the file may have times before the window, and some free such
	 * blocks. */
	work->older_bytes = start_bytes - work->live_bytes;
	work->live_bytes = start_bytes;
}

static void start_window(struct work *work)
{
	work->counting = true;
	add_older(work);
	for (size_t i = 0; i < work->site_count; i++)
		work->sites[i].counts.before = work->sites[i].counts.now;
	for (size_t i = 0; i < work->thread_count; i++)
		work->threads[i]->counts.before = work->threads[i]->counts.now;
}

/* Everything must have been folded. */
static void copy_peak(struct work *work)
{
	work->peaked = true;
	work->peak_tick = UINT64_MAX;
	for (size_t i = 0; i < work->site_count; i++)
		work->sites[i].counts.peak = work->sites[i].counts.now;
	for (size_t i = 0; i < work->thread_count; i++)
		work->threads[i]->counts.peak = work->threads[i]->counts.now;
}

static uint64_t whole_bytes(const struct work *work, int64_t bytes)
{
	return limpet_unscaled((uint64_t)bytes, work->weights.scale.byte_bits);
}

static bool is_at_peak(const struct work *work)
{
	return work->all_live_bytes >= 0 &&
	       whole_bytes(work, work->all_live_bytes) >= work->model->totals.peak_bytes;
}

static void pass_moments(struct work *work, uint64_t time_ns)
{
	while (work->moments && work->moment < work->options->end_count &&
	       time_ns >= work->options->ends[work->moment]) {
		work->moment++;
		note_level(work);
	}
}

/* The first tick after the window. A window up to the capture's end contains all events. */
static uint64_t end_tick(const struct limpet_model *model)
{
	return model->to_ns < model->duration_ns ? tick_of(model->to_ns) : UINT64_MAX;
}

static void set_next(struct work *work)
{
	const struct limpet_model *model = work->model;
	uint64_t next =
		work->part_until_ns == UINT64_MAX ? UINT64_MAX : tick_from(work->part_until_ns);
	uint64_t others[] = {
		end_tick(model),
		work->counting ? UINT64_MAX : tick_of(model->from_ns),
		work->counting && work->moments && work->moment < work->options->end_count
			? tick_from(work->options->ends[work->moment])
			: UINT64_MAX,
		work->counting && !work->peaked ? tick_of(model->totals.peak_ns) + 1 : UINT64_MAX,
	};

	for (size_t i = 0; i < LIMPET_COUNT_OF(others); i++)
		if (others[i] < next)
			next = others[i];
	work->next_tick = next;
}

/* Called before the first row at a new time: what was counted until then is folded. UINT64_MAX: the
 * end. */
static int pass_time(struct work *work, uint64_t tick)
{
	const struct limpet_model *model = work->model;
	const uint64_t time_ns = time_of(tick);
	int code = fold(work);

	if (!work->counting && tick >= tick_of(model->from_ns)) {
		pass_moments(work, model->from_ns);
		start_window(work);
		note_level(work);
		work->peak_tick = tick_of(model->totals.peak_ns);
		if (is_at_peak(work))
			copy_peak(work);
	}
	if (work->counting)
		pass_moments(work, time_ns);
	if (work->counting && !work->peaked && tick > work->peak_tick)
		copy_peak(work);
	if (work->options->parts && time_ns >= work->part_until_ns)
		work->part = work->options->parts->find(work->options->parts->find_context,
							work->block, time_ns, &work->part_until_ns);
	set_next(work);
	return code;
}

/* ------------------------------------------------------------------ rows */

static inline void mark_kind(struct work *work, struct kind *kind)
{
	if (kind->seen)
		return;
	kind->seen = true;
	work->kinds_seen[work->kind_seen_count++] = (uint32_t)(kind - work->kinds);
}

static inline void mark_thread(struct work *work, struct thread *thread)
{
	if (thread->seen)
		return;
	thread->seen = true;
	work->threads_seen[work->thread_seen_count++] = thread;
}

static inline bool is_birth_kept(const struct work *work, uint64_t tick)
{
	return tick - work->born_from < work->born_ticks;
}

static inline int add_allocation(struct work *work, struct kind *kind, struct thread *thread,
				 uint64_t tick, uint32_t hash)
{
	work->all_live_bytes += (int64_t)kind->one.bytes;
	if (!kind->kept || !thread->kept || !is_birth_kept(work, tick))
		return 0;
	mark_kind(work, kind);
	mark_thread(work, thread);
	kind->allocations++;
	limpet_counts_allocate(&thread->new, kind->one.blocks, kind->one.bytes);
	work->live_bytes += (int64_t)kind->one.bytes;
	if (work->live_bytes > work->high_bytes)
		work->high_bytes = work->live_bytes;
	return limpet_open_blocks_add(&work->open,
				      &(struct limpet_open_block){.size = kind->size,
								  .tick = tick,
								  .node = kind->node,
								  .thread = thread->number,
								  .sampled = kind->sampled},
				      hash);
}

/* Of so many blocks alike. freed_tick UINT64_MAX: they are not freed. */
static int notify(const struct work *work, uint32_t tid, uint32_t node,
		  const struct limpet_scaled_block *blocks, uint64_t made_tick, uint64_t freed_tick)
{
	const struct limpet_replay_options *options = work->options;
	const struct limpet_scale scale = work->weights.scale;
	const struct limpet_replay_block block = {
		.tid = tid,
		.node = node,
		.blocks = (double)blocks->blocks / (double)(1u << scale.block_bits),
		.bytes = (double)blocks->bytes / (double)(1u << scale.byte_bits),
		.made_ns = time_of(made_tick),
		.freed_ns = time_of(freed_tick)};

	return options->on_block(options->block_context, &block);
}

static inline int notify_block(const struct work *work, const struct thread *thread,
			       const struct kind *kind, uint64_t made_tick, uint64_t freed_tick)
{
	if (!work->options->on_block)
		return 0;
	return notify(work, thread->tid, kind->node, &kind->one, made_tick, freed_tick);
}

/* No free of it will be paired: for on_block it ends where it begins. */
static inline int add_untracked(struct work *work, struct kind *kind, struct thread *thread,
				uint64_t tick)
{
	if (!kind->kept || !thread->kept || !is_birth_kept(work, tick))
		return 0;
	mark_kind(work, kind);
	mark_thread(work, thread);
	kind->untracked++;
	limpet_counts_allocate(&thread->new, kind->one.blocks, kind->one.bytes);
	limpet_counts_untrack(&thread->new, kind->one.blocks, kind->one.bytes);
	return notify_block(work, thread, kind, tick, tick);
}

static inline struct thread *owner_of(const struct work *work, const struct limpet_trace_rows *rows,
				      uint32_t at)
{
	return work->threads_of_block[rows->owners[at]];
}

static inline int add_release(struct work *work, struct kind *kind, struct thread *caller,
			      const struct limpet_trace_rows *rows, uint32_t at, uint32_t hash)
{
	const uint64_t tick = rows->ticks[at], age = rows->ages[at];
	struct thread *thread = owner_of(work, rows, at);
	const struct limpet_open_block like = {.size = kind->size,
					       .tick = tick > age ? tick - age : 0,
					       .node = kind->node,
					       .thread = thread->number,
					       .sampled = kind->sampled};
	const bool temporary =
		(rows->ops[at] & LIMPET_ROW_TEMPORARY) && !work->weights.sample_bytes;
	const bool realloc = rows->ops[at] & LIMPET_ROW_REALLOC;
	const int64_t bytes = (int64_t)kind->one.bytes;

	work->all_live_bytes -= bytes;
	if (!kind->kept || !is_birth_kept(work, like.tick))
		return 0;
	if (LIMPET_ROW_KIND(rows->ops[at]) == LIMPET_ROW_FREE) {
		mark_thread(work, caller);
		caller->own_frees += kind->one.blocks;
		caller->own_freed_bytes += kind->one.bytes;
	}
	/* Not found: its thread is not kept, or its allocation was lost or discarded. */
	if (!limpet_open_blocks_remove(&work->open, &like, hash)) {
		if (work->older_bytes > 0 && !is_filtered(work)) {
			work->older_bytes -= bytes;
			work->live_bytes -= bytes;
		}
		return 0;
	}
	mark_kind(work, kind);
	mark_thread(work, thread);
	kind->freed[age_bucket_of_ticks(work, age)] += !realloc;
	kind->reallocations += realloc;
	kind->temporary += temporary;
	limpet_counts_free(&thread->new, kind->one.blocks, kind->one.bytes, temporary, realloc);
	work->live_bytes -= bytes;
	return notify_block(work, thread, kind, like.tick, tick);
}

static int add_map_row(struct work *work, const struct kind *kind, const struct thread *thread,
		       const struct limpet_trace_rows *rows, uint32_t at)
{
	const bool is_made = LIMPET_ROW_KIND(rows->ops[at]) == LIMPET_ROW_MMAP;
	const uint64_t tick = rows->ticks[at], age = is_made ? 0 : rows->ages[at];
	const uint64_t birth = tick > age ? tick - age : 0;

	if (!kind->kept || !is_birth_kept(work, birth))
		return 0;
	if (is_made)
		return limpet_open_maps_add(&work->maps,
					    &(struct limpet_open_map){.bytes = kind->size,
								      .tick = tick,
								      .node = kind->node,
								      .thread = thread->number,
								      .kept = thread->kept},
					    work->counting);
	limpet_open_maps_remove(
		&work->maps,
		&(struct limpet_open_map){.bytes = kind->size,
					  .tick = birth,
					  .node = kind->node,
					  .thread = owner_of(work, rows, at)->number},
		work->counting);
	return 0;
}

static inline struct kind *kind_of(const struct work *work, const struct limpet_trace_rows *rows,
				   uint32_t at)
{
	return &work->kinds[rows->pairs[at] +
			    (rows->ops[at] & LIMPET_ROW_SAMPLED ? work->sampled_from : 0)];
}

/* Hashes the blocks of these rows and prefetches their slots, all together so that memory accesses
 * overlap. */
static void find_places(const struct work *work, const struct limpet_trace_rows *rows,
			uint32_t ret_hashes[LIMPET_TRACE_SOME_ROWS])
{
	for (uint32_t i = 0; i < rows->count; i++) {
		const unsigned kind = LIMPET_ROW_KIND(rows->ops[i]);
		uint64_t tick = rows->ticks[i];

		if (kind == LIMPET_ROW_FREE || kind == LIMPET_ROW_INFERRED_FREE)
			tick = tick > rows->ages[i] ? tick - rows->ages[i] : 0;
		else if (kind != LIMPET_ROW_ALLOC)
			continue;
		ret_hashes[i] = limpet_open_hash(kind_of(work, rows, i)->seed, tick);
		limpet_open_blocks_prefetch(&work->open, ret_hashes[i]);
	}
}

static int add_rows(struct work *work, const struct limpet_trace_rows *rows)
{
	uint32_t hashes[LIMPET_TRACE_SOME_ROWS];
	int code = 0;

	find_places(work, rows, hashes);
	for (uint32_t i = 0; i < rows->count; i++) {
		const uint64_t tick = rows->ticks[i];
		struct thread *thread = work->threads_of_block[rows->threads[i]];

		if (tick >= work->next_tick) {
			/* Windows are cut in ticks, as in the model. */
			work->ended = tick >= end_tick(work->model);
			code = work->ended ? 0 : pass_time(work, tick);
		}
		if (work->ended || code < 0)
			return code;
		switch (LIMPET_ROW_KIND(rows->ops[i])) {
		case LIMPET_ROW_ALLOC:
			code = add_allocation(work, kind_of(work, rows, i), thread, tick,
					      hashes[i]);
			break;
		case LIMPET_ROW_UNTRACKED:
			code = add_untracked(work, kind_of(work, rows, i), thread, tick);
			break;
		case LIMPET_ROW_FREE:
		case LIMPET_ROW_INFERRED_FREE:
			code = add_release(work, kind_of(work, rows, i), thread, rows, i,
					   hashes[i]);
			break;
		case LIMPET_ROW_MMAP:
		case LIMPET_ROW_UNMAPPED:
			if (filters_blocks(work))
				code = add_map_row(work, kind_of(work, rows, i), thread, rows, i);
			break;
		default:
			break;
		}
		if (code < 0)
			return code;
		/* The model has time and height of the peak; the first row that reaches the height
		 * is the peak. If it is not reached because of losses, only the time counts. */
		if (tick == work->peak_tick && !work->peaked && is_at_peak(work)) {
			code = fold(work);
			copy_peak(work);
			set_next(work);
		}
	}
	return code;
}

/* ------------------------------------------------------------------ blocks */

static int read_threads_of_block(struct work *work, const struct limpet_trace_events *events)
{
	const uint32_t *tids;
	const uint32_t count = limpet_trace_events_threads(events, &tids);

	if (limpet_reserve(&work->threads_of_block, &work->of_block_capacity, count,
			   sizeof(struct thread *)) < 0)
		return -ENOMEM;
	for (uint32_t i = 0; i < count; i++) {
		work->threads_of_block[i] = find_thread(work, tids[i]);
		if (!work->threads_of_block[i])
			return -ENOMEM;
	}
	return 0;
}

static int read_kinds(struct work *work, const struct limpet_trace_events *events)
{
	/* If only overloads are sampled, a sampled block weighs more than another. */
	const bool mixed = work->model->sample_bytes && !work->model->target->sample_bytes;
	const bool *kept = work->options->kept;
	const uint32_t *nodes;
	const uint64_t *sizes;
	const uint32_t pairs = limpet_trace_events_pairs(events, &nodes, &sizes);
	const size_t count = (size_t)pairs * (mixed ? 2 : 1);

	if (limpet_reserve(&work->kinds, &work->kind_capacity, count + 1, sizeof(*work->kinds)) <
		    0 ||
	    limpet_reserve(&work->kinds_seen, &work->kind_seen_capacity, count + 1,
			   sizeof(*work->kinds_seen)) < 0)
		return -ENOMEM;
	work->sampled_from = mixed ? pairs : 0;
	for (size_t i = 0; i < count; i++) {
		const bool sampled = i >= pairs;
		const size_t pair = sampled ? i - pairs : i;

		work->kinds[i] = (struct kind){
			.one = limpet_model_counts_block(&work->weights, sizes[pair], sampled),
			.size = sizes[pair],
			.seed = limpet_open_seed(nodes[pair], sizes[pair]),
			.node = nodes[pair],
			.kept = !kept || kept[nodes[pair]],
			.sampled = sampled};
	}
	return 0;
}

static int replay_block(struct work *work, struct limpet_trace_reader *reader, size_t block)
{
	const struct limpet_trace_rows *rows;
	struct limpet_trace_events *events;
	int code = limpet_trace_events_open(reader, block, &events), folded;

	if (code < 0)
		return code;
	work->block = block;
	work->next_tick = 0;
	work->part_until_ns = work->options->parts ? 0 : UINT64_MAX;
	code = read_threads_of_block(work, events);
	if (code == 0)
		code = read_kinds(work, events);
	while (code == 0 && !work->ended && (code = limpet_trace_events_rows(events, &rows)) == 1)
		code = add_rows(work, rows);
	folded = fold(work);
	limpet_trace_events_free(events);
	return code < 0 && code != -EBADMSG ? code : folded < 0 ? folded : code;
}

static int replay_all(struct work *work, struct limpet_trace_reader *reader)
{
	const struct limpet_trace_block *blocks;
	size_t count = limpet_trace_reader_blocks(reader, &blocks);

	for (unsigned i = 0; i < LIMPET_COUNT_OF(work->ages_below); i++)
		work->ages_below[i] =
			(uint8_t)age_bucket(!i       ? 0
					    : i > 48 ? UINT64_MAX
						     : (1ull << (i - 1)) * LIMPET_TRACE_TICK_NS);
	work->peak_tick = UINT64_MAX;
	for (size_t i = 0; i < count && !work->ended; i++) {
		int code;

		if (work->options->progress)
			work->options->progress(work->options->context, i, count);
		if (blocks[i].type != LIMPET_TRACE_EVENTS)
			continue;
		code = blocks[i].damaged ? -EBADMSG : replay_block(work, reader, i);
		if (code == -EBADMSG)
			work->losses |= LIMPET_LOSS_BIT(LIMPET_LOSS_BRIDGED);
		else if (code < 0)
			return code;
	}
	return pass_time(work, UINT64_MAX);
}

static int add_alive(struct work *work)
{
	const uint64_t end_ns = work->model->to_ns;
	struct limpet_open_block block;
	uint64_t count;
	size_t at = 0;
	int code = 0;

	while (code == 0 && (count = limpet_open_blocks_next(&work->open, &at, &block))) {
		const uint64_t time_ns = time_of(block.tick);
		uint64_t age_ns = end_ns > time_ns ? end_ns - time_ns : 0;
		unsigned bucket = age_bucket(age_ns);
		const struct limpet_scaled_block one =
			limpet_model_counts_block(&work->weights, block.size, block.sampled);
		const struct limpet_scaled_block all = {count * one.blocks, count * one.bytes};
		struct site *site = &work->sites[work->site_of_node[block.node] - 1];

		code = add_age(work, site, true, bucket, all.blocks, all.bytes);
		if (age_ns > site->oldest_ns)
			site->oldest_ns = age_ns;
		if (code == 0 && work->options->on_block)
			code = notify(work, work->threads[block.thread]->tid, block.node, &all,
				      block.tick, UINT64_MAX);
	}
	return code;
}

/* ------------------------------------------------------------------ results */

static struct limpet_model_site figures_of(const struct work *work, const struct counts *counts,
					   uint32_t node)
{
	const struct limpet_scale scale = work->weights.scale;
	const struct limpet_model_site held =
		limpet_model_counts_site(0, &counts->peak, &counts->peak, scale);
	struct limpet_model_site figures =
		limpet_model_counts_site(node, &counts->now, &counts->before, scale);

	figures.peak_allocations = held.live_allocations;
	figures.peak_bytes = held.live_bytes;
	return figures;
}

/* Returns their number. */
static size_t fill_ages(const struct work *work, const struct site *site,
			struct limpet_replay_age *to)
{
	const struct limpet_scale scale = work->weights.scale;
	size_t count = 0;

	for (uint32_t at = site->ages; at; at = work->ages[at - 1].next) {
		const struct age *from = &work->ages[at - 1];

		to[count++] = (struct limpet_replay_age){
			.blocks = limpet_unscaled(from->blocks, scale.block_bits),
			.bytes = limpet_unscaled(from->bytes, scale.byte_bits),
			.bucket = from->bucket,
			.alive = from->alive};
	}
	return count;
}

static bool has_figure(const struct limpet_model_site *figures)
{
	return figures->allocations || figures->frees || figures->live_allocations ||
	       figures->peak_allocations;
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

static int fill_sites(const struct work *work, struct limpet_replay *replay)
{
	size_t age_count = 0;

	replay->sites = calloc(work->site_count + 1, sizeof(*replay->sites));
	replay->ages = calloc(work->age_count + 1, sizeof(*replay->ages));
	if (!replay->sites || !replay->ages)
		return -ENOMEM;
	for (uint32_t node = 0; node < work->model->node_count; node++) {
		struct limpet_replay_site *to = &replay->sites[replay->site_count];
		const struct site *from;

		if (!work->site_of_node[node])
			continue;
		from = &work->sites[work->site_of_node[node] - 1];
		to->figures = figures_of(work, &from->counts, from->node);
		if (!has_figure(&to->figures))
			continue;
		to->smallest_bytes = from->smallest <= from->largest ? from->smallest : 0;
		to->largest_bytes = from->largest;
		to->oldest_ns = from->oldest_ns;
		to->ages = &replay->ages[age_count];
		to->age_count = fill_ages(work, from, &replay->ages[age_count]);
		age_count += to->age_count;
		replay->site_count++;
	}
	return 0;
}

static int fill_threads(const struct work *work, struct limpet_replay *replay)
{
	const struct limpet_scale scale = work->weights.scale;

	replay->threads = calloc(work->thread_count + 1, sizeof(*replay->threads));
	if (!replay->threads)
		return -ENOMEM;
	for (size_t i = 0; i < work->thread_count; i++) {
		const struct thread *from = work->threads[i];
		struct limpet_replay_thread *to = &replay->threads[replay->thread_count];

		if (!from->kept)
			continue;
		to->tid = from->tid;
		to->figures = figures_of(work, &from->counts, 0);
		to->own_frees = limpet_unscaled(from->all_own_frees, scale.block_bits);
		to->own_freed_bytes = limpet_unscaled(from->all_own_freed_bytes, scale.byte_bits);
		if (has_figure(&to->figures) || to->own_frees)
			replay->thread_count++;
	}
	qsort(replay->threads, replay->thread_count, sizeof(*replay->threads), compare_threads);
	return 0;
}

static int fill_moments(const struct work *work, struct limpet_replay *replay)
{
	/* Moments were made for all ends, or there are none. */
	const size_t count = work->moments ? work->options->end_count : 0;
	uint64_t from_ns = work->model->from_ns;

	replay->moments = calloc(count + 1, sizeof(*replay->moments));
	if (!replay->moments)
		return -ENOMEM;
	for (size_t i = 0; i < count; i++) {
		const struct moment *from = &work->moments[i];
		const struct limpet_counts counts =
			limpet_counts_unscaled(&from->counts, work->weights.scale);

		replay->moments[i] = (struct limpet_replay_moment){
			.from_ns = from_ns,
			.to_ns = work->options->ends[i],
			.live_bytes = whole_bytes(work, from->live_bytes),
			.last_bytes = whole_bytes(work, from->last_bytes),
			.allocations = counts.allocations,
			.allocated_bytes = counts.allocated_bytes,
			.frees = counts.frees,
			.temporary_allocations = counts.temporary,
		};
		from_ns = work->options->ends[i];
	}
	replay->moment_count = count;
	return 0;
}

static int fill_sizes(const struct work *work, struct limpet_replay *replay)
{
	const struct limpet_scale scale = work->weights.scale;

	replay->sizes = calloc(LIMPET_TRACE_SIZE_BUCKETS, sizeof(*replay->sizes));
	if (!replay->sizes)
		return -ENOMEM;
	for (unsigned i = 0; i < LIMPET_TRACE_SIZE_BUCKETS; i++) {
		const struct limpet_size_counts *size = &work->sizes[i];
		const uint64_t allocations = limpet_unscaled(size->allocations, scale.block_bits);

		if (allocations)
			replay->sizes[replay->size_count++] = limpet_model_size_of(
				i, allocations,
				limpet_unscaled(size->allocated_bytes, scale.byte_bits));
	}
	return 0;
}

static void set_births(struct work *work)
{
	uint64_t from_ns = 0, to_ns = UINT64_MAX, to;

	if (work->options->filter)
		limpet_filter_births(work->options->filter, &from_ns, &to_ns);
	/* Cut as windows are. */
	work->born_from = tick_of(from_ns);
	to = to_ns == UINT64_MAX ? UINT64_MAX : tick_of(to_ns);
	work->born_ticks = to > work->born_from ? to - work->born_from : 0;
}

/* Frees what is only needed while counting rows. */
static void free_counting(struct work *work)
{
	limpet_open_blocks_done(&work->open);
	free(LIMPET_TAKE(work->kinds));
	free(LIMPET_TAKE(work->kinds_seen));
}

static void free_work(struct work *work)
{
	free_counting(work);
	limpet_open_maps_done(&work->maps);
	HASH_CLEAR(hh, work->by_tid);
	for (size_t i = 0; i < work->thread_count; i++)
		free(work->threads[i]);
	free(work->threads);
	free(work->threads_seen);
	free(work->threads_of_block);
	free(work->sites);
	free(work->site_of_node);
	free(work->ages);
	free(work->moments);
}

int limpet_replay_new(struct limpet_trace_reader *reader, const struct limpet_model *model,
		      const struct limpet_replay_options *options,
		      struct limpet_replay **ret_replay)
{
	struct limpet_replay *replay = calloc(1, sizeof(*replay));
	/* Of what was discarded there are only sums. */
	struct work work = {
		.reader = reader,
		.model = model,
		.options = options,
		.weights =
			limpet_model_counts_new(model->sample_bytes, !model->target->sample_bytes),
		.losses = limpet_loss_if(model->given_up_ns && model->from_ns <= model->given_up_ns,
					 LIMPET_LOSS_GIVEN_UP)};
	int code = -ENOMEM;

	set_births(&work);
	work.site_of_node = calloc(model->node_count + 1ul, sizeof(*work.site_of_node));
	if (options->end_count)
		work.moments = calloc(options->end_count + 1, sizeof(*work.moments));
	if (model->compact)
		code = -ENODATA;
	else if (replay && work.site_of_node && (!options->end_count || work.moments))
		code = replay_all(&work, reader);
	if (code == 0) {
		replay->losses = work.losses;
		code = add_alive(&work);
		free_counting(&work);
	}
	if (code == 0)
		code = fill_sites(&work, replay);
	if (code == 0)
		code = fill_threads(&work, replay);
	if (code == 0)
		code = fill_moments(&work, replay);
	if (code == 0)
		code = fill_sizes(&work, replay);
	if (code == 0)
		code = limpet_open_maps_sites(&work.maps, &replay->maps, &replay->map_count);
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
	free(replay->ages);
	free(replay->threads);
	free(replay->moments);
	free(replay->sizes);
	free(replay->maps);
	free(replay);
}

void limpet_replay_add_ages(const struct limpet_replay_site *site, struct limpet_replay_ages *freed,
			    struct limpet_replay_ages *alive)
{
	for (size_t i = 0; i < site->age_count; i++) {
		const struct limpet_replay_age *from = &site->ages[i];
		struct limpet_replay_ages *to = from->alive ? alive : freed;

		to->blocks[from->bucket] += from->blocks;
		to->bytes[from->bucket] += from->bytes;
	}
}
