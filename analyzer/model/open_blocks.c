#include "analyzer/model/open_blocks.h"

#include <errno.h>
#include <stdlib.h>

#define FIRST_ROOM 4096u
#define ONE 2u
#define SAMPLED 1u

void limpet_open_blocks_done(struct limpet_open_blocks *blocks)
{
	free(blocks->slots);
	*blocks = (struct limpet_open_blocks){0};
}

static bool is_alike(const struct limpet_open_slot *slot, const struct limpet_open_block *block,
		     uint32_t hash)
{
	return slot->hash == hash && slot->tick == block->tick && slot->size == block->size &&
	       slot->node == block->node && (slot->count & SAMPLED) == block->sampled;
}

static size_t next_of(const struct limpet_open_blocks *blocks, size_t at)
{
	return (at + 1) & (blocks->capacity - 1);
}

static bool grow(struct limpet_open_blocks *blocks)
{
	struct limpet_open_blocks larger = {.capacity = blocks->capacity ? 2 * blocks->capacity
									 : FIRST_ROOM,
					    .used = blocks->used};

	/* The hash has no more bits. */
	if (larger.capacity > UINT32_MAX)
		return blocks->used + 1 < blocks->capacity;
	larger.slots = calloc(larger.capacity, sizeof(*larger.slots));
	if (!larger.slots)
		return false;
	for (size_t i = 0; i < blocks->capacity; i++) {
		size_t at = blocks->slots[i].hash & (larger.capacity - 1);

		if (!blocks->slots[i].count)
			continue;
		while (larger.slots[at].count)
			at = next_of(&larger, at);
		larger.slots[at] = blocks->slots[i];
	}
	free(blocks->slots);
	*blocks = larger;
	return true;
}

int limpet_open_blocks_add(struct limpet_open_blocks *blocks, const struct limpet_open_block *block,
			   uint32_t hash)
{
	struct limpet_open_slot *slot;
	size_t at;

	if (2 * (blocks->used + 1) > blocks->capacity && !grow(blocks))
		return -ENOMEM;
	at = hash & (blocks->capacity - 1);
	for (slot = &blocks->slots[at]; slot->count; slot = &blocks->slots[at]) {
		if (is_alike(slot, block, hash) && slot->thread == block->thread &&
		    slot->count < UINT32_MAX - ONE) {
			slot->count += ONE;
			return 0;
		}
		at = next_of(blocks, at);
	}
	*slot = (struct limpet_open_slot){.size = block->size,
					  .tick = block->tick,
					  .node = block->node,
					  .thread = block->thread,
					  .hash = hash,
					  .count = ONE + (block->sampled ? SAMPLED : 0)};
	blocks->used++;
	return 0;
}

/* Later entries move up, so that no search ends early (Knuth 6.4, algorithm R). */
static void clear(struct limpet_open_blocks *blocks, size_t at)
{
	const size_t mask = blocks->capacity - 1;

	for (size_t next = next_of(blocks, at); blocks->slots[next].count;
	     next = next_of(blocks, next)) {
		size_t home = blocks->slots[next].hash & mask;

		if (((next - home) & mask) < ((next - at) & mask))
			continue;
		blocks->slots[at] = blocks->slots[next];
		at = next;
	}
	blocks->slots[at].count = 0;
	blocks->used--;
}

static struct limpet_open_block block_of(const struct limpet_open_slot *slot)
{
	return (struct limpet_open_block){.size = slot->size,
					  .tick = slot->tick,
					  .node = slot->node,
					  .thread = slot->thread,
					  .sampled = slot->count & SAMPLED};
}

bool limpet_open_blocks_remove(struct limpet_open_blocks *blocks,
			       const struct limpet_open_block *like, uint32_t hash)
{
	if (!blocks->capacity)
		return false;
	for (size_t at = hash & (blocks->capacity - 1); blocks->slots[at].count;
	     at = next_of(blocks, at)) {
		if (!is_alike(&blocks->slots[at], like, hash) ||
		    blocks->slots[at].thread != like->thread)
			continue;
		blocks->slots[at].count -= ONE;
		if (blocks->slots[at].count < ONE)
			clear(blocks, at);
		return true;
	}
	return false;
}

uint64_t limpet_open_blocks_next(const struct limpet_open_blocks *blocks, size_t *at,
				 struct limpet_open_block *ret_block)
{
	for (; *at < blocks->capacity; ++*at) {
		const struct limpet_open_slot *slot = &blocks->slots[*at];

		if (!slot->count)
			continue;
		++*at;
		*ret_block = block_of(slot);
		return slot->count / ONE;
	}
	return 0;
}
