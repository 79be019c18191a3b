#include "explain/reach/reach_graph.h"

#include <stdlib.h>

#include "common/array.h"
#include "explain/reach/large_array.h"

#define PAGE ((uint64_t)4096)
#define HASHED_WORDS 8u

void limpet_reach_graph_done(struct limpet_reach_graph *graph)
{
	limpet_block_table_done(&graph->blocks);
	free(graph->hashes);
	free(graph->first);
	free(graph->edges);
	free(graph->holds);
	*graph = (struct limpet_reach_graph){0};
}

int limpet_reach_graph_begin(struct limpet_reach_graph *graph)
{
	graph->first = limpet_large_new(graph->blocks.count + 1, sizeof(*graph->first));
	graph->hashes = limpet_large_new(graph->blocks.count + 1, sizeof(*graph->hashes));
	return graph->first && graph->hashes ? 0 : -ENOMEM;
}

uint32_t limpet_reach_hash_at(uint64_t start, const uint64_t *words, size_t count)
{
	const size_t in_page = (size_t)(PAGE - start % PAGE) / 8;
	uint64_t hash = UINT64_C(0xcbf29ce484222325);

	for (size_t i = 0; i < count && i < HASHED_WORDS && i < in_page; i++)
		hash = (hash ^ words[i]) * UINT64_C(0x9e3779b97f4a7c15) ^ hash >> 29;
	return (uint32_t)(hash >> 32) | 1;
}

static void fill_first(struct limpet_reach_graph *graph, size_t up_to)
{
	while (graph->filled < up_to)
		graph->first[graph->filled++] = (uint32_t)graph->edge_count;
}

void limpet_reach_graph_end(struct limpet_reach_graph *graph)
{
	fill_first(graph, graph->blocks.count + 1);
}

static bool is_inside(const struct limpet_block_table *blocks, uint32_t block, uint64_t address)
{
	return address - blocks->starts[block] >= LIMPET_REACH_START_BYTES;
}

/* ------------------------------------------------------------------ from blocks */

static int add_edge(struct limpet_reach_graph *graph, uint32_t from, uint32_t to, bool inside)
{
	const uint32_t edge = inside ? to | LIMPET_EDGE_INSIDE : to;
	const size_t count = graph->edge_count;

	if (to == from || (count > graph->first[from] && graph->edges[count - 1] == edge))
		return 0;
	if (count == LIMPET_REACH_EDGES_LIMIT) {
		graph->is_cut = true;
		graph->blocks.flags[to] |= LIMPET_BLOCK_ROOT_START;
		return 0;
	}
	if (count == graph->edge_capacity) {
		if (limpet_reserve(&graph->edges, &graph->edge_capacity, count + 1,
				   sizeof(*graph->edges)) < 0 ||
		    !graph->edges)
			return -ENOMEM;
		limpet_large_advise(graph->edges, graph->edge_capacity * sizeof(*graph->edges));
	}
	graph->edges[graph->edge_count++] = edge;
	return 0;
}

static int add_words(struct limpet_reach_graph *graph, uint32_t from, const uint64_t *words,
		     size_t count)
{
	const uint64_t low = graph->blocks.low, span = graph->blocks.high - low;

	for (size_t i = 0; i < count; i++) {
		const uint64_t address = words[i] & LIMPET_REACH_ADDRESS_MASK;
		uint32_t to;
		int error;

		if (address - low > span)
			continue;
		to = limpet_block_table_pointed(&graph->blocks, address);
		if (to == LIMPET_NO_BLOCK)
			continue;
		error = add_edge(graph, from, to, is_inside(&graph->blocks, to, address));
		if (error)
			return error;
	}
	return 0;
}

static void note_head(struct limpet_reach_graph *graph, uint32_t block, const uint64_t *words,
		      size_t count)
{
	graph->hashes[block] = limpet_reach_hash_at(graph->blocks.starts[block], words, count);
	if (count > 1 && limpet_cache_keys_have(&graph->keys, words[1]))
		graph->blocks.flags[block] |= LIMPET_BLOCK_SEEN;
}

static int add_heap(struct limpet_reach_graph *graph, uint64_t address, const uint64_t *words,
		    size_t count)
{
	const struct limpet_block_table *blocks = &graph->blocks;
	const uint64_t end = address + 8 * count;
	int error = 0;

	for (size_t i = limpet_block_table_from(blocks, address);
	     i < blocks->count && blocks->starts[i] < end && !error; i++) {
		const uint64_t block_end = limpet_block_end(blocks, (uint32_t)i);
		const uint64_t from = blocks->starts[i] > address ? blocks->starts[i] : address;
		const uint64_t to = block_end < end ? block_end : end;

		fill_first(graph, i + 1);
		if (from == blocks->starts[i])
			note_head(graph, (uint32_t)i, words + (from - address) / 8,
				  (size_t)(to - from) / 8);
		error = add_words(graph, (uint32_t)i, words + (from - address) / 8,
				  (size_t)(to - from) / 8);
	}
	return error;
}

/* ------------------------------------------------------------------ from elsewhere */

static int add_hold(struct limpet_reach_graph *graph, const struct limpet_reach_hold *hold)
{
	if (graph->hold_count ==
	    (graph->keeps_all_holds ? LIMPET_REACH_ALL_HOLDS_LIMIT : LIMPET_REACH_HOLDS_LIMIT)) {
		graph->holds_are_cut = true;
		return 0;
	}
	if (limpet_reserve(&graph->holds, &graph->hold_capacity, graph->hold_count + 1,
			   sizeof(*graph->holds)) < 0 ||
	    !graph->holds)
		return -ENOMEM;
	graph->holds[graph->hold_count++] = *hold;
	return 0;
}

/* The allocator itself, in a call that makes or frees a block, may know it by the head of its
 * chunk. */
static void note_chunk(struct limpet_reach_graph *graph, uint64_t address)
{
	const uint64_t start = address + LIMPET_REACH_CHUNK_BYTES;
	const uint32_t block = limpet_block_table_find(&graph->blocks, start);

	if (block != LIMPET_NO_BLOCK && graph->blocks.starts[block] == start)
		graph->blocks.flags[block] |= LIMPET_BLOCK_STACK_START;
}

static int add_stack(struct limpet_reach_graph *graph, uint64_t at, const uint64_t *words,
		     size_t count)
{
	struct limpet_block_table *blocks = &graph->blocks;
	int error = 0;

	for (size_t i = 0; i < count && !error; i++) {
		const uint64_t address = words[i] & LIMPET_REACH_ADDRESS_MASK;
		const uint32_t to = limpet_block_table_pointed(blocks, address);

		if (address % 16 == 0)
			note_chunk(graph, address);
		if (to == LIMPET_NO_BLOCK)
			continue;
		blocks->flags[to] |= is_inside(blocks, to, address) ? LIMPET_BLOCK_STACK_INSIDE
								    : LIMPET_BLOCK_STACK_START;
		error = add_hold(graph, &(struct limpet_reach_hold){
						.address = at + 8 * i,
						.block = to,
						.kind = LIMPET_SEARCHED_STACK,
						.is_inside = is_inside(blocks, to, address)});
	}
	return error;
}

static int add_roots(struct limpet_reach_graph *graph, const struct limpet_search_range *range,
		     uint64_t at, const uint64_t *words, size_t count)
{
	struct limpet_block_table *blocks = &graph->blocks;
	const uint64_t low = blocks->low, span = blocks->high - low;
	int error = 0;

	for (size_t i = 0; i < count && !error; i++) {
		const uint64_t address = words[i] & LIMPET_REACH_ADDRESS_MASK;
		uint32_t to;

		if (address - low > span)
			continue;
		to = limpet_block_table_pointed(blocks, address);
		if (to == LIMPET_NO_BLOCK)
			continue;
		blocks->flags[to] |= is_inside(blocks, to, address) ? LIMPET_BLOCK_ROOT_INSIDE
								    : LIMPET_BLOCK_ROOT_START;
		if (graph->keeps_all_holds)
			error = add_hold(graph,
					 &(struct limpet_reach_hold){
						 .address = at + 8 * i,
						 .block = to,
						 .kind = (uint8_t)range->kind,
						 .is_inside = is_inside(blocks, to, address)});
	}
	return error;
}

/* What lies between the known blocks may be others. */
static int add_mixed(struct limpet_reach_graph *graph, const struct limpet_search_range *range,
		     uint64_t address, const uint64_t *words, size_t count)
{
	const struct limpet_block_table *blocks = &graph->blocks;
	const uint64_t end = address + 8 * count;
	int error = 0;

	for (uint64_t at = address, next; !error && limpet_block_table_gap(blocks, &at, end, &next);
	     at = next)
		error = add_roots(graph, range, at, words + (at - address) / 8,
				  (size_t)(next - at) / 8);
	return error ? error : add_heap(graph, address, words, count);
}

int limpet_reach_graph_words(void *context, const struct limpet_search_range *range,
			     uint64_t address, const uint64_t *words, size_t count)
{
	struct limpet_reach_graph *graph = context;

	if (range->kind == LIMPET_SEARCHED_HEAP)
		return add_heap(graph, address, words, count);
	if (range->kind == LIMPET_SEARCHED_MIXED)
		return add_mixed(graph, range, address, words, count);
	if (range->kind == LIMPET_SEARCHED_STACK)
		return add_stack(graph, address, words, count);
	return add_roots(graph, range, address, words, count);
}
