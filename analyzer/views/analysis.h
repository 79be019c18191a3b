/* A trace, opened for views: read, filtered, and replayed if needed. */
#ifndef LIMPET_ANALYZER_VIEWS_ANALYSIS_H
#define LIMPET_ANALYZER_VIEWS_ANALYSIS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "analyzer/model/filter.h"
#include "analyzer/model/model.h"
#include "analyzer/model/replay.h"
#include "analyzer/model/source_locations.h"
#include "analyzer/views/view.h"
#include "common/err.h"

struct limpet_analysis_options {
	uint64_t from_ns, to_ns;            /* as the model's */
	const struct limpet_filter *filter; /* borrowed; NULL: none */
	bool sorted;                        /* `sort` was given; else by the capture's mode */
	enum limpet_report_sort sort;
	bool full;      /* stacks include noise */
	bool replay;    /* the view needs one */
	bool blocks;    /* it needs the threads of blocks, or when each was freed */
	size_t moments; /* of the replay: number of equal parts of the window */
	bool series;    /* with a filter: also filter sizes and timeline, if possible */
	void (*progress)(void *context, size_t done, size_t all);
	void *context;
	/* Looks up names (limpet_model_look_up_names()) if the capture still runs, and its trace
	 * has none yet. NULL: stays without them. */
	int (*look_up)(struct limpet_model *model);
};

struct limpet_analysis {
	struct limpet_trace_reader *reader;
	/* What the filter keeps: sites, maps, totals; with `series` also sizes and the heap's part
	 * of the timeline. Frees of older blocks have no stack, so a filter keeps none. The peak is
	 * the kept part of the moment when the whole heap was largest. */
	struct limpet_model *model;
	struct limpet_locations *locations;
	struct limpet_replay *replay; /* NULL: none was needed */
	struct limpet_view view;
	uint64_t events; /* of the window, whatever the filter */
	bool narrowed;   /* the window was cut to where there are single events, for the replay */
	bool filtered;
	struct limpet_model_site hidden;    /* by the filter */
	bool *kept;                         /* by node; NULL: all */
	const struct limpet_filter *filter; /* borrowed from the options; NULL: none */
};

/* The errors of reading the trace; -EINVAL: bad window; -ERANGE: the window begins or ends where
 * only sums are kept; -ENOTSUP: a filter by threads or births, with a sampled trace; -ENODATA: a
 * replay of a trace of sums, or what another profiler does not record. */
int limpet_analysis_open(const char *path, const struct limpet_analysis_options *options,
			 struct limpet_analysis *ret_analysis,
			 struct limpet_err *err) LIMPET_MUST_CHECK;
void limpet_analysis_close(struct limpet_analysis *analysis);

#endif
