/* Estimates for a set of blocks in a sampled trace: the four figures that have an interval. See
 * common/SAMPLING.md. */
#ifndef LIMPET_ANALYZER_MODEL_MODEL_ESTIMATE_H
#define LIMPET_ANALYZER_MODEL_MODEL_ESTIMATE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/estimate.h"

struct limpet_model_estimates {
	struct limpet_estimate allocations, allocated_bytes;
	struct limpet_estimate live_allocations, live_bytes;
};

/* `counting`: calls are counted; live blocks are counted in any case. */
void limpet_model_estimates_alloc(struct limpet_model_estimates *estimates,
				  const struct limpet_weight *weight, uint64_t size, bool counting,
				  bool live);
void limpet_model_estimates_free(struct limpet_model_estimates *estimates,
				 const struct limpet_weight *weight, uint64_t size);
/* The sets must not share a block. */
void limpet_model_estimates_join(struct limpet_model_estimates *estimates,
				 const struct limpet_model_estimates *other);

enum limpet_model_figure {
	LIMPET_FIGURE_ALLOCATIONS,
	LIMPET_FIGURE_ALLOCATED_BYTES,
	LIMPET_FIGURE_LIVE_ALLOCATIONS,
	LIMPET_FIGURE_LIVE_BYTES,
	LIMPET_FIGURE_COUNT
};
struct limpet_model_range {
	uint64_t low, high;
};
struct limpet_model_range limpet_model_estimates_range(
	const struct limpet_model_estimates *estimates, enum limpet_model_figure figure,
	uint64_t sample_bytes);

#endif
