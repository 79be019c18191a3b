#include "analyzer/model/model_estimate.h"

void limpet_model_estimates_alloc(struct limpet_model_estimates *estimates,
				  const struct limpet_weight *weight, uint64_t size, bool counting,
				  bool live)
{
	if (counting) {
		limpet_estimate_add(&estimates->allocations, weight, 1);
		limpet_estimate_add(&estimates->allocated_bytes, weight, (double)size);
	}
	if (live) {
		limpet_estimate_add(&estimates->live_allocations, weight, 1);
		limpet_estimate_add(&estimates->live_bytes, weight, (double)size);
	}
}

void limpet_model_estimates_free(struct limpet_model_estimates *estimates,
				 const struct limpet_weight *weight, uint64_t size)
{
	limpet_estimate_remove(&estimates->live_allocations, weight, 1);
	limpet_estimate_remove(&estimates->live_bytes, weight, (double)size);
}

void limpet_model_estimates_join(struct limpet_model_estimates *estimates,
				 const struct limpet_model_estimates *other)
{
	limpet_estimate_join(&estimates->allocations, &other->allocations);
	limpet_estimate_join(&estimates->allocated_bytes, &other->allocated_bytes);
	limpet_estimate_join(&estimates->live_allocations, &other->live_allocations);
	limpet_estimate_join(&estimates->live_bytes, &other->live_bytes);
}

struct limpet_model_range limpet_model_estimates_range(
	const struct limpet_model_estimates *estimates, enum limpet_model_figure figure,
	uint64_t sample_bytes)
{
	const struct limpet_estimate *const list[LIMPET_FIGURE_COUNT] = {
		[LIMPET_FIGURE_ALLOCATIONS] = &estimates->allocations,
		[LIMPET_FIGURE_ALLOCATED_BYTES] = &estimates->allocated_bytes,
		[LIMPET_FIGURE_LIVE_ALLOCATIONS] = &estimates->live_allocations,
		[LIMPET_FIGURE_LIVE_BYTES] = &estimates->live_bytes,
	};
	bool blocks =
		figure == LIMPET_FIGURE_ALLOCATIONS || figure == LIMPET_FIGURE_LIVE_ALLOCATIONS;
	struct limpet_model_range range;

	limpet_estimate_interval(list[figure],
				 blocks ? limpet_estimate_most_blocks(sample_bytes)
					: limpet_estimate_most_bytes(sample_bytes),
				 &range.low, &range.high);
	return range;
}
