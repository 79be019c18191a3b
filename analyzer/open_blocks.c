#include "analyzer/open_blocks.h"

#include <errno.h>
#include <stdlib.h>

void limpet_open_blocks_done(struct limpet_open_blocks *blocks)
{
	free(blocks->slots);
	free(blocks->used);
	*blocks = (struct limpet_open_blocks){0};
}

static size_t home_of(const struct limpet_open_blocks *blocks,
		      const struct limpet_open_block *block)
{
	uint64_t hash = block->node * 0x9e3779b97f4a7c15ull;

	hash = (hash ^ block->size) * 0xff51afd7ed558ccdull;
	hash = (hash ^ hash >> 32 ^ block->time_ns) * 0xc4ceb9fe1a85ec53ull;
	return (hash ^ hash >> 29) & (blocks->room - 1);
}

static void insert(struct limpet_open_blocks *blocks, const struct limpet_open_block *block)
{
	size_t at = home_of(blocks, block);

	while (blocks->used[at])
		at = (at + 1) & (blocks->room - 1);
	blocks->slots[at] = *block;
	blocks->used[at] = 1;
	blocks->count++;
}

int limpet_open_blocks_add(struct limpet_open_blocks *blocks, const struct limpet_open_block *block)
{
	if (2 * (blocks->count + 1) > blocks->room) {
		struct limpet_open_blocks larger = {.room = blocks->room ? 2 * blocks->room : 4096};

		larger.slots = reallocarray(NULL, larger.room, sizeof(*larger.slots));
		larger.used = calloc(larger.room, sizeof(*larger.used));
		if (!larger.slots || !larger.used) {
			limpet_open_blocks_done(&larger);
			return -ENOMEM;
		}
		for (size_t i = 0; i < blocks->room; i++)
			if (blocks->used[i])
				insert(&larger, &blocks->slots[i]);
		limpet_open_blocks_done(blocks);
		*blocks = larger;
	}
	insert(blocks, block);
	return 0;
}

/* What follows moves up, so that no search ends early. */
static void clear(struct limpet_open_blocks *blocks, size_t at)
{
	const size_t mask = blocks->room - 1;
	size_t next = at;

	for (;;) {
		size_t home;

		next = (next + 1) & mask;
		if (!blocks->used[next])
			break;
		home = home_of(blocks, &blocks->slots[next]);
		if (((next - home) & mask) < ((next - at) & mask))
			continue;
		blocks->slots[at] = blocks->slots[next];
		at = next;
	}
	blocks->used[at] = 0;
	blocks->count--;
}

bool limpet_open_blocks_take(struct limpet_open_blocks *blocks,
			     const struct limpet_open_block *like,
			     struct limpet_open_block *ret_block)
{
	size_t found = SIZE_MAX;

	if (!blocks->room)
		return false;
	for (size_t at = home_of(blocks, like); blocks->used[at];
	     at = (at + 1) & (blocks->room - 1)) {
		const struct limpet_open_block *block = &blocks->slots[at];

		if (block->node != like->node || block->size != like->size ||
		    block->time_ns != like->time_ns)
			continue;
		if (found == SIZE_MAX || block->tid == like->tid)
			found = at;
		if (block->tid == like->tid)
			break;
	}
	if (found == SIZE_MAX)
		return false;
	*ret_block = blocks->slots[found];
	clear(blocks, found);
	return true;
}
