/* The counts of a heap, a site, a thread or a period. */
#ifndef LIMPET_COMMON_COUNTS_H
#define LIMPET_COMMON_COUNTS_H

#include <math.h>
#include <stdint.h>

struct limpet_counts {
	uint64_t allocations, allocated_bytes, frees, freed_bytes;
	uint64_t temporary;     /* allocations */
	uint64_t reallocations; /* part of the frees: the block continues as another allocation */
};
/* The same for samples, which represent fractions of a block; exact for whole numbers below 2^53.
 */
struct limpet_real_counts {
	double allocations, allocated_bytes, frees, freed_bytes, temporary, reallocations;
};

static inline void limpet_counts_add(struct limpet_counts *to, const struct limpet_counts *from)
{
	to->allocations += from->allocations;
	to->allocated_bytes += from->allocated_bytes;
	to->frees += from->frees;
	to->freed_bytes += from->freed_bytes;
	to->temporary += from->temporary;
	to->reallocations += from->reallocations;
}

/* Adds the counts `times` times; -1 subtracts them. */
static inline void limpet_real_counts_add(struct limpet_real_counts *to,
					  const struct limpet_real_counts *from, double times)
{
	to->allocations += times * from->allocations;
	to->allocated_bytes += times * from->allocated_bytes;
	to->frees += times * from->frees;
	to->freed_bytes += times * from->freed_bytes;
	to->temporary += times * from->temporary;
	to->reallocations += times * from->reallocations;
}

static inline struct limpet_real_counts limpet_real_counts_of(const struct limpet_counts *counts)
{
	return (struct limpet_real_counts){.allocations = (double)counts->allocations,
					   .allocated_bytes = (double)counts->allocated_bytes,
					   .frees = (double)counts->frees,
					   .freed_bytes = (double)counts->freed_bytes,
					   .temporary = (double)counts->temporary,
					   .reallocations = (double)counts->reallocations};
}

/* Rounds to the nearest integer; 0 for less or for NaN, and 2^62 for more: a trace may contain any
 * number. */
static inline uint64_t limpet_rounded(double value)
{
	return value > 0 ? (uint64_t)llround(value < 0x1p62 ? value : 0x1p62) : 0;
}

static inline struct limpet_counts limpet_counts_rounded(const struct limpet_real_counts *counts)
{
	return (struct limpet_counts){.allocations = limpet_rounded(counts->allocations),
				      .allocated_bytes = limpet_rounded(counts->allocated_bytes),
				      .frees = limpet_rounded(counts->frees),
				      .freed_bytes = limpet_rounded(counts->freed_bytes),
				      .temporary = limpet_rounded(counts->temporary),
				      .reallocations = limpet_rounded(counts->reallocations)};
}

#endif
