/* What changed between two heaps: two captures, or two windows of one.
 *
 * Stacks are matched by the names of their functions, from the outermost to the one that allocates,
 * never by address: two builds of a program, or two runs of one, line up. Figures are compared as
 * they are; but those counted over time (allocations, bytes allocated, temporary ones, growth) by
 * the second, if the times are of different lengths. */
#ifndef LIMPET_ANALYZER_VIEWS_DIFF_H
#define LIMPET_ANALYZER_VIEWS_DIFF_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "analyzer/views/analysis.h"
#include "analyzer/views/lost_sums.h"
#include "analyzer/views/report.h"
#include "analyzer/views/resident_parts.h"
#include "analyzer/views/verdict.h"

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

struct limpet_diff_row {
	uint32_t node; /* where the stack ends */
	enum limpet_diff_state state;
	struct limpet_model_site old_figures, new_figures; /* as they were */
	uint32_t nodes[2];                    /* a stack of the old heap, and of the new; 0: none */
	int64_t old_value, new_value, change; /* by the sort */
	struct limpet_lost lost[2];           /* of the old heap, and of the new */
};

struct limpet_diff_private;
struct limpet_diff {
	const struct limpet_analysis *old_heap, *new_heap;
	enum limpet_report_sort sort;
	bool per_second;                           /* values are rates */
	const struct limpet_leak_counts *leaks[2]; /* NULL: not known */
	char *verdict;                             /* what changed, in one sentence, safe to show */
	struct limpet_diff_node *nodes;
	uint32_t node_count;
	const char **names;
	uint32_t name_count;
	struct limpet_diff_row *rows; /* by the size of the change; all stacks of both */
	size_t row_count;
	struct limpet_diff_row totals;
	struct limpet_diff_private *private;
};

/* `verdicts`: of the old heap, and of the new; NULL: none. The heaps are borrowed; the sort is that
 * of the new one's view. -ENOMEM. */
int limpet_diff_new(const struct limpet_analysis *old_heap, const struct limpet_analysis *new_heap,
		    const struct limpet_verdict *const verdicts[2],
		    struct limpet_diff **ret_diff) LIMPET_MUST_CHECK;
void limpet_diff_free(struct limpet_diff *diff);

/* Of whole captures: what resident memory is at the end of the new one, with its difference from
 * the old one's. -ENODATA. */
int limpet_diff_resident(const struct limpet_diff *diff, struct limpet_parts *ret_parts);
/* Of growth, what came by less than before has not shrunk: it is slower. */
const char *limpet_diff_state_word(const struct limpet_diff *diff,
				   const struct limpet_diff_row *row);
/* False if all figures are 0. */
bool limpet_diff_has_figure(const struct limpet_model_site *figures);
/* One side, for `old` or `new` in the JSON. NULL: no memory. */
json_t *limpet_diff_json_side(const char *name, const struct limpet_analysis *analysis);

#endif
