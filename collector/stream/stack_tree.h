/* The stacks of a capture: a tree of frames, in which the path from a node to the root (0) is a
 * stack, outermost frame last; and the node for each number that the agent has given a stack.
 *
 * Private memory of the collector, and bounded; one thread. Nodes are numbered from 1 in the order
 * in which they are made, so that a parent's number is less than its children's. The cost of a node
 * is the same however many there are: no table is ever rebuilt. */
#ifndef LIMPET_COLLECTOR_STREAM_STACK_TREE_H
#define LIMPET_COLLECTOR_STREAM_STACK_TREE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"

struct limpet_stack_node {
	/* Return address, or limpet_frame_interpreted(); of LIMPET_STACK_NODE_OWNER the allocator's
	 * number */
	uint64_t address;
	uint32_t parent;
	uint32_t flags; /* LIMPET_STACK_NODE_* */
};
#define LIMPET_STACK_NODE_TRUNCATED 1u /* the walk ended here before the thread's root */
#define LIMPET_STACK_NODE_OWNER 2u     /* no frame: the allocator of the stack's blocks */
/* Number of the last module that had been unloaded from this address by then, 0: none; or
 * LIMPET_GONE_MOVED. */
#define LIMPET_STACK_NODE_GONE(flags) ((flags) >> 8)
#define LIMPET_STACK_NODE_GONE_FLAG(number) ((uint32_t)(number) << 8)

#define LIMPET_STACK_UNSEEN 0u        /* not described yet */
#define LIMPET_STACK_LOST UINT32_MAX  /* described, but there was no room for it */
#define LIMPET_STACK_NODES (1u << 24) /* as many as a trace can have, including the root */
#define LIMPET_STACK_TREE_BYTES (UINT64_C(256) << 20)

/* Public only for the inline function below, which is called for each event. */
struct limpet_stack_tree {
	struct limpet_stack_node *nodes;
	uint32_t *next; /* of each node's chain; 0: none */
	uint32_t *buckets;
	size_t node_capacity, next_capacity, bucket_capacity;
	uint32_t count;              /* nodes, including the root */
	uint32_t bucket_count, half; /* half: the largest power of 2 up to bucket_count */
	uint64_t most_bytes;
	/* Called with what a frame's function slot had, when a stack with that frame is described.
	 * NULL: nobody wants it. */
	void (*on_function)(void *context, const struct limpet_stack_node *frame,
			    uint64_t function);
	void *context;
	uint64_t keys[2];  /* random: the target chooses addresses, but not their chains */
	uint32_t **leaves; /* the nodes of LIMPET_STACK_LEAF numbers each; NULL: of none of them */
	size_t leaf_capacity;
	uint32_t leaf_count;
};
#define LIMPET_STACK_LEAF 4096u

/* NULL: no memory. Nodes and numbers take LIMPET_STACK_TREE_BYTES at most, unless _set_most says
 * otherwise. */
struct limpet_stack_tree *limpet_stack_tree_new(void) LIMPET_MUST_CHECK;
void limpet_stack_tree_free(struct limpet_stack_tree *tree);
void limpet_stack_tree_set_most(struct limpet_stack_tree *tree, uint64_t bytes);

/* Finds or makes the child for that frame; 0: no room. */
uint32_t limpet_stack_tree_child(struct limpet_stack_tree *tree, uint32_t parent, uint64_t address,
				 uint32_t flags);
/* The same as limpet_stack_tree_child() with the flags of another node. */
uint32_t limpet_stack_tree_again(struct limpet_stack_tree *tree, uint32_t parent, uint32_t like,
				 uint64_t address);
/* NULL: no such node. Valid until the next one is made. */
const struct limpet_stack_node *limpet_stack_tree_node(const struct limpet_stack_tree *tree,
						       uint32_t node);
/* `steps` frames further out. */
uint32_t limpet_stack_tree_outwards(const struct limpet_stack_tree *tree, uint32_t node,
				    uint32_t steps);
/* Marks the node, and returns what it was before. */
enum limpet_stack_mark {
	LIMPET_STACK_NOT_MARKED,
	LIMPET_STACK_MARKED,
	LIMPET_STACK_MARK_REFUSED /* by limpet_stack_tree_refuse() */
};
enum limpet_stack_mark limpet_stack_tree_mark(struct limpet_stack_tree *tree, uint32_t node);
void limpet_stack_tree_refuse(struct limpet_stack_tree *tree, uint32_t node);

/* Doubts the stacks with a frame of which `is_doubtful` holds: what it stands for has changed. */
void limpet_stack_tree_doubt(struct limpet_stack_tree *tree,
			     bool (*is_doubtful)(void *context,
						 const struct limpet_stack_node *frame),
			     void *context);
bool limpet_stack_tree_is_doubted(const struct limpet_stack_tree *tree, uint32_t node);

/* Assigns a node to the agent's number; node 0: LIMPET_STACK_LOST. The first assignment stays. */
void limpet_stack_tree_enter(struct limpet_stack_tree *tree, uint32_t number, uint32_t node);
/* What the next function returns for a number that has no leaf. */
uint32_t limpet_stack_tree_not_found(const struct limpet_stack_tree *tree);
/* Returns a node, LIMPET_STACK_UNSEEN or LIMPET_STACK_LOST; LOST also if there is no room for more
 * numbers. */
static inline uint32_t limpet_stack_tree_find(const struct limpet_stack_tree *tree, uint32_t number)
{
	const uint32_t leaf = number / LIMPET_STACK_LEAF;

	if (leaf < tree->leaf_capacity && tree->leaves[leaf])
		return tree->leaves[leaf][number % LIMPET_STACK_LEAF];
	return limpet_stack_tree_not_found(tree);
}

#endif
