/* What each site did over time: the aggregates of a trace's periods, in at most so many steps that
 * they can be looked at together. Where these do not add up to what the model says of each site (a
 * sampled trace, one that has given up its oldest part, a damaged one), all is one step.
 *
 * Plain structs; everything belongs to the history. */
#ifndef LIMPET_ANALYZER_HISTORY_H
#define LIMPET_ANALYZER_HISTORY_H

#include <stddef.h>
#include <stdint.h>

#include "analyzer/model.h"
#include "common/err.h"

struct limpet_history_step {
	uint32_t step;
	uint64_t allocations, allocated_bytes, temporary;
	uint64_t frees, freed_bytes; /* with what was never tracked: live is what is left */
};
struct limpet_history_site {
	uint32_t node;
	uint64_t peak_bytes;                     /* at the capture's peak, exactly */
	const struct limpet_history_step *steps; /* ascending; those in which it did something */
	size_t count;
};
struct limpet_history {
	uint64_t *edges_ns; /* step n lies between edges n and n + 1 */
	size_t step_count;
	struct limpet_history_site *sites; /* in the order of the model's */
	size_t site_count;
	struct limpet_model_size *sizes; /* of each of the model's sizes, step_count of them */
	struct limpet_history_step *pool;
};

/* The model is of the whole capture, and of the same reader. */
int limpet_history_build(struct limpet_trace_reader *reader, const struct limpet_model *model,
			 size_t most_steps, struct limpet_history **ret_history,
			 struct limpet_err *err) LIMPET_MUST_CHECK;
void limpet_history_free(struct limpet_history *history);

#endif
