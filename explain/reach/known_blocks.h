/* Blocks that the caller knows, of whatever allocator: those of a capture. */
#ifndef LIMPET_EXPLAIN_REACH_KNOWN_BLOCKS_H
#define LIMPET_EXPLAIN_REACH_KNOWN_BLOCKS_H

#include <stddef.h>
#include <stdint.h>

struct limpet_known_block {
	uint64_t start, bytes; /* as requested */
};
struct limpet_known_blocks {
	const struct limpet_known_block *list; /* sorted by address */
	size_t count;
};

#endif
