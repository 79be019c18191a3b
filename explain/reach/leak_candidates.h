/* Blocks that were not held in one look at a process, to be found again in the next one. */
#ifndef LIMPET_EXPLAIN_REACH_LEAK_CANDIDATES_H
#define LIMPET_EXPLAIN_REACH_LEAK_CANDIDATES_H

#include "explain/reach/reach_marks.h"

/* What nobody can reach does not change: its first words stay the same. */
struct limpet_leak_candidate {
	uint64_t start;
	uint32_t words, hash;
};
/* Begins as all zeros. */
struct limpet_leak_candidates {
	struct limpet_leak_candidate *list; /* sorted by address */
	size_t count;
};
void limpet_leak_candidates_done(struct limpet_leak_candidates *candidates);
/* Those of a graph with classes, instead of those that are in it. 0 or -ENOMEM. */
int limpet_leak_candidates_take(const struct limpet_reach_graph *graph,
				struct limpet_leak_candidates *ret) LIMPET_MUST_CHECK;
/* Flags the others in a graph without classes, which are then not judged. */
void limpet_leak_candidates_excuse(const struct limpet_leak_candidates *candidates,
				   struct limpet_reach_graph *graph);

#endif
