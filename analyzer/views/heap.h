/* A trace, opened for views: read, filtered, replayed where that is needed. */
#ifndef LIMPET_ANALYZER_VIEWS_HEAP_H
#define LIMPET_ANALYZER_VIEWS_HEAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "analyzer/model/filter.h"
#include "analyzer/model/model.h"
#include "analyzer/model/replay.h"
#include "analyzer/model/source_locations.h"
#include "analyzer/views/view.h"
#include "common/err.h"

struct limpet_heap_options {
	uint64_t from_ns, to_ns;            /* as the model's */
	const struct limpet_filter *filter; /* borrowed; NULL: none */
	bool sorted;                        /* `sort` was given; else by the capture's mode */
	enum limpet_report_sort sort;
	bool full;      /* noise stands in the stacks */
	bool replay;    /* is needed by the view */
	size_t moments; /* of the replay: the window in so many equal parts */
	bool series; /* with a filter: sizes and timeline of what it keeps, where that is known */
	void (*progress)(void *context, size_t done, size_t all);
	void *context;
};

struct limpet_heap {
	struct limpet_trace_reader *reader;
	/* Of what the filter keeps: sites, maps, totals; with `series` sizes and the
	 * heap's part of the timeline too. Frees of older blocks have no stack, so that a filter
	 * keeps none. The peak is what is kept of the moment when the whole heap was largest. */
	struct limpet_model *model;
	struct limpet_locations *locations;
	struct limpet_replay *replay; /* NULL: none was needed */
	struct limpet_view view;
	uint64_t events; /* of the window, whatever the filter */
	bool narrowed;   /* the window begins where there are single events, for the replay */
	bool filtered;
	struct limpet_model_site hidden; /* by the filter */
	bool *kept;                      /* by node; NULL: all */
};

/* The errors of reading it; -EINVAL: the window; -ERANGE: it begins or ends where sums alone are
 * kept; -ENOTSUP: threads of a sampled trace; -ENODATA: a
 * replay of a trace that holds sums alone. */
int limpet_heap_open(const char *path, const struct limpet_heap_options *options,
		     struct limpet_heap *ret_heap, struct limpet_err *err) LIMPET_MUST_CHECK;
void limpet_heap_close(struct limpet_heap *heap);

#endif
