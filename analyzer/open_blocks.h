/* Blocks that are allocated at a point of a replay, told apart by stack, size, time and thread:
 * those that are alike in all of it are one entry with a count. Internal to replay.c. */
#ifndef LIMPET_ANALYZER_OPEN_BLOCKS_H
#define LIMPET_ANALYZER_OPEN_BLOCKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"

struct limpet_open_block {
	uint64_t size, time_ns; /* of the allocation */
	uint32_t node, tid;
	bool sampled; /* stands for more than itself */
};
struct limpet_open_slot;
struct limpet_open_blocks {
	struct limpet_open_slot *slots;
	size_t room, used; /* room is a power of two, or 0 */
};

void limpet_open_blocks_done(struct limpet_open_blocks *blocks);
/* -ENOMEM. */
int limpet_open_blocks_add(struct limpet_open_blocks *blocks,
			   const struct limpet_open_block *block) LIMPET_MUST_CHECK;
/* Takes one out that has the stack, size and time of `like` and was sampled or not as it was, and
 * its thread if one does. False: there is none. */
bool limpet_open_blocks_take(struct limpet_open_blocks *blocks,
			     const struct limpet_open_block *like,
			     struct limpet_open_block *ret_block);
/* Those that are alike from entry `*at` on, which is set behind them; answers how many they are,
 * 0: no more. */
uint64_t limpet_open_blocks_next(const struct limpet_open_blocks *blocks, size_t *at,
				 struct limpet_open_block *ret_block);

#endif
