#include "explain/reach/reach_clear.h"

#include <stdlib.h>

struct clearing {
	struct limpet_reach_graph *graph;
	uint32_t *stack;
	size_t depth;
};

static void clear(struct clearing *clearing, uint32_t block)
{
	struct limpet_reach_graph *graph = clearing->graph;

	if (block == LIMPET_NO_BLOCK || !limpet_block_is_lost(graph, block))
		return;
	limpet_block_set_class(graph, block, LIMPET_REACH_HELD);
	clearing->stack[clearing->depth++] = block;
	while (clearing->depth) {
		const uint32_t from = clearing->stack[--clearing->depth];

		for (uint32_t i = graph->first[from]; i < graph->first[from + 1]; i++) {
			const uint32_t to = limpet_edge_to(graph->edges[i]);

			if (!limpet_block_is_lost(graph, to))
				continue;
			limpet_block_set_class(graph, to, LIMPET_REACH_HELD);
			clearing->stack[clearing->depth++] = to;
		}
	}
}

/* On a stack, or in a register, the allocator may have a block's chunk (reach_graph.c). */
static void clear_words(struct clearing *clearing, const uint64_t *words, size_t count,
			bool of_stack)
{
	const struct limpet_block_table *blocks = &clearing->graph->blocks;

	for (size_t i = 0; i < count; i++) {
		const uint64_t address = words[i] & LIMPET_REACH_ADDRESS_MASK;

		clear(clearing, limpet_block_table_pointed(blocks, address));
		if (of_stack)
			clear(clearing,
			      limpet_block_table_find(blocks, address + LIMPET_REACH_CHUNK_BYTES));
	}
}

static void clear_heap(struct clearing *clearing, uint64_t address, const uint64_t *words,
		       size_t count)
{
	const struct limpet_block_table *blocks = &clearing->graph->blocks;
	const uint64_t end = address + 8 * count;

	for (size_t i = limpet_block_table_from(blocks, address);
	     i < blocks->count && blocks->starts[i] < end; i++) {
		const uint64_t block_end = limpet_block_end(blocks, (uint32_t)i);
		const uint64_t from = blocks->starts[i] > address ? blocks->starts[i] : address;
		const uint64_t to = block_end < end ? block_end : end;
		const uint64_t *of_block = words + (from - address) / 8;

		if (!limpet_block_is_lost(clearing->graph, (uint32_t)i))
			clear_words(clearing, of_block, (size_t)(to - from) / 8, false);
		else if (from == blocks->starts[i] &&
			 limpet_reach_hash_at(from, of_block, (size_t)(to - from) / 8) !=
				 clearing->graph->hashes[i])
			clear(clearing, (uint32_t)i);
	}
}

/* What lies between blocks. */
static void clear_gaps(struct clearing *clearing, uint64_t address, const uint64_t *words,
		       size_t count)
{
	const struct limpet_block_table *blocks = &clearing->graph->blocks;
	const uint64_t end = address + 8 * count;

	for (uint64_t at = address, next; limpet_block_table_gap(blocks, &at, end, &next);
	     at = next)
		clear_words(clearing, words + (at - address) / 8, (size_t)(next - at) / 8, false);
}

static int visit(void *context, const struct limpet_search_range *range, uint64_t address,
		 const uint64_t *words, size_t count)
{
	struct clearing *clearing = context;

	if (range->kind == LIMPET_SEARCHED_MIXED)
		clear_gaps(clearing, address, words, count);
	if (range->kind == LIMPET_SEARCHED_HEAP || range->kind == LIMPET_SEARCHED_MIXED)
		clear_heap(clearing, address, words, count);
	else
		clear_words(clearing, words, count, range->kind == LIMPET_SEARCHED_STACK);
	return 0;
}

int limpet_reach_clear(struct limpet_reach_graph *graph, const uint64_t *registers, size_t count,
		       const struct limpet_frozen_copy *copy,
		       const struct limpet_search_ranges *ranges)
{
	struct clearing clearing = {
		.graph = graph,
		.stack = reallocarray(NULL, graph->blocks.count + 1, sizeof(*clearing.stack))};
	int error;

	if (!clearing.stack)
		return -ENOMEM;
	clear_words(&clearing, registers, count, true);
	error = limpet_frozen_copy_visit(copy, ranges, visit, &clearing);
	free(clearing.stack);
	return error;
}
