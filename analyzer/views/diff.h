/* What changed between two heaps: two captures, or two windows of one.
 *
 * Stacks are matched by the names of their functions, from the outermost to the one that allocates,
 * never by address: two builds of a program, or two runs of one, line up. Figures counted over time
 * (allocations, bytes allocated, temporary ones, growth) are compared as if both had lasted as long
 * as the new one, unless this is unwanted; those of one moment (live, peak) as they are. */
#ifndef LIMPET_ANALYZER_VIEWS_DIFF_H
#define LIMPET_ANALYZER_VIEWS_DIFF_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "analyzer/views/analysis.h"
#include "analyzer/views/report.h"

struct limpet_diff_node {
	uint32_t parent; /* 0: the root; < own number */
	uint32_t name;
};
enum limpet_diff_state {
	LIMPET_DIFF_SAME = 0,
	LIMPET_DIFF_GREW,
	LIMPET_DIFF_SHRANK,
	LIMPET_DIFF_APPEARED, /* the old one never allocated there */
	LIMPET_DIFF_VANISHED
};
extern const char *const limpet_diff_state_words[LIMPET_DIFF_VANISHED + 1];

struct limpet_diff_row {
	uint32_t node; /* where the stack ends */
	enum limpet_diff_state state;
	struct limpet_model_site old_figures, new_figures; /* as they were */
	int64_t old_figure; /* by the sort, as if it had lasted as long as the new */
	int64_t new_figure;
	int64_t change;
};

struct limpet_diff_private;
struct limpet_diff {
	const struct limpet_analysis *old_heap, *new_heap;
	enum limpet_report_sort sort;
	double scale;  /* factor applied to old figures of this sort */
	bool unscaled; /* figures over time of different lengths are compared as they are */
	struct limpet_diff_node *nodes;
	uint32_t node_count;
	const char **names;
	uint32_t name_count;
	struct limpet_diff_row *rows; /* by the size of the change; all stacks of both */
	size_t row_count;
	struct limpet_diff_row totals;
	struct limpet_diff_private *private;
};

struct limpet_diff_options {
	bool by_function; /* a row for each allocating function, whatever its callers */
	bool no_scale;    /* figures over time as they are */
};

/* The heaps are borrowed; the sort is that of the new one's view. -ENOMEM. */
int limpet_diff_new(const struct limpet_analysis *old_heap, const struct limpet_analysis *new_heap,
		    const struct limpet_diff_options *options,
		    struct limpet_diff **ret_diff) LIMPET_MUST_CHECK;
void limpet_diff_free(struct limpet_diff *diff);

/* False if all figures are 0. */
bool limpet_diff_has_figure(const struct limpet_model_site *figures);
/* One side, for `old` or `new` in the JSON. NULL: no memory. */
json_t *limpet_diff_json_side(const char *name, const struct limpet_analysis *analysis);

#endif
