/* Takes back what a look said, by a copy of a part of the memory. */
#ifndef LIMPET_EXPLAIN_REACH_REACH_CLEAR_H
#define LIMPET_EXPLAIN_REACH_REACH_CLEAR_H

#include "explain/reach/frozen_copy.h"
#include "explain/reach/reach_marks.h"

/* Lost blocks to which a word of these or of the copy points count as held, and all to which they
 * lead; the copy's words count where the graph has none of its blocks, or one that is not lost. So
 * do lost blocks whose first words differ in the copy: they were in use or free then. 0 or -ENOMEM.
 */
int limpet_reach_clear(struct limpet_reach_graph *graph, const uint64_t *registers, size_t count,
		       const struct limpet_frozen_copy *copy,
		       const struct limpet_search_ranges *ranges) LIMPET_MUST_CHECK;

#endif
