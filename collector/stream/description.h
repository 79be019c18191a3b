/* Reads descriptions of stacks in the agent's chunks (LIMPET_EVENT_STACK in common/wire.h): copies
 * them out of the shared memory, checks them, and adds them to the tree of stacks. */
#ifndef LIMPET_COLLECTOR_STREAM_DESCRIPTION_H
#define LIMPET_COLLECTOR_STREAM_DESCRIPTION_H

#include <stdbool.h>
#include <stdint.h>

#include "collector/stream/stack_tree.h"
#include "common/wire.h"

/* The description before, in the same chunk, with which the next one may share frames. All 0 at the
 * start of a chunk. */
struct limpet_description_base {
	uint32_t node;  /* 0: there was no room for it */
	uint32_t depth; /* frames */
};

struct limpet_description {
	uint32_t number;
	uint32_t count;  /* words that follow the head */
	uint32_t shared; /* frames; of an owner's description: the allocator */
	uint32_t flags;  /* LIMPET_STACK_* */
	uint64_t words[LIMPET_STACK_WORDS - LIMPET_STACK_HEAD_WORDS];
};

/* Copies the description at `at`, where `bytes` bytes are readable. Returns its length in bytes; 0:
 * there is none, or it is longer. */
uint32_t limpet_description_read(const uint8_t *at, uint32_t bytes, struct limpet_description *ret);
/* The number of the stack to which an owner's description refers; 0: it is another description. */
uint32_t limpet_description_below(const struct limpet_description *description);
/* Adds the stack to the tree under its number, and makes it the base of the next one. False: it is
 * invalid, and nothing changes. If there is no room, its number gets LIMPET_STACK_LOST. */
bool limpet_description_enter(const struct limpet_description *description,
			      struct limpet_stack_tree *tree, struct limpet_description_base *base);

#endif
