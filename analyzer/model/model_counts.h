/* Sums over a trace since the capture's start, by site and by size: of rows and of whole periods.
 * What came in a window is the difference of two. Internal to the model. */
#ifndef LIMPET_ANALYZER_MODEL_MODEL_COUNTS_H
#define LIMPET_ANALYZER_MODEL_MODEL_COUNTS_H

#include <stdbool.h>
#include <stdint.h>

#include "analyzer/model/model.h"
#include "analyzer/trace/trace_reader.h"
#include "common/site_counts.h"

struct limpet_model_counts {
	struct limpet_site_counts sites;
	struct limpet_size_counts sizes[LIMPET_TRACE_SIZE_BUCKETS];
	struct limpet_totals totals;
	/* Of the counts in all three; mappings are never sampled. */
	struct limpet_scale scale;
	uint64_t sample_bytes; /* 0: not sampled */
	bool overloads_only;   /* rows that are not marked are certain */
	uint64_t parts;        /* bytes of UNMAPPED rows since the last call */
};

/* For a trace that may have rows of samples: `sample_bytes` is their period. */
struct limpet_model_counts limpet_model_counts_new(uint64_t sample_bytes, bool overloads_only);
void limpet_model_counts_done(struct limpet_model_counts *sums);

/* Of the sampling of a row, 0: it is certain. `sampled`: the row is marked. */
uint64_t limpet_model_counts_period(const struct limpet_model_counts *sums, bool sampled);
/* A block of that size, likewise. */
struct limpet_scaled_block limpet_model_counts_block(const struct limpet_model_counts *sums,
						     uint64_t size, bool sampled);
/* What a row adds to its site's counts. False: nothing. */
bool limpet_model_counts_of_row(const struct limpet_model_counts *sums,
				const struct limpet_trace_event *row,
				struct limpet_counts *ret_counts);

/* 0 or -ENOMEM. */
int limpet_model_counts_add_row(struct limpet_model_counts *sums,
				const struct limpet_trace_event *row);
int limpet_model_counts_add_period(struct limpet_model_counts *sums,
				   const struct limpet_trace_period *period);

/* Figures of a site: all of it, without what it had when the window began. */
struct limpet_model_site limpet_model_counts_site(uint32_t node, const struct limpet_counts *all,
						  const struct limpet_counts *before,
						  struct limpet_scale scale);
/* The same of the heap; the peak and losses are left out. */
struct limpet_model_totals limpet_model_counts_totals(const struct limpet_totals *all,
						      const struct limpet_totals *before,
						      struct limpet_scale scale);
/* A point of the timeline at the end of `period`. */
struct limpet_model_point limpet_model_counts_point(const struct limpet_trace_period *period,
						    const struct limpet_totals *totals,
						    struct limpet_scale scale);
/* One from before the first period that was kept. */
struct limpet_model_point limpet_model_counts_past_point(const struct limpet_trace_point *point);

#endif
