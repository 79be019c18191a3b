/* Descriptions of stacks, as they lie in the agent's chunks (LIMPET_EVENT_STACK in common/wire.h):
 * copied out of the shared memory, checked, and put into the tree of stacks. */
#ifndef LIMPET_COLLECTOR_DESCRIPTION_H
#define LIMPET_COLLECTOR_DESCRIPTION_H

#include <stdbool.h>
#include <stdint.h>

#include "collector/stack_tree.h"
#include "common/wire.h"

/* The description before, in the same chunk: what the next one may share frames with. All 0 at the
 * beginning of a chunk. */
struct limpet_description_base {
	uint32_t node;  /* 0: there was no room for it */
	uint32_t depth; /* frames */
};

struct limpet_description {
	uint32_t number;
	uint32_t count;  /* words that follow the head */
	uint32_t shared; /* frames; of an owner's description: the allocator */
	uint32_t flags;  /* LIMPET_STACK_* */
	uint64_t words[2 * LIMPET_STACK_FRAMES];
};

/* Copies the description that begins there. Returns the bytes that it takes; 0: what is there is
 * none, or not `bytes` long. */
uint32_t limpet_description_read(const uint8_t *at, uint32_t bytes, struct limpet_description *ret);
/* The number of the stack that an owner's description is about; 0: it is another one. */
uint32_t limpet_description_below(const struct limpet_description *description);
/* Puts the stack into the tree under its number, and makes it the base of the next one. False: it
 * makes no sense, and changes nothing. Where there is no room its number stands for
 * LIMPET_STACK_LOST. */
bool limpet_description_enter(const struct limpet_description *description,
			      struct limpet_stack_tree *tree, struct limpet_description_base *base);

#endif
