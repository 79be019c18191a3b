/* Blocks that are allocated at a point of a replay, told apart by stack, size and time. Internal to
 * replay.c and the exporters. */
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
struct limpet_open_blocks {
	struct limpet_open_block *slots;
	uint8_t *used;
	size_t room, count; /* room is a power of two, or 0 */
};

void limpet_open_blocks_done(struct limpet_open_blocks *blocks);
/* -ENOMEM. */
int limpet_open_blocks_add(struct limpet_open_blocks *blocks,
			   const struct limpet_open_block *block) LIMPET_MUST_CHECK;
/* Takes one out that has the stack, size and time of `like`, and its thread if one does. False:
 * there is none. */
bool limpet_open_blocks_take(struct limpet_open_blocks *blocks,
			     const struct limpet_open_block *like,
			     struct limpet_open_block *ret_block);

#endif
