/* Blocks that are allocated at a point of a replay, by stack, size, time and thread: blocks that
 * are equal in all of these are one entry with a count. Internal to replay.c. */
#ifndef LIMPET_ANALYZER_MODEL_OPEN_BLOCKS_H
#define LIMPET_ANALYZER_MODEL_OPEN_BLOCKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"

struct limpet_open_block {
	uint64_t size, tick; /* of the allocation */
	uint32_t node, thread;
	bool sampled; /* represents more than itself */
};
/* Open addressing, linear probing. The hash is of all but the thread and `sampled`: in these alone
 * few blocks of one time differ. */
struct limpet_open_slot {
	uint64_t size, tick;
	uint32_t node, thread;
	uint32_t hash;
	uint32_t count; /* times 2, and 1 more if sampled; 0: a free slot */
};
_Static_assert(sizeof(struct limpet_open_slot) == 32, "two slots a cache line");
struct limpet_open_blocks {
	struct limpet_open_slot *slots;
	size_t capacity, used; /* capacity is a power of two, or 0 */
};

void limpet_open_blocks_done(struct limpet_open_blocks *blocks);

/* What stack and size contribute to the hash. */
static inline uint64_t limpet_open_seed(uint32_t node, uint64_t size)
{
	uint64_t seed = node * 0x9e3779b97f4a7c15ull;

	seed = (seed ^ size) * 0xff51afd7ed558ccdull;
	return seed ^ seed >> 32;
}

static inline uint32_t limpet_open_hash(uint64_t seed, uint64_t tick)
{
	return (uint32_t)((seed ^ tick) * 0xc4ceb9fe1a85ec53ull >> 32);
}

/* Prefetches the slot that the next two functions access. */
static inline void limpet_open_blocks_prefetch(const struct limpet_open_blocks *blocks,
					       uint32_t hash)
{
	if (blocks->capacity)
		__builtin_prefetch(blocks->slots + (hash & (blocks->capacity - 1)), 1);
}

/* -ENOMEM. */
int limpet_open_blocks_add(struct limpet_open_blocks *blocks, const struct limpet_open_block *block,
			   uint32_t hash) LIMPET_MUST_CHECK;
/* Removes one that is equal to `like`. False: there is none. */
bool limpet_open_blocks_remove(struct limpet_open_blocks *blocks,
			       const struct limpet_open_block *like, uint32_t hash);
/* The next entry from slot `*at` on, which is set to the slot after it; returns the entry's number
 * of blocks, 0: no more. */
uint64_t limpet_open_blocks_next(const struct limpet_open_blocks *blocks, size_t *at,
				 struct limpet_open_block *ret_block);

#endif
