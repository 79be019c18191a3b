#include "common/counts.h"

#include <stddef.h>

#include "common/estimate.h"

struct limpet_counts limpet_counts_scaled(const struct limpet_counts *counts,
					  struct limpet_scale scale)
{
	return (struct limpet_counts){.untracked = counts->untracked << scale.block_bits,
				      .untracked_bytes = counts->untracked_bytes << scale.byte_bits,
				      .reallocations = counts->reallocations << scale.block_bits,
				      .allocations = counts->allocations << scale.block_bits,
				      .allocated_bytes = counts->allocated_bytes << scale.byte_bits,
				      .frees = counts->frees << scale.block_bits,
				      .freed_bytes = counts->freed_bytes << scale.byte_bits,
				      .temporary = counts->temporary << scale.block_bits};
}

struct limpet_counts limpet_counts_unscaled(const struct limpet_counts *counts,
					    struct limpet_scale scale)
{
	return (struct limpet_counts){
		.untracked = limpet_unscaled(counts->untracked, scale.block_bits),
		.untracked_bytes = limpet_unscaled(counts->untracked_bytes, scale.byte_bits),
		.reallocations = limpet_unscaled(counts->reallocations, scale.block_bits),
		.allocations = limpet_unscaled(counts->allocations, scale.block_bits),
		.allocated_bytes = limpet_unscaled(counts->allocated_bytes, scale.byte_bits),
		.frees = limpet_unscaled(counts->frees, scale.block_bits),
		.freed_bytes = limpet_unscaled(counts->freed_bytes, scale.byte_bits),
		.temporary = limpet_unscaled(counts->temporary, scale.block_bits)};
}

struct limpet_scaled_block limpet_scale_block(uint64_t size, uint64_t period,
					      struct limpet_scale scale)
{
	double weight;

	if (!period)
		return (struct limpet_scaled_block){.blocks = 1ull << scale.block_bits,
						    .bytes = size << scale.byte_bits};
	weight = limpet_weight_of(size, period).weight;
	return (struct limpet_scaled_block){
		.blocks = limpet_rounded(weight * (double)(1u << scale.block_bits)),
		.bytes = limpet_rounded(weight * (double)size * (double)(1u << scale.byte_bits))};
}

#define TOTAL(member) offsetof(struct limpet_totals, member)
static const size_t totals_by_number[LIMPET_TOTAL_COUNT] = {
	[LIMPET_TOTAL_EVENTS] = TOTAL(events),
	[LIMPET_TOTAL_ALLOCATIONS] = TOTAL(counts.allocations),
	[LIMPET_TOTAL_ALLOCATED_BYTES] = TOTAL(counts.allocated_bytes),
	[LIMPET_TOTAL_FREES] = TOTAL(counts.frees),
	[LIMPET_TOTAL_FREED_BYTES] = TOTAL(counts.freed_bytes),
	[LIMPET_TOTAL_TEMPORARY] = TOTAL(counts.temporary),
	[LIMPET_TOTAL_FOREIGN_FREES] = TOTAL(foreign_frees),
	[LIMPET_TOTAL_FOREIGN_FREED_BYTES] = TOTAL(foreign_freed_bytes),
	[LIMPET_TOTAL_INFERRED_FREES] = TOTAL(inferred_frees),
	[LIMPET_TOTAL_UNTRACKED] = TOTAL(counts.untracked),
	[LIMPET_TOTAL_UNTRACKED_BYTES] = TOTAL(counts.untracked_bytes),
	[LIMPET_TOTAL_MMAPS] = TOTAL(mmaps),
	[LIMPET_TOTAL_MMAP_BYTES] = TOTAL(mmap_bytes),
	[LIMPET_TOTAL_MUNMAPS] = TOTAL(munmaps),
	[LIMPET_TOTAL_UNMAPPED_BYTES] = TOTAL(unmapped_bytes),
	[LIMPET_TOTAL_FOREIGN_UNMAPPED_BYTES] = TOTAL(foreign_unmapped_bytes),
	[LIMPET_TOTAL_REALLOCATIONS] = TOTAL(counts.reallocations),
};
_Static_assert(sizeof(struct limpet_totals) == LIMPET_TOTAL_COUNT * sizeof(uint64_t),
	       "each has a number");

uint64_t *limpet_totals_at(struct limpet_totals *totals, enum limpet_trace_total which)
{
	return (void *)((uint8_t *)totals + totals_by_number[which]);
}

void limpet_totals_list(const struct limpet_totals *totals, uint64_t ret_list[LIMPET_TOTAL_COUNT])
{
	struct limpet_totals from = *totals;

	for (unsigned i = 0; i < LIMPET_TOTAL_COUNT; i++)
		ret_list[i] = *limpet_totals_at(&from, i);
}
