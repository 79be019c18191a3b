/* Replays every event of a trace, for what sums do not have: figures per thread, lifetimes of
 * blocks, sizes of each site, mappings of threads, and figures over time, of the stacks and threads
 * that a filter keeps.
 *
 * A block belongs to the thread that allocated it, a mapping to the one that made it. A realloc
 * does not end the life of a block; its age counts from the last one. The trace
 * keeps no address with an event: a free is paired by stack, size and time of the allocation, which
 * is ambiguous only for equal blocks allocated within the same 10 microseconds; of these one
 * by the recorded owner goes first, or else by the freeing thread. Figures of a sampled trace are
 * estimates, as the model's are. */
#ifndef LIMPET_ANALYZER_MODEL_REPLAY_H
#define LIMPET_ANALYZER_MODEL_REPLAY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "analyzer/model/filter.h"
#include "analyzer/model/model.h"
#include "common/counts.h"
#include "common/err.h"

/* Ages: below 100 ms, 1 s, 10 s, 1 min, 10 min, 1 h, and longer. Events have the time at which the
 * collector last looked, up to 25 ms before: less than 100 ms is not told apart. */
#define LIMPET_REPLAY_AGES 7u
extern const uint64_t limpet_replay_age_limits_ns[LIMPET_REPLAY_AGES - 1];

struct limpet_replay_ages {
	uint64_t blocks[LIMPET_REPLAY_AGES], bytes[LIMPET_REPLAY_AGES];
};

/* Blocks of one site and one age. */
struct limpet_replay_age {
	uint64_t blocks, bytes;
	unsigned bucket; /* as above */
	bool alive;      /* at the window's end; else freed in it */
};
struct limpet_replay_site {
	struct limpet_model_site figures;
	uint64_t smallest_bytes, largest_bytes; /* allocated in the window */
	uint64_t oldest_ns;                     /* age of the oldest that is alive; 0: none */
	/* Only ages with blocks, in no order: most sites have few. */
	const struct limpet_replay_age *ages;
	size_t age_count;
};
struct limpet_replay_thread {
	uint32_t tid;
	struct limpet_model_site figures;    /* of blocks that it allocated; `node` is 0 */
	uint64_t own_frees, own_freed_bytes; /* calls that it made, whichever thread allocated */
};
struct limpet_replay_moment {
	uint64_t from_ns, to_ns;
	uint64_t live_bytes; /* maximum within it */
	uint64_t last_bytes; /* live at its end */
	uint64_t allocations, allocated_bytes, frees, temporary_allocations;
};

/* What one thread did in a part of the window, or in a section of that part. This and the next are
 * in the scale of the model's sampling. */
struct limpet_replay_share {
	uint32_t tid;
	struct limpet_counts counts; /* of blocks that it allocated */
	uint64_t own_frees;          /* calls that it made */
};
/* Figures of the blocks of one stack and one size in a part of the window, or in a section of it.
 */
struct limpet_replay_blocks {
	uint32_t node;
	uint64_t size;
	struct limpet_counts counts;
	/* Blocks by age: index into limpet_replay_age_limits_ns, or one more: older. Without those
	 * that a realloc continues. */
	uint64_t freed[LIMPET_REPLAY_AGES];
};
/* The window in parts, for figures of each part. */
struct limpet_replay_parts {
	/* The part that contains rows of this block of the reader from time_ns on, and until
	 * when. */
	size_t (*find)(const void *find_context, size_t block, uint64_t time_ns,
		       uint64_t *ret_until_ns);
	const void *find_context;
	/* Called for each section, in the order of time. They return 0, or < 0 to end the replay.
	 * Either may be NULL. */
	int (*on_thread)(void *context, size_t part, const struct limpet_replay_share *share);
	int (*on_blocks)(void *context, size_t part, const struct limpet_replay_blocks *blocks);
	void *context;
};

/* A kept block, or several alike. */
struct limpet_replay_block {
	uint32_t tid, node;
	double blocks, bytes;
	uint64_t made_ns, freed_ns; /* freed_ns UINT64_MAX: not freed */
};

struct limpet_replay_options {
	const bool *kept;                   /* by node; NULL: all */
	const struct limpet_filter *filter; /* for its threads and births; NULL: all */
	const uint64_t *ends; /* of moments, ascending: each begins where the previous one ends */
	size_t end_count;
	const struct limpet_replay_parts *parts; /* NULL: none */
	/* Called for each block when it is freed, and at the end for the others; for a model of the
	 * whole capture. Returns 0, or < 0 to end the replay. NULL: none. */
	int (*on_block)(void *block_context, const struct limpet_replay_block *block);
	void *block_context;
	/* Called now and then, with `done` of `all` blocks read; NULL: none. */
	void (*progress)(void *context, size_t done, size_t all);
	void *context;
};
struct limpet_replay {
	struct limpet_replay_site *sites; /* by node; only those with a figure */
	size_t site_count;
	struct limpet_replay_age *ages;       /* of the sites */
	struct limpet_replay_thread *threads; /* by bytes held at the end, then allocated */
	size_t thread_count;
	struct limpet_replay_moment *moments;
	size_t moment_count;
	struct limpet_model_size *sizes; /* as in the model */
	size_t size_count;
	/* With a filter of threads or births: what is kept of mappings, by node, as in the model.
	 */
	struct limpet_model_map_site *maps;
	size_t map_count;
	uint64_t losses; /* LIMPET_LOSS_BIT: BRIDGED, a block of events could not be read; GIVEN_UP
			  */
};

/* The window is the model's. Returns 0, -ENOMEM, -ENODATA (a trace with only sums), or the error of
 * a read. */
int limpet_replay_new(struct limpet_trace_reader *reader, const struct limpet_model *model,
		      const struct limpet_replay_options *options,
		      struct limpet_replay **ret_replay) LIMPET_MUST_CHECK;
void limpet_replay_free(struct limpet_replay *replay);

/* Adds the site's blocks by age. */
void limpet_replay_add_ages(const struct limpet_replay_site *site, struct limpet_replay_ages *freed,
			    struct limpet_replay_ages *alive);

#endif
