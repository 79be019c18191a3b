#include "explain/samples.h"

#define PAGE ((uint64_t)4096)
#define RANGE_BYTES ((uint64_t)1 << LIMPET_SAMPLES_SHIFT)
#define LEAST_UNKNOWN_BYTES ((uint64_t)1 << 20)

/* A program may name what its allocator has mapped. */
static bool is_of_no_owner(const struct limpet_memory_range *range)
{
	return range->account == LIMPET_MEMORY_UNKNOWN || range->account == LIMPET_MEMORY_NAMED;
}

/* The bytes of such ranges in the GiB that begins at `base`. */
static uint64_t unknown_bytes(const struct limpet_memory_ranges *ranges, uint64_t base)
{
	const uint64_t end = base + RANGE_BYTES;
	uint64_t sum = 0;

	for (size_t i = limpet_memory_ranges_from(ranges, base);
	     i < ranges->count && ranges->list[i].start < end; i++) {
		const struct limpet_memory_range *range = &ranges->list[i];

		if (is_of_no_owner(range))
			sum += (range->end < end ? range->end : end) -
			       (range->start > base ? range->start : base);
	}
	return sum;
}

/* By the starts of ranges. */
static uint64_t best_base(const struct limpet_memory_ranges *ranges, uint64_t *ret_bytes)
{
	uint64_t best = 0, last = UINT64_MAX;

	*ret_bytes = 0;
	for (size_t i = 0; i < ranges->count; i++) {
		const uint64_t base = ranges->list[i].start & ~(RANGE_BYTES - 1);
		uint64_t bytes;

		if (base == last || !is_of_no_owner(&ranges->list[i]))
			continue;
		last = base;
		bytes = unknown_bytes(ranges, base);
		if (bytes > *ret_bytes) {
			*ret_bytes = bytes;
			best = base;
		}
	}
	return best;
}

void limpet_samples_choose(const struct limpet_memory_ranges *ranges,
			   struct limpet_samples *ret_samples)
{
	uint64_t bytes, seen = 0, step;
	const uint64_t base = best_base(ranges, &bytes), end = base + RANGE_BYTES;

	ret_samples->count = 0;
	if (bytes < LEAST_UNKNOWN_BYTES)
		return;
	step = bytes / LIMPET_SAMPLES / PAGE * PAGE;
	for (size_t i = limpet_memory_ranges_from(ranges, base); i < ranges->count; i++) {
		const struct limpet_memory_range *range = &ranges->list[i];
		const uint64_t start = range->start > base ? range->start : base;
		const uint64_t stop = range->end < end ? range->end : end;

		if (!is_of_no_owner(range) || start >= stop)
			continue;
		for (size_t *k = &ret_samples->count; *k < LIMPET_SAMPLES; (*k)++) {
			if (*k * step >= seen + stop - start)
				break;
			ret_samples->list[*k] = start + *k * step - seen;
		}
		seen += stop - start;
	}
}
