/* Who points to whom among the blocks of a process: read from copies of its memory, conservatively,
 * since any aligned word may be a pointer.
 *
 * A word counts as a pointer without its upper 16 bits and its lowest three, in which programs keep
 * tags. One to the start of a block, or to its first words, holds the block: in front of what the
 * program uses may be an array's count, the head of a collector, the length of a string. One to
 * anything else in the block is an interior pointer. */
#ifndef LIMPET_EXPLAIN_REACH_REACH_GRAPH_H
#define LIMPET_EXPLAIN_REACH_REACH_GRAPH_H

#include "explain/reach/block_table.h"
#include "explain/reach/search_ranges.h"

/* A pointer less than this behind the start holds the block: see above. */
#define LIMPET_REACH_START_BYTES 24u
/* What a word has of an address. */
#define LIMPET_REACH_ADDRESS_MASK UINT64_C(0x0000ffffffffffff)
/* In front of a block is the head of its chunk. */
#define LIMPET_REACH_CHUNK_BYTES 16u
#define LIMPET_REACH_EDGES_LIMIT ((size_t)128 << 20) /* 512 MiB */
#define LIMPET_REACH_HOLDS_LIMIT ((size_t)64 << 10)
#define LIMPET_REACH_ALL_HOLDS_LIMIT ((size_t)16 << 20) /* 256 MiB */

/* Flags of a block: what points to it from outside of blocks, and what it is. */
enum {
	LIMPET_BLOCK_ROOT_START = 1,
	LIMPET_BLOCK_ROOT_INSIDE = 2,
	LIMPET_BLOCK_STACK_START = 4,
	LIMPET_BLOCK_STACK_INSIDE = 8,
	LIMPET_BLOCK_SEEN = 16, /* of reach_marks.c */
	LIMPET_BLOCK_CLASS_SHIFT = 5
};

/* A word outside of blocks that points to one. */
struct limpet_reach_hold {
	uint64_t address;
	uint32_t block;
	uint8_t kind;      /* enum limpet_searched */
	uint8_t is_inside; /* an interior pointer */
	uint8_t is_out;    /* for the caller; 0 */
};

/* Begins as all zeros. 8 bytes a block, and 4 an edge. */
struct limpet_reach_graph {
	struct limpet_block_table blocks;
	uint32_t *hashes; /* of each block's first words; 0: they were not read */
	uint32_t *first;  /* of each block's edges; one more than there are blocks */
	/* From the blocks in their order: the number of the block that is pointed to, and
	 * LIMPET_EDGE_INSIDE. */
	uint32_t *edges;
	size_t edge_count, edge_capacity;
	struct limpet_cache_keys keys; /* a block with one of these is free by now: not judged */
	bool is_cut; /* there were more edges: what they lead to counts as held by a root */
	struct limpet_reach_hold *holds; /* from stacks, the first ones */
	size_t hold_count, hold_capacity;
	bool keeps_all_holds; /* set before words are added: those from other memory, too */
	bool holds_are_cut;   /* there were more */
	size_t filled;        /* private: blocks whose first edge is known */
};
#define LIMPET_EDGE_INSIDE UINT32_C(0x80000000)
static inline uint32_t limpet_edge_to(uint32_t edge)
{
	return edge & ~LIMPET_EDGE_INSIDE;
}
/* Of the words of a block that starts at this address, of which `count` are known: up to eight, and
 * to the end of the page, so that it is the same however many were read. Never 0. */
uint32_t limpet_reach_hash_at(uint64_t start, const uint64_t *words, size_t count);
void limpet_reach_graph_done(struct limpet_reach_graph *graph);

/* After the table of blocks is complete. 0 or -ENOMEM. */
int limpet_reach_graph_begin(struct limpet_reach_graph *graph) LIMPET_MUST_CHECK;
/* Words that were read of a range, `count` from `address` on; those of the heap and of mixed ranges
 * in ascending order, after each other. A struct limpet_reach_graph. 0 or -ENOMEM. */
int limpet_reach_graph_words(void *graph, const struct limpet_search_range *range, uint64_t address,
			     const uint64_t *words, size_t count) LIMPET_MUST_CHECK;
/* After the last ones. */
void limpet_reach_graph_end(struct limpet_reach_graph *graph);

#endif
