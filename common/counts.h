/* What happened to the blocks and mappings of a heap, a stack, a thread or a period: the one
 * definition, of the recorder and of every reader. limpet-trace(5) says what the figures count.
 *
 * Arithmetic is modulo 2^64: figures of a damaged trace cannot overflow, and the difference of two
 * sums is what came between them. */
#ifndef LIMPET_COMMON_COUNTS_H
#define LIMPET_COMMON_COUNTS_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/trace_format.h"

struct limpet_counts {
	uint64_t untracked, untracked_bytes; /* part of the allocations, never live */
	uint64_t reallocations; /* part of the frees: the block continues as another allocation */
	uint64_t allocations, allocated_bytes, frees, freed_bytes;
	uint64_t temporary; /* allocations */
};
struct limpet_map_counts {
	uint64_t mmaps, mmap_bytes;
	uint64_t unmapped_parts, unmapped_bytes; /* of mappings that the capture saw made */
};
struct limpet_size_counts {
	uint64_t allocations, allocated_bytes;
};
/* Since the capture's start. */
struct limpet_totals {
	struct limpet_counts counts;
	uint64_t events;
	uint64_t foreign_frees, foreign_freed_bytes;
	uint64_t inferred_frees; /* part of the frees */
	uint64_t mmaps, mmap_bytes, munmaps, unmapped_bytes;
	uint64_t foreign_unmapped_bytes; /* the rest of what munmap calls covered */
};

static inline uint64_t limpet_counts_live(const struct limpet_counts *counts)
{
	return counts->allocations - counts->frees - counts->untracked;
}
static inline uint64_t limpet_counts_live_bytes(const struct limpet_counts *counts)
{
	return counts->allocated_bytes - counts->freed_bytes - counts->untracked_bytes;
}
/* 0 if it is below: the figures of a trace may be wrong. */
static inline uint64_t limpet_at_least_zero(uint64_t difference)
{
	return (int64_t)difference < 0 ? 0 : difference;
}

static inline void limpet_counts_allocate(struct limpet_counts *counts, uint64_t blocks,
					  uint64_t bytes)
{
	counts->allocations += blocks;
	counts->allocated_bytes += bytes;
}
/* Of an allocation that was counted: it has no place among the live blocks. */
static inline void limpet_counts_untrack(struct limpet_counts *counts, uint64_t blocks,
					 uint64_t bytes)
{
	counts->untracked += blocks;
	counts->untracked_bytes += bytes;
}
/* `realloc`: the block continues as another allocation. */
static inline void limpet_counts_free(struct limpet_counts *counts, uint64_t blocks, uint64_t bytes,
				      bool temporary, bool realloc)
{
	counts->frees += blocks;
	counts->freed_bytes += bytes;
	counts->temporary += temporary ? blocks : 0;
	counts->reallocations += realloc ? blocks : 0;
}

static inline void limpet_counts_add(struct limpet_counts *to, const struct limpet_counts *from)
{
	to->untracked += from->untracked;
	to->untracked_bytes += from->untracked_bytes;
	to->reallocations += from->reallocations;
	to->allocations += from->allocations;
	to->allocated_bytes += from->allocated_bytes;
	to->frees += from->frees;
	to->freed_bytes += from->freed_bytes;
	to->temporary += from->temporary;
}
static inline struct limpet_counts limpet_counts_less(const struct limpet_counts *from,
						      const struct limpet_counts *less)
{
	return (struct limpet_counts){
		.untracked = from->untracked - less->untracked,
		.untracked_bytes = from->untracked_bytes - less->untracked_bytes,
		.reallocations = from->reallocations - less->reallocations,
		.allocations = from->allocations - less->allocations,
		.allocated_bytes = from->allocated_bytes - less->allocated_bytes,
		.frees = from->frees - less->frees,
		.freed_bytes = from->freed_bytes - less->freed_bytes,
		.temporary = from->temporary - less->temporary};
}
static inline void limpet_size_counts_add(struct limpet_size_counts *to,
					  const struct limpet_size_counts *from)
{
	to->allocations += from->allocations;
	to->allocated_bytes += from->allocated_bytes;
}
/* The allocations alone. */
static inline struct limpet_size_counts limpet_counts_allocated(const struct limpet_counts *counts)
{
	return (struct limpet_size_counts){counts->allocations, counts->allocated_bytes};
}
static inline void limpet_map_counts_add(struct limpet_map_counts *to,
					 const struct limpet_map_counts *from)
{
	to->mmaps += from->mmaps;
	to->mmap_bytes += from->mmap_bytes;
	to->unmapped_parts += from->unmapped_parts;
	to->unmapped_bytes += from->unmapped_bytes;
}

/* A sample represents blocks and a fraction of one: sums of a sampled trace are kept in fractions,
 * as integers, so that a free takes off exactly what its allocation added. */
struct limpet_scale {
	uint8_t block_bits, byte_bits; /* of the fractions; 0: whole numbers */
};
#define LIMPET_SCALE_WHOLE ((struct limpet_scale){0, 0})
#define LIMPET_SCALE_SAMPLED ((struct limpet_scale){16, 8})
/* Of a trace with that sampling period; 0: not sampled. */
static inline struct limpet_scale limpet_scale_of(uint64_t sample_bytes)
{
	return sample_bytes ? LIMPET_SCALE_SAMPLED : LIMPET_SCALE_WHOLE;
}
/* The nearest whole number; 0 for a difference below it: the figures of a trace may be wrong. */
static inline uint64_t limpet_unscaled(uint64_t value, unsigned bits)
{
	if ((int64_t)value < 0)
		return 0;
	return bits ? (value >> bits) + (value >> (bits - 1) & 1) : value;
}
/* From whole numbers, and back to them. */
struct limpet_counts limpet_counts_scaled(const struct limpet_counts *counts,
					  struct limpet_scale scale);
struct limpet_counts limpet_counts_unscaled(const struct limpet_counts *counts,
					    struct limpet_scale scale);
/* One recorded block of `size` bytes, and the others that it represents. */
struct limpet_scaled_block {
	uint64_t blocks, bytes;
};
/* `period`: of sampling; 0: it represents only itself. */
struct limpet_scaled_block limpet_scale_block(uint64_t size, uint64_t period,
					      struct limpet_scale scale);

/* In the order of enum limpet_trace_total. */
void limpet_totals_list(const struct limpet_totals *totals, uint64_t ret_list[LIMPET_TOTAL_COUNT]);
/* The figure with that number. */
uint64_t *limpet_totals_at(struct limpet_totals *totals, enum limpet_trace_total which);

/* Rounds to the nearest integer; 0 for less or for NaN, and 2^62 for more: a trace may contain any
 * number. */
static inline uint64_t limpet_rounded(double value)
{
	return value > 0 ? (uint64_t)llround(value < 0x1p62 ? value : 0x1p62) : 0;
}

#endif
