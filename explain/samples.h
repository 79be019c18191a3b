/* Pages of no known owner, of which an allocator that was found has to explain some. */
#ifndef LIMPET_EXPLAIN_SAMPLES_H
#define LIMPET_EXPLAIN_SAMPLES_H

#include "explain/memory_ranges.h"

#define LIMPET_SAMPLES 16u
/* All of them are in one range of that size and alignment. */
#define LIMPET_SAMPLES_SHIFT 30u

struct limpet_samples {
	uint64_t list[LIMPET_SAMPLES]; /* sorted */
	size_t count;                  /* 0: too little memory is of no known owner */
};
/* Takes them evenly from the GiB that has most memory of no known owner. */
void limpet_samples_choose(const struct limpet_memory_ranges *ranges,
			   struct limpet_samples *ret_samples);

#endif
