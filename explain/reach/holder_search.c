#include "explain/reach/holder_search.h"

#include <stdlib.h>
#include <string.h>

#include "explain/reach/large_array.h"

/* Marks of a block. */
enum {
	TARGET = 1,
	REACHED = 2,
	NOT_TO_TARGETS = 4, /* its edges to targets are left out */
	HAS_GONE = 8        /* edges of it are gone */
};
/* What is_out of a hold says. */
enum { OUT_TO_TARGETS = 1, OUT_FOR_ALL };
/* A parent with this bit is a hold: there are no more of either. */
#define OF_HOLD UINT32_C(0x80000000)

void limpet_holder_search_done(struct limpet_holder_search *search)
{
	free(search->marks);
	free(search->parents);
	free(search->queue);
	*search = (struct limpet_holder_search){.graph = NULL};
}

int limpet_holder_search_begin(struct limpet_holder_search *search,
			       struct limpet_reach_graph *graph)
{
	const size_t room = graph->blocks.count + 1;

	search->graph = graph;
	for (size_t i = 0; i < graph->hold_count; i++)
		graph->holds[i].is_out = 0;
	search->marks = limpet_large_new(room, sizeof(*search->marks));
	search->parents = limpet_large_new(room, sizeof(*search->parents));
	search->queue = limpet_large_new(room, sizeof(*search->queue));
	return search->marks && search->parents && search->queue ? 0 : -ENOMEM;
}

void limpet_holder_search_add(struct limpet_holder_search *search, uint32_t block)
{
	if (search->marks[block] & TARGET)
		return;
	search->marks[block] |= TARGET;
	search->target_count++;
	search->target_bytes += limpet_block_bytes(&search->graph->blocks, block);
}

bool limpet_holder_search_is_target(const struct limpet_holder_search *search, uint32_t block)
{
	return search->marks[block] & TARGET;
}

static void forget(struct limpet_holder_search *search)
{
	for (size_t i = 0; i < search->graph->blocks.count; i++)
		search->marks[i] &= (uint8_t)~REACHED;
}

/* ------------------------------------------------------------------ ways */

/* What a way may use. */
struct kind {
	bool stacks, inside;
};

struct walk {
	struct limpet_holder_search *search;
	struct kind kind;
	size_t count;   /* in the queue */
	uint32_t found; /* a target, or LIMPET_NO_BLOCK */
};

static void reach(struct walk *walk, uint32_t block, uint32_t parent)
{
	uint8_t *mark = &walk->search->marks[block];

	if (*mark & REACHED)
		return;
	*mark |= REACHED;
	walk->search->parents[block] = parent;
	walk->search->queue[walk->count++] = block;
	if (*mark & TARGET)
		walk->found = block;
}

static void reach_from_words(struct walk *walk)
{
	const struct limpet_reach_graph *graph = walk->search->graph;

	for (size_t i = 0; i < graph->hold_count && walk->found == LIMPET_NO_BLOCK; i++) {
		const struct limpet_reach_hold *hold = &graph->holds[i];

		if (hold->is_out == OUT_FOR_ALL ||
		    (hold->is_out && walk->search->marks[hold->block] & TARGET))
			continue;
		if ((hold->kind != LIMPET_SEARCHED_STACK || walk->kind.stacks) &&
		    (!hold->is_inside || walk->kind.inside))
			reach(walk, hold->block, (uint32_t)i | OF_HOLD);
	}
}

static bool is_gone(const struct limpet_holder_search *search, uint32_t from, uint32_t to)
{
	for (size_t i = 0; i < search->gone_count; i++)
		if (search->gone[i].from == from && search->gone[i].to == to)
			return true;
	return false;
}

static void reach_from_block(struct walk *walk, uint32_t from)
{
	const struct limpet_holder_search *search = walk->search;
	const struct limpet_reach_graph *graph = search->graph;
	const uint8_t mark = search->marks[from];

	for (uint32_t i = graph->first[from];
	     i < graph->first[from + 1] && walk->found == LIMPET_NO_BLOCK; i++) {
		const uint32_t to = limpet_edge_to(graph->edges[i]);

		if (graph->edges[i] & LIMPET_EDGE_INSIDE && !walk->kind.inside)
			continue;
		if ((mark & NOT_TO_TARGETS && search->marks[to] & TARGET) ||
		    (mark & HAS_GONE && is_gone(search, from, to)))
			continue;
		reach(walk, to, from);
	}
}

/* To the first word, from its end. */
static int trace_back(const struct limpet_holder_search *search, uint32_t target,
		      struct limpet_holder_way *ret_way)
{
	struct limpet_holder_way way = {.count = 1};
	uint32_t parent;

	for (uint32_t at = target; !(search->parents[at] & OF_HOLD); at = search->parents[at])
		way.count++;
	way.blocks = reallocarray(NULL, way.count, sizeof(*way.blocks));
	if (!way.blocks)
		return -ENOMEM;
	parent = target;
	for (size_t i = way.count; i-- > 0; parent = search->parents[parent])
		way.blocks[i] = parent;
	way.hold = search->parents[way.blocks[0]] & ~OF_HOLD;
	*ret_way = way;
	return 1;
}

int limpet_holder_search_next(struct limpet_holder_search *search,
			      struct limpet_holder_way *ret_way)
{
	static const struct kind kinds[] = {
		{false, false}, {false, true}, {true, false}, {true, true}};

	if (!search->target_count)
		return 0;
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		struct walk walk = {.search = search, .kind = kinds[i], .found = LIMPET_NO_BLOCK};

		forget(search);
		reach_from_words(&walk);
		for (size_t at = 0; at < walk.count && walk.found == LIMPET_NO_BLOCK; at++)
			reach_from_block(&walk, search->queue[at]);
		if (walk.found != LIMPET_NO_BLOCK)
			return trace_back(search, walk.found, ret_way);
	}
	return 0;
}

void limpet_holder_search_leave_out_word(struct limpet_holder_search *search, size_t hold)
{
	search->graph->holds[hold].is_out = OUT_TO_TARGETS;
}

void limpet_holder_search_word_is_gone(struct limpet_holder_search *search, size_t hold)
{
	search->graph->holds[hold].is_out = OUT_FOR_ALL;
}

void limpet_holder_search_leave_out_block(struct limpet_holder_search *search, uint32_t block)
{
	search->marks[block] |= NOT_TO_TARGETS;
}

void limpet_holder_search_leave_out(struct limpet_holder_search *search, uint64_t start,
				    uint64_t end)
{
	struct limpet_reach_graph *graph = search->graph;

	for (size_t i = 0; i < graph->hold_count; i++)
		if (graph->holds[i].address >= start && graph->holds[i].address < end &&
		    !graph->holds[i].is_out)
			graph->holds[i].is_out = OUT_TO_TARGETS;
}

bool limpet_holder_search_is_gone(struct limpet_holder_search *search, uint32_t from, uint32_t to)
{
	if (search->gone_count == LIMPET_HOLDER_GONE_LIMIT)
		return false;
	search->gone[search->gone_count++] = (struct limpet_holder_edge){from, to};
	search->marks[from] |= HAS_GONE;
	return true;
}

/* ------------------------------------------------------------------ what is retained */

/* Over all edges, from the queue's blocks on; not into blocks with one of these marks. Returns what
 * the queue has in the end. */
static struct limpet_holder_amount flood(struct limpet_holder_search *search, size_t count,
					 unsigned stop)
{
	const struct limpet_reach_graph *graph = search->graph;
	struct limpet_holder_amount amount = {0};

	search->retained_targets = (struct limpet_holder_amount){0};
	for (size_t at = 0; at < count; at++) {
		const uint32_t from = search->queue[at];
		const uint64_t bytes = limpet_block_bytes(&graph->blocks, from);

		amount.blocks++;
		amount.bytes += bytes;
		if (search->marks[from] & TARGET) {
			search->retained_targets.blocks++;
			search->retained_targets.bytes += bytes;
		}
		for (uint32_t i = graph->first[from]; i < graph->first[from + 1]; i++) {
			const uint32_t to = limpet_edge_to(graph->edges[i]);

			if (search->marks[to] & (REACHED | stop))
				continue;
			search->marks[to] |= REACHED;
			search->queue[count++] = to;
		}
	}
	return amount;
}

static void put(struct limpet_holder_search *search, uint32_t block, size_t *count)
{
	if (search->marks[block] & REACHED)
		return;
	search->marks[block] |= REACHED;
	search->queue[(*count)++] = block;
}

/* If not all edges and words were kept: what they lead to is flagged. */
static void put_flagged(struct limpet_holder_search *search, size_t *count)
{
	const struct limpet_reach_graph *graph = search->graph;
	const unsigned flags = LIMPET_BLOCK_ROOT_START | LIMPET_BLOCK_ROOT_INSIDE |
			       LIMPET_BLOCK_STACK_START | LIMPET_BLOCK_STACK_INSIDE;

	for (size_t i = 0; i < graph->blocks.count; i++)
		if (graph->blocks.flags[i] & flags && !(search->marks[i] & TARGET))
			put(search, (uint32_t)i, count);
}

struct limpet_holder_amount limpet_holder_search_retained(struct limpet_holder_search *search)
{
	const struct limpet_reach_graph *graph = search->graph;
	size_t count = 0;

	forget(search);
	if (graph->is_cut || graph->holds_are_cut)
		put_flagged(search, &count);
	for (size_t i = 0; i < graph->hold_count; i++)
		if (!(search->marks[graph->holds[i].block] & TARGET))
			put(search, graph->holds[i].block, &count);
	(void)flood(search, count, TARGET);
	count = 0;
	for (size_t i = 0; i < graph->blocks.count; i++)
		if (search->marks[i] & TARGET)
			put(search, (uint32_t)i, &count);
	return flood(search, count, 0);
}

struct limpet_holder_amount limpet_holder_search_retained_by(struct limpet_holder_search *search,
							     uint64_t start, uint64_t end,
							     bool stacks_count)
{
	const struct limpet_reach_graph *graph = search->graph;
	size_t count = 0;

	forget(search);
	for (size_t i = 0; i < graph->hold_count; i++)
		if ((graph->holds[i].address < start || graph->holds[i].address >= end) &&
		    (stacks_count || graph->holds[i].kind != LIMPET_SEARCHED_STACK))
			put(search, graph->holds[i].block, &count);
	(void)flood(search, count, 0);
	count = 0;
	for (size_t i = 0; i < graph->hold_count; i++)
		if (graph->holds[i].address >= start && graph->holds[i].address < end)
			put(search, graph->holds[i].block, &count);
	return flood(search, count, 0);
}
