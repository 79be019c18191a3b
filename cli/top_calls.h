/* Calls in the trees of `limpet top`, of which a recursion is shown once. */
#ifndef LIMPET_CLI_TOP_CALLS_H
#define LIMPET_CLI_TOP_CALLS_H

#include <stddef.h>
#include <stdint.h>

#include "analyzer/views/recursion.h"
#include "analyzer/views/view.h"
#include "common/err.h"

/* Nodes of a tree, each the parent of the one before it. Begins as all zeros. */
struct limpet_top_path {
	const struct limpet_view_tree *tree;
	uint32_t *nodes;
	size_t count, capacity;
};
/* From a node up to the outermost; may be called again. -ENOMEM. */
int limpet_top_path_read(struct limpet_top_path *path, const struct limpet_view_tree *tree,
			 uint32_t node) LIMPET_MUST_CHECK;
void limpet_top_path_done(struct limpet_top_path *path);

/* One that is shown: call `i` of a series, in a path that it may be repeated in. */
struct limpet_top_call {
	size_t at; /* of the path */
	size_t i;
	struct limpet_recursion series;
};
/* `full`: nothing is a recursion. False: there is no call, or no further one. */
bool limpet_top_call_first(const struct limpet_top_path *path, bool full,
			   struct limpet_top_call *ret);
bool limpet_top_call_next(const struct limpet_top_path *path, bool full,
			  struct limpet_top_call *call);
/* The series that ends with this call; if none does, or another call follows in it, times is 1. */
struct limpet_recursion limpet_top_call_ends(const struct limpet_top_call *call);

/* The same downwards in a tree, where nothing branches off: by node the series that ends with it,
 * times 0 for a node that is a repetition. malloc'ed; NULL: out of memory. */
struct limpet_recursion *limpet_top_calls_mark(const struct limpet_view_tree *tree, bool full);

#endif
