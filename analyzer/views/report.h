/* The report as data: which sites to show, in which order, and their stacks. report_text.h and
 * report_json.h print it.
 *
 * A site of the model is one recorded stack. For people, stacks that look alike once they are
 * symbolised and their noise is folded are one entry; its figures are the sums. For programs
 * (`merge` false) each stack is an entry. */
#ifndef LIMPET_ANALYZER_VIEWS_REPORT_H
#define LIMPET_ANALYZER_VIEWS_REPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "analyzer/model/frames.h"
#include "analyzer/views/lost_sums.h"

enum limpet_report_sort {
	LIMPET_REPORT_PEAK = 0,
	LIMPET_REPORT_LIVE,
	LIMPET_REPORT_ALLOCATIONS,
	LIMPET_REPORT_ALLOCATED,
	LIMPET_REPORT_TEMPORARY,
	LIMPET_REPORT_GROWTH,
	LIMPET_REPORT_SORT_COUNT
};
/* The words of --sort, in the order of the enum; ends with NULL. */
extern const char *const limpet_report_sort_words[LIMPET_REPORT_SORT_COUNT + 1];

struct limpet_verdict;
struct limpet_report_options {
	enum limpet_report_sort sort;
	size_t limit;                           /* of sites; SIZE_MAX: all */
	bool merge;                             /* stacks that look alike */
	bool full;                              /* noise counts in a stack's group */
	uint64_t capture_events;                /* of the whole capture, whatever the window */
	const struct limpet_model_site *hidden; /* by a filter; NULL: nothing was filtered */
	const char *filters; /* the options of the filter, in words; NULL: nothing was filtered */
	const struct limpet_verdict *verdict; /* of the whole capture; NULL: it was not judged */
};

struct limpet_report_site {
	struct limpet_model_site figures; /* sums; `node` is the stack with the largest share */
	size_t stacks;                    /* recorded stacks in it */
	size_t estimates;                 /* of a sampled trace: index in its `estimates` */
	struct limpet_lost lost;          /* of its live blocks at the end */
};
struct limpet_report_map_site {
	struct limpet_model_map_site figures;
	size_t stacks;
};

struct limpet_report_private;
struct limpet_report {
	const struct limpet_model *model;
	struct limpet_report_options options;
	/* by site, of a sampled trace; NULL: not sampled */
	struct limpet_model_estimates *estimates;
	struct limpet_report_site *sites; /* in order; if merged, those with a positive figure */
	size_t site_count;                /* limited */
	size_t all_sites;                 /* with a figure, before the limit */
	uint64_t shown_figure; /* sum of the sites shown; by growth: of the growing ones */
	const struct limpet_leak_counts *leaks; /* NULL: not known */
	struct limpet_report_site *losers; /* sites that lost blocks, by bytes, without limit */
	size_t loser_count;
	struct limpet_report_map_site *maps; /* by bytes still mapped */
	size_t map_count;
	struct limpet_report_private *private;
};

/* The model must outlive the report. -ENOMEM. */
int limpet_report_new(const struct limpet_model *model, const struct limpet_report_options *options,
		      struct limpet_report **ret_report) LIMPET_MUST_CHECK;
void limpet_report_free(struct limpet_report *report);

/* The figure that `sort` orders by. */
int64_t limpet_report_figure(const struct limpet_model_site *site, enum limpet_report_sort sort);

struct limpet_report_stack {
	const struct limpet_frame *frames; /* innermost first; until the next call */
	size_t count;
	bool truncated; /* the walk ended before the thread's root */
	bool lost;      /* part of it was in a damaged block */
};
/* Frames of a node; count 0 for node 0. -ENOMEM. */
int limpet_report_expand(struct limpet_report *report, uint32_t node,
			 struct limpet_report_stack *ret_stack) LIMPET_MUST_CHECK;

#endif
