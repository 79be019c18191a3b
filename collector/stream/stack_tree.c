/* Nodes are found by hash, in one chain per bucket. There is about one bucket per node: each new
 * node adds a bucket, which takes its part of an older one's chain (linear hashing: W. Litwin,
 * 1980). */
#include "collector/stream/stack_tree.h"

#include <stdlib.h>
#include <sys/random.h>

#include "common/array.h"
#include "common/wire.h"

/* Memory of a node: itself, its link to the next one of its chain, and a bucket. */
#define NODE_BYTES (sizeof(struct limpet_stack_node) + 2 * sizeof(uint32_t))
#define LEAF_BYTES (LIMPET_STACK_LEAF * sizeof(uint32_t))
#define FIRST_BUCKETS 64u
/* flags of a node */
#define MARKED 0x80u
#define REFUSED 0x40u
#define DOUBTED 0x20u
#define OWN_FLAGS (MARKED | REFUSED | DOUBTED)

void limpet_stack_tree_set_most(struct limpet_stack_tree *tree, uint64_t bytes)
{
	tree->most_bytes = bytes;
}

/* Counts what is in use: the rest of the arrays was never touched. */
static bool has_room(const struct limpet_stack_tree *tree, uint64_t bytes)
{
	return (tree->count - 1) * NODE_BYTES + tree->leaf_count * LEAF_BYTES + bytes <=
	       tree->most_bytes;
}

struct limpet_stack_tree *limpet_stack_tree_new(void)
{
	struct limpet_stack_tree *tree = calloc(1, sizeof(*tree));

	if (!tree)
		return NULL;
	if (limpet_reserve(&tree->nodes, &tree->node_capacity, 1, sizeof(*tree->nodes)) < 0 ||
	    limpet_reserve(&tree->next, &tree->next_capacity, 1, sizeof(*tree->next)) < 0 ||
	    limpet_reserve_zeroed(&tree->buckets, &tree->bucket_capacity, FIRST_BUCKETS,
				  sizeof(*tree->buckets)) < 0) {
		limpet_stack_tree_free(tree);
		return NULL;
	}
	if (getrandom(tree->keys, sizeof(tree->keys), 0) < 0)
		tree->keys[0] = (uint64_t)(uintptr_t)tree; /* enough against accidents */
	tree->nodes[0] = (struct limpet_stack_node){0};
	tree->count = 1;
	tree->bucket_count = tree->half = FIRST_BUCKETS;
	limpet_stack_tree_set_most(tree, LIMPET_STACK_TREE_BYTES);
	return tree;
}

void limpet_stack_tree_free(struct limpet_stack_tree *tree)
{
	if (!tree)
		return;
	for (size_t i = 0; i < tree->leaf_capacity; i++)
		free(tree->leaves[i]);
	free(tree->leaves);
	free(tree->nodes);
	free(tree->next);
	free(tree->buckets);
	free(tree);
}

/* ---------------------------------------------------------------- nodes */

static uint32_t hash_of(const struct limpet_stack_tree *tree, uint32_t parent, uint64_t address,
			uint32_t flags)
{
	uint64_t hash = (address ^ tree->keys[0]) * 0x9e3779b97f4a7c15ull;

	hash ^= ((uint64_t)parent << 32 | flags) + tree->keys[1];
	hash = (hash ^ hash >> 32) * 0xd6e8feb86659fd93ull;
	hash = (hash ^ hash >> 32) * 0xd6e8feb86659fd93ull;
	return (uint32_t)(hash >> 32);
}

static uint32_t hash_of_node(const struct limpet_stack_tree *tree, uint32_t node)
{
	const struct limpet_stack_node *it = &tree->nodes[node];

	return hash_of(tree, it->parent, it->address, it->flags & ~OWN_FLAGS);
}

static uint32_t bucket_of(const struct limpet_stack_tree *tree, uint32_t hash)
{
	const uint32_t bucket = hash & (2 * tree->half - 1);

	return bucket < tree->bucket_count ? bucket : hash & (tree->half - 1);
}

/* Adds a bucket, which splits the chain of the one with the same lower bits. */
static void add_bucket(struct limpet_stack_tree *tree)
{
	const uint32_t new = tree->bucket_count, old = new - tree->half;
	uint32_t node, *ends[2] = {&tree->buckets[old], &tree->buckets[new]};

	/* Written below, and not read before: it need not be zero. */
	if (limpet_reserve(&tree->buckets, &tree->bucket_capacity, (size_t) new + 1,
			   sizeof(*tree->buckets)) < 0)
		return; /* longer chains */
	ends[0] = &tree->buckets[old];
	ends[1] = &tree->buckets[new];
	node = *ends[0];
	while (node) {
		const bool moves = (hash_of_node(tree, node) & (2 * tree->half - 1)) == new;
		const uint32_t after = tree->next[node];

		*ends[moves] = node;
		ends[moves] = &tree->next[node];
		node = after;
	}
	*ends[0] = *ends[1] = 0;
	tree->bucket_count++;
	if (tree->bucket_count == 2 * tree->half)
		tree->half = tree->bucket_count;
}

static uint32_t add_node(struct limpet_stack_tree *tree, uint32_t parent, uint64_t address,
			 uint32_t flags, uint32_t hash)
{
	const uint32_t node = tree->count;
	uint32_t *bucket;

	if (node >= LIMPET_STACK_NODES || !has_room(tree, NODE_BYTES) ||
	    limpet_reserve(&tree->nodes, &tree->node_capacity, (size_t)node + 1,
			   sizeof(*tree->nodes)) < 0 ||
	    limpet_reserve(&tree->next, &tree->next_capacity, (size_t)node + 1,
			   sizeof(*tree->next)) < 0)
		return 0;
	bucket = &tree->buckets[bucket_of(tree, hash)];
	tree->nodes[node] = (struct limpet_stack_node){
		address, parent, flags | (tree->nodes[parent].flags & DOUBTED)};
	tree->next[node] = *bucket;
	*bucket = node;
	tree->count++;
	if (tree->count > tree->bucket_count)
		add_bucket(tree);
	return node;
}

uint32_t limpet_stack_tree_child(struct limpet_stack_tree *tree, uint32_t parent, uint64_t address,
				 uint32_t flags)
{
	const uint32_t hash = hash_of(tree, parent, address, flags);
	uint32_t node = tree->buckets[bucket_of(tree, hash)];

	/* The newest node has no children. */
	if (!parent || parent + 1 < tree->count)
		for (; node; node = tree->next[node]) {
			const struct limpet_stack_node *it = &tree->nodes[node];

			if (it->address == address && it->parent == parent &&
			    (it->flags & ~OWN_FLAGS) == flags)
				return node;
		}
	return add_node(tree, parent, address, flags, hash);
}

uint32_t limpet_stack_tree_again(struct limpet_stack_tree *tree, uint32_t parent, uint32_t like,
				 uint64_t address)
{
	return limpet_stack_tree_child(tree, parent, address, tree->nodes[like].flags & ~OWN_FLAGS);
}

const struct limpet_stack_node *limpet_stack_tree_node(const struct limpet_stack_tree *tree,
						       uint32_t node)
{
	return node && node < tree->count ? &tree->nodes[node] : NULL;
}

uint32_t limpet_stack_tree_outwards(const struct limpet_stack_tree *tree, uint32_t node,
				    uint32_t steps)
{
	while (node && steps--)
		node = tree->nodes[node].parent;
	return node;
}

enum limpet_stack_mark limpet_stack_tree_mark(struct limpet_stack_tree *tree, uint32_t node)
{
	uint32_t *flags = &tree->nodes[node].flags;
	const uint32_t before = *flags;

	*flags |= MARKED;
	return before & REFUSED  ? LIMPET_STACK_MARK_REFUSED
	       : before & MARKED ? LIMPET_STACK_MARKED
				 : LIMPET_STACK_NOT_MARKED;
}

void limpet_stack_tree_refuse(struct limpet_stack_tree *tree, uint32_t node)
{
	tree->nodes[node].flags |= REFUSED;
}

/* Parents come before their children. */
void limpet_stack_tree_doubt(struct limpet_stack_tree *tree,
			     bool (*is_doubtful)(void *context,
						 const struct limpet_stack_node *frame),
			     void *context)
{
	for (uint32_t i = 1; i < tree->count; i++) {
		struct limpet_stack_node *node = &tree->nodes[i];

		if (node->flags & DOUBTED)
			continue;
		if (tree->nodes[node->parent].flags & DOUBTED || is_doubtful(context, node))
			node->flags |= DOUBTED;
	}
}

bool limpet_stack_tree_is_doubted(const struct limpet_stack_tree *tree, uint32_t node)
{
	return node < tree->count && tree->nodes[node].flags & DOUBTED;
}

/* ---------------------------------------------------------------- numbers */

void limpet_stack_tree_enter(struct limpet_stack_tree *tree, uint32_t number, uint32_t node)
{
	const uint32_t leaf = number / LIMPET_STACK_LEAF;

	if (!number || number > LIMPET_STACKS_MAX ||
	    limpet_reserve_zeroed(&tree->leaves, &tree->leaf_capacity, (size_t)leaf + 1,
				  sizeof(*tree->leaves)) < 0)
		return;
	if (!tree->leaves[leaf]) {
		if (!has_room(tree, LEAF_BYTES))
			return;
		tree->leaves[leaf] = calloc(LIMPET_STACK_LEAF, sizeof(**tree->leaves));
		if (!tree->leaves[leaf])
			return;
		tree->leaf_count++;
	}
	if (tree->leaves[leaf][number % LIMPET_STACK_LEAF] == LIMPET_STACK_UNSEEN)
		tree->leaves[leaf][number % LIMPET_STACK_LEAF] = node ? node : LIMPET_STACK_LOST;
}

uint32_t limpet_stack_tree_not_found(const struct limpet_stack_tree *tree)
{
	return has_room(tree, LEAF_BYTES) ? LIMPET_STACK_UNSEEN : LIMPET_STACK_LOST;
}
