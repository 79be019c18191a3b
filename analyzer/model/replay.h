/* Every event of a trace once more, for what sums do not say: figures per thread, how long blocks
 * live, sizes of each site, what threads mapped, and what happened when, of the stacks and threads
 * that a filter keeps.
 *
 * A block belongs to the thread that allocated it, a mapping to the one that made it. The trace
 * keeps no address with an event: a free is paired by stack, size and time of the allocation, which
 * leaves only blocks in doubt that are alike and came within the same 10 microseconds; of these the
 * freeing thread's own goes first. Figures of a sampled trace are estimates, as the model's are. */
#ifndef LIMPET_ANALYZER_MODEL_REPLAY_H
#define LIMPET_ANALYZER_MODEL_REPLAY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "analyzer/model/filter.h"
#include "analyzer/model/model.h"
#include "common/counts.h"
#include "common/err.h"

/* Ages: below 10 us, 100 us, 1 ms, 10 ms, 100 ms, 1 s, 10 s, 1 min, 10 min, 1 h, and longer. */
#define LIMPET_REPLAY_AGES 11u
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
	/* Most sites have few of the ages: those alone, in no order. */
	const struct limpet_replay_age *ages;
	size_t age_count;
};
struct limpet_replay_thread {
	uint32_t tid;
	struct limpet_model_site figures;    /* of blocks that it allocated; `node` is 0 */
	uint64_t own_frees, own_freed_bytes; /* calls that it made, whoever allocated */
};
struct limpet_replay_moment {
	uint64_t from_ns, to_ns;
	uint64_t live_bytes; /* the highest within */
	uint64_t last_bytes; /* live at its end */
	uint64_t allocations, allocated_bytes, frees, temporary_allocations;
};

/* What one thread did in a part of the time, or in some of it. */
struct limpet_replay_share {
	uint32_t tid;
	struct limpet_real_counts counts; /* of blocks that it allocated */
	double own_frees;                 /* calls that it made */
};
/* What blocks of one stack and one size did in a part of the time, or in some of it. */
struct limpet_replay_blocks {
	uint32_t node;
	uint64_t size;
	double allocations; /* with those that were never tracked */
	double untracked, frees, temporary;
	/* By age: index of limpet_replay_age_limits_ns, or one more: older. */
	double freed[LIMPET_REPLAY_AGES];
};
/* The window in parts, for whoever wants to know what happened in each. */
struct limpet_replay_parts {
	/* The part that rows of a block of the reader's are in from then on, and until when. */
	size_t (*find)(const void *find_context, size_t block, uint64_t time_ns,
		       uint64_t *ret_until_ns);
	const void *find_context;
	/* Told in pieces, in the order of time. 0, or an answer below 0, which ends the replay. A
	 * NULL is not told. */
	int (*tell_thread)(void *context, size_t part, const struct limpet_replay_share *share);
	int (*tell_blocks)(void *context, size_t part, const struct limpet_replay_blocks *blocks);
	void *context;
};

struct limpet_replay_options {
	const bool *kept;                   /* by node; NULL: all */
	const struct limpet_filter *filter; /* for its threads; NULL: all */
	const uint64_t *ends; /* of moments, ascending: each begins where the one before ends */
	size_t end_count;
	const struct limpet_replay_parts *parts; /* NULL: not */
	/* Called now and then, with parts done of all; NULL: not. */
	void (*progress)(void *context, size_t done, size_t all);
	void *context;
};
struct limpet_replay {
	struct limpet_replay_site *sites; /* by node; those with a figure */
	size_t site_count;
	struct limpet_replay_age *ages;       /* of the sites */
	struct limpet_replay_thread *threads; /* by bytes held at the end, then allocated */
	size_t thread_count;
	struct limpet_replay_moment *moments;
	size_t moment_count;
	struct limpet_model_size *sizes; /* as the model's */
	size_t size_count;
	/* With a filter of threads: what those that it keeps mapped, by node, as the model's. */
	struct limpet_model_map_site *maps;
	size_t map_count;
	uint64_t losses; /* LIMPET_LOSS_BIT: BRIDGED, a block of events could not be read; GIVEN_UP
			  */
};

/* The window is the model's. 0, -ENOMEM, -ENODATA (a trace of sums alone), or the error of a read.
 */
int limpet_replay_new(struct limpet_trace_reader *reader, const struct limpet_model *model,
		      const struct limpet_replay_options *options,
		      struct limpet_replay **ret_replay) LIMPET_MUST_CHECK;
void limpet_replay_free(struct limpet_replay *replay);

/* Adds the site's blocks by age. */
void limpet_replay_add_ages(const struct limpet_replay_site *site, struct limpet_replay_ages *freed,
			    struct limpet_replay_ages *alive);

#endif
