/* Which blocks of a graph can be reached, and from where. */
#ifndef LIMPET_EXPLAIN_REACH_REACH_MARKS_H
#define LIMPET_EXPLAIN_REACH_REACH_MARKS_H

#include "explain/reach/reach_graph.h"

enum limpet_reach_class {
	LIMPET_REACH_NONE,      /* only before limpet_reach_marks() */
	LIMPET_REACH_HELD,      /* by pointers to starts of blocks, from a root that is no stack */
	LIMPET_REACH_POSSIBLY,  /* only by way of an interior pointer */
	LIMPET_REACH_STACK,     /* by pointers to starts, but only from a stack */
	LIMPET_REACH_DIRECTLY,  /* lost, and no other lost block leads to it */
	LIMPET_REACH_INDIRECTLY /* lost, and one does */
};
static inline enum limpet_reach_class limpet_block_class(const struct limpet_reach_graph *graph,
							 uint32_t block)
{
	return (enum limpet_reach_class)(graph->blocks.flags[block] >> LIMPET_BLOCK_CLASS_SHIFT);
}

static inline bool limpet_block_is_lost(const struct limpet_reach_graph *graph, uint32_t block)
{
	return limpet_block_class(graph, block) >= LIMPET_REACH_DIRECTLY;
}
static inline void limpet_block_set_class(struct limpet_reach_graph *graph, uint32_t block,
					  enum limpet_reach_class class)
{
	uint8_t *flags = &graph->blocks.flags[block];

	*flags = (uint8_t)((*flags & ((1u << LIMPET_BLOCK_CLASS_SHIFT) - 1)) |
			   (unsigned)class << LIMPET_BLOCK_CLASS_SHIFT);
}

/* Gives each block its class. Of lost blocks that lead to each other, to which no other one leads,
 * one is lost directly. Blocks with LIMPET_BLOCK_SEEN are not judged: they count as held. 0 or
 * -ENOMEM, after which the graph is of no use. Takes up to 12 bytes a block.
 */
int limpet_reach_marks(struct limpet_reach_graph *graph) LIMPET_MUST_CHECK;

#endif
