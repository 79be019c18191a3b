/* Views of a heap as data: trees of calls from either end, functions, callers and callees of one,
 * modules. view_text.h and view_json.h print them; diff and exporters use them, too.
 *
 * A stack's figures count once for each function, module or pair of functions on it, however often
 * recursion repeats it; a tree has a node for each path. In the figures of a tree's node, `node` is
 * the stack with the largest share; elsewhere it has no meaning. */
#ifndef LIMPET_ANALYZER_VIEWS_VIEW_H
#define LIMPET_ANALYZER_VIEWS_VIEW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "analyzer/model/replay.h"
#include "analyzer/model/source_locations.h"
#include "analyzer/views/report.h"

/* The input of a view. Everything is borrowed. */
struct limpet_view {
	struct limpet_locations *locations;
	const struct limpet_model_site *sites;
	size_t site_count;
	enum limpet_report_sort sort;
	bool full;                       /* stacks include noise */
	struct limpet_model_site totals; /* by limpet_view_add_up() */
	const uint32_t *alike; /* for trees: by function, the one it counts as; NULL: itself */
};
void limpet_view_add_up(struct limpet_view *view);
/* `node` does not change. */
void limpet_view_add_figures(struct limpet_model_site *to, const struct limpet_model_site *from);

struct limpet_view_node {
	struct limpet_model_site figures;
	int64_t largest;                    /* figures.node's share, by the sort */
	uint32_t function;                  /* of the root: none */
	uint32_t parent, first_child, next; /* 0: none. Children are in order of the sort */
};
struct limpet_view_tree {
	struct limpet_view_node *nodes; /* 0 is the root */
	uint32_t count;
	size_t capacity;
	uint32_t *leaf_of_site; /* parallel to the view's sites: the node where the stack ends */
};
/* bottom_up: from the allocating function to its callers; else from the outermost function on.
 * -ENOMEM. */
int limpet_view_tree_new(const struct limpet_view *view, bool bottom_up,
			 struct limpet_view_tree **ret_tree) LIMPET_MUST_CHECK;
void limpet_view_tree_free(struct limpet_view_tree *tree);

/* One function, or one module, or one line. */
struct limpet_view_row {
	uint32_t function;              /* of a line: the place */
	const char *name;               /* of a module: its path, NULL for code in none */
	struct limpet_model_site self;  /* where it is the innermost */
	struct limpet_model_site total; /* where it is on the stack */
};
struct limpet_view_rows {
	struct limpet_view_row *rows; /* by total; of modules by self */
	size_t count;
};
int limpet_view_functions(const struct limpet_view *view,
			  struct limpet_view_rows *ret_rows) LIMPET_MUST_CHECK;
/* Sorted by what their own functions allocate. */
int limpet_view_modules(const struct limpet_view *view,
			struct limpet_view_rows *ret_rows) LIMPET_MUST_CHECK;
void limpet_view_rows_done(struct limpet_view_rows *rows);

/* Sums of a replay's figures of sites, and of blocks by age. */
struct limpet_view_replayed {
	struct limpet_model_site figures;
	uint64_t smallest_bytes, largest_bytes, oldest_ns;
	struct limpet_replay_ages freed, alive;
};
/* Stacks that look alike. */
struct limpet_view_life {
	uint32_t leaf; /* in a tree from the top down */
	struct limpet_view_replayed life;
};
struct limpet_view_lives {
	struct limpet_view_life *rows; /* by the sort */
	size_t count;
	struct limpet_view_replayed all; /* sum of the rows */
};
/* `tree` and `replay` are of the same view. */
int limpet_view_lives(const struct limpet_view *view, const struct limpet_view_tree *tree,
		      const struct limpet_replay *replay,
		      struct limpet_view_lives *ret_lives) LIMPET_MUST_CHECK;
void limpet_view_lives_done(struct limpet_view_lives *lives);

/* Callers, callees and lines of a function. */
struct limpet_view_calls {
	uint32_t *chosen; /* functions: overloads, or the same name in several modules */
	size_t chosen_count;
	struct limpet_model_site self, total;
	struct limpet_view_rows callers, callees; /* only `total` is set */
	struct limpet_view_rows lines;            /* `function` is a place; the line of the call */
};
/* `name` is a whole name, with or without parameters, or a part of only one name. -ENOENT: no
 * function has it; -ENOTUNIQ: several contain it; they are in calls->chosen. Free
 * *ret_calls in each of these cases. */
int limpet_view_calls_new(const struct limpet_view *view, const char *name,
			  struct limpet_view_calls **ret_calls) LIMPET_MUST_CHECK;
void limpet_view_calls_free(struct limpet_view_calls *calls);

#endif
