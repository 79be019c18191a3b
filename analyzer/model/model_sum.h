/* Sums a trace over a window: from the aggregates of whole periods, and from the events of those
 * that the window cuts or whose aggregates are lost. Internal to the model. */
#ifndef LIMPET_ANALYZER_MODEL_MODEL_SUM_H
#define LIMPET_ANALYZER_MODEL_MODEL_SUM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "analyzer/model/model.h"
#include "analyzer/model/model_counts.h"
#include "analyzer/trace/trace_reader.h"

struct limpet_model_sum {
	struct limpet_model_counts sums; /* at the window's end */
	/* The same when it began, of the first of the sites; those after them had nothing. */
	struct limpet_site_count *sites_before;
	size_t site_count_before;
	struct limpet_size_counts sizes_before[LIMPET_TRACE_SIZE_BUCKETS];
	struct limpet_totals totals_before;
	struct limpet_site_counts at_peak; /* what sites held then: the live part of these counts */
	/* Of a sampled trace: of each site, and of all. */
	struct limpet_model_estimates *estimates, estimate;
	size_t estimate_capacity;
	struct limpet_model_point *points;
	size_t point_count, point_capacity;
	uint64_t peak_bytes, peak_ns;
	struct limpet_trace_overload *overloads; /* of the capture, by time */
	size_t overload_count, overload_capacity;
	struct limpet_model_missing missing;
	uint64_t truncated_stacks; /* of the capture */
	uint64_t given_up_ns;      /* before it there are only sums */
	uint64_t from_ns, to_ns;   /* as requested; without single events, of the periods in it */
	uint64_t losses;           /* LIMPET_LOSS_BIT: DAMAGED, BRIDGED, GIVEN_UP */
};

/* to_ns UINT64_MAX: to the end. 0, -ENOMEM or the error of a read. */
int limpet_model_sum_init(struct limpet_model_sum *sum, struct limpet_trace_reader *reader,
			  uint64_t from_ns, uint64_t to_ns);
void limpet_model_sum_done(struct limpet_model_sum *sum);

#endif
