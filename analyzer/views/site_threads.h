/* Which threads allocated by each stack, over the whole capture: a stack of a pool's workers has
 * many, most stacks one.
 *
 * Plain structs; everything belongs to the struct. */
#ifndef LIMPET_ANALYZER_VIEWS_SITE_THREADS_H
#define LIMPET_ANALYZER_VIEWS_SITE_THREADS_H

#include <stddef.h>
#include <stdint.h>

#include "analyzer/model/replay.h"
#include "common/err.h"

struct limpet_site_thread {
	uint32_t node, tid;
	uint64_t bytes; /* allocated */
};
struct limpet_site_threads {
	struct limpet_site_thread *list; /* when finished: by node, the most bytes first */
	size_t count;
	/* Until then, of which a sample counts fractions: */
	struct limpet_site_threads_sum *sums;
	size_t sum_count, sum_capacity;
	uint32_t *places;   /* by hash of node and thread: index + 1 in sums; 0: free */
	size_t place_count; /* a power of two, or 0 */
};

/* For each block of a replay; `threads` begins as zeros. -ENOMEM. */
int limpet_site_threads_add(struct limpet_site_threads *threads,
			    const struct limpet_replay_block *block) LIMPET_MUST_CHECK;
/* After the last. -ENOMEM. */
int limpet_site_threads_finish(struct limpet_site_threads *threads) LIMPET_MUST_CHECK;
void limpet_site_threads_done(struct limpet_site_threads *threads);

/* The threads of a stack. Returns their number. */
size_t limpet_site_threads_of(const struct limpet_site_threads *threads, uint32_t node,
			      const struct limpet_site_thread **ret_list);

#endif
