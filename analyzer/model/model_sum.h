/* Sums a trace over a window: from the aggregates of whole periods, and from the events of those
 * that the window cuts or whose aggregates are lost. Internal to the model. */
#ifndef LIMPET_ANALYZER_MODEL_MODEL_SUM_H
#define LIMPET_ANALYZER_MODEL_MODEL_SUM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "analyzer/model/model.h"
#include "analyzer/model/model_accounting.h"
#include "analyzer/trace/trace_reader.h"

struct limpet_model_sum {
	struct limpet_model_accounting
		accounting; /* at the window's end; counting began at its start */
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
