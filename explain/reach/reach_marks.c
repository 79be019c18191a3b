#include "explain/reach/reach_marks.h"

#include <stdlib.h>

#include "explain/reach/large_array.h"

struct marking {
	struct limpet_reach_graph *graph;
	uint32_t *stack; /* blocks that have a class, and whose edges are still to be followed */
	size_t depth;
};

static void push(struct marking *marking, uint32_t block, enum limpet_reach_class class)
{
	limpet_block_set_class(marking->graph, block, class);
	marking->stack[marking->depth++] = block;
}

/* Of each block in the stack, and of those that are added, to those without a class. `any`: also
 * over interior pointers. */
static void flood(struct marking *marking, enum limpet_reach_class class, bool any)
{
	const struct limpet_reach_graph *graph = marking->graph;

	while (marking->depth) {
		const uint32_t from = marking->stack[--marking->depth];

		for (uint32_t i = graph->first[from]; i < graph->first[from + 1]; i++) {
			const uint32_t to = limpet_edge_to(graph->edges[i]);

			if ((any || !(graph->edges[i] & LIMPET_EDGE_INSIDE)) &&
			    limpet_block_class(graph, to) == LIMPET_REACH_NONE)
				push(marking, to, class);
		}
	}
}

static void begin_at(struct marking *marking, unsigned flags, enum limpet_reach_class class)
{
	for (size_t i = 0; i < marking->graph->blocks.count; i++)
		if (marking->graph->blocks.flags[i] & flags &&
		    limpet_block_class(marking->graph, (uint32_t)i) == LIMPET_REACH_NONE)
			push(marking, (uint32_t)i, class);
}

/* Where interior pointers lead from blocks of this class. */
static void begin_inside(struct marking *marking, enum limpet_reach_class from)
{
	const struct limpet_reach_graph *graph = marking->graph;

	for (size_t i = 0; i < graph->blocks.count; i++)
		for (uint32_t k = graph->first[i];
		     k < graph->first[i + 1] && limpet_block_class(graph, (uint32_t)i) == from; k++)
			if (graph->edges[k] & LIMPET_EDGE_INSIDE &&
			    limpet_block_class(graph, limpet_edge_to(graph->edges[k])) ==
				    LIMPET_REACH_NONE)
				push(marking, limpet_edge_to(graph->edges[k]),
				     LIMPET_REACH_POSSIBLY);
}

/* A block that a stack holds by its start, and other memory by an interior pointer, is held. */
static void push_of_stack(struct marking *marking, uint32_t block)
{
	const enum limpet_reach_class class = limpet_block_class(marking->graph, block);

	if (class == LIMPET_REACH_NONE)
		push(marking, block, LIMPET_REACH_STACK);
	else if (class == LIMPET_REACH_POSSIBLY)
		push(marking, block, LIMPET_REACH_HELD);
}

static void mark_from_stacks(struct marking *marking)
{
	const struct limpet_reach_graph *graph = marking->graph;

	for (size_t i = 0; i < graph->blocks.count; i++)
		if (graph->blocks.flags[i] & LIMPET_BLOCK_STACK_START)
			push_of_stack(marking, (uint32_t)i);
	while (marking->depth) {
		const uint32_t from = marking->stack[--marking->depth];

		for (uint32_t i = graph->first[from]; i < graph->first[from + 1]; i++)
			if (!(graph->edges[i] & LIMPET_EDGE_INSIDE))
				push_of_stack(marking, graph->edges[i]);
	}
}

/* ------------------------------------------------------------------ lost blocks */

/* Depth first: a block comes into `order` after all to which it leads. */
struct ordering {
	struct limpet_reach_graph *graph;
	uint32_t *order, *way, *next; /* next: the edge that is followed from each of the way */
	size_t count, depth;
};

static void enter(struct ordering *ordering, uint32_t block)
{
	ordering->graph->blocks.flags[block] |= LIMPET_BLOCK_SEEN;
	ordering->next[ordering->depth] = ordering->graph->first[block];
	ordering->way[ordering->depth++] = block;
}

static void visit_from(struct ordering *ordering, uint32_t start)
{
	const struct limpet_reach_graph *graph = ordering->graph;

	enter(ordering, start);
	while (ordering->depth) {
		const uint32_t from = ordering->way[ordering->depth - 1];
		uint32_t *next = &ordering->next[ordering->depth - 1];

		if (*next < graph->first[from + 1]) {
			const uint32_t to = limpet_edge_to(graph->edges[(*next)++]);

			if (limpet_block_class(graph, to) == LIMPET_REACH_NONE &&
			    !(graph->blocks.flags[to] & LIMPET_BLOCK_SEEN))
				enter(ordering, to);
		} else {
			ordering->order[ordering->count++] = from;
			ordering->depth--;
		}
	}
}

/* In reverse order no block comes after one to which it leads, but for circles: the first one of a
 * circle stands for it. */
static int judge_lost(struct marking *marking)
{
	struct limpet_reach_graph *graph = marking->graph;
	struct ordering ordering = {.graph = graph};
	size_t lost = 0;

	for (size_t i = 0; i < graph->blocks.count; i++) {
		lost += limpet_block_class(graph, (uint32_t)i) == LIMPET_REACH_NONE;
		graph->blocks.flags[i] &= (uint8_t)~LIMPET_BLOCK_SEEN;
	}
	ordering.order = calloc(lost + 1, sizeof(*ordering.order));
	ordering.way = calloc(lost + 1, sizeof(*ordering.way));
	ordering.next = calloc(lost + 1, sizeof(*ordering.next));
	if (ordering.order && ordering.way && ordering.next) {
		for (size_t i = 0; i < graph->blocks.count; i++)
			if (limpet_block_class(graph, (uint32_t)i) == LIMPET_REACH_NONE &&
			    !(graph->blocks.flags[i] & LIMPET_BLOCK_SEEN))
				visit_from(&ordering, (uint32_t)i);
		for (size_t i = ordering.count; i-- > 0;)
			if (limpet_block_class(graph, ordering.order[i]) == LIMPET_REACH_NONE) {
				push(marking, ordering.order[i], LIMPET_REACH_DIRECTLY);
				flood(marking, LIMPET_REACH_INDIRECTLY, true);
			}
	}
	lost = ordering.order && ordering.way && ordering.next;
	free(ordering.order);
	free(ordering.way);
	free(ordering.next);
	return lost ? 0 : -ENOMEM;
}

int limpet_reach_marks(struct limpet_reach_graph *graph)
{
	struct marking marking = {
		.graph = graph,
		.stack = limpet_large_new(graph->blocks.count + 1, sizeof(*marking.stack))};
	int error;

	if (!marking.stack)
		return -ENOMEM;
	begin_at(&marking, LIMPET_BLOCK_ROOT_START, LIMPET_REACH_HELD);
	begin_at(&marking, LIMPET_BLOCK_SEEN, LIMPET_REACH_HELD);
	flood(&marking, LIMPET_REACH_HELD, false);
	begin_at(&marking, LIMPET_BLOCK_ROOT_INSIDE, LIMPET_REACH_POSSIBLY);
	begin_inside(&marking, LIMPET_REACH_HELD);
	flood(&marking, LIMPET_REACH_POSSIBLY, true);
	mark_from_stacks(&marking);
	begin_at(&marking, LIMPET_BLOCK_STACK_INSIDE, LIMPET_REACH_POSSIBLY);
	begin_inside(&marking, LIMPET_REACH_STACK);
	flood(&marking, LIMPET_REACH_POSSIBLY, true);
	error = judge_lost(&marking);
	free(marking.stack);
	return error;
}
