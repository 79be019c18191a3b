#include "collector/record/mapping_table.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/random.h>

/* A treap (Seidel and Aragon, 1996): releasing a range takes two splits, however many mappings it
 * contains. Nodes are in one array, so that the bound is their number. */
struct treap_node {
	struct limpet_mapping mapping;
	uint32_t priority;
	uint32_t left, right; /* index, 0: none */
};

struct limpet_mapping_table {
	struct treap_node *nodes; /* entry 0 is not used */
	uint32_t used, limit;
	size_t capacity;
	uint32_t free_list; /* linked by `left` */
	uint32_t root;
	uint32_t random;
	size_t count;
};

struct limpet_mapping_table *limpet_mapping_table_new(uint64_t memory_bytes)
{
	struct limpet_mapping_table *table = calloc(1, sizeof(*table));
	uint64_t limit = memory_bytes / sizeof(struct treap_node);

	if (!table)
		return NULL;
	table->limit = limit < 64 ? 64 : limit > 1u << 28 ? 1u << 28 : (uint32_t)limit;
	table->used = 1;
	/* Unpredictable: a program that knew the priorities could arrange its mappings so that the
	 * tree becomes a list, and each step down is a recursive call. */
	if (getrandom(&table->random, sizeof(table->random), GRND_NONBLOCK) !=
		    (ssize_t)sizeof(table->random) ||
	    !table->random)
		table->random = 0x2545F491u;
	return table;
}

void limpet_mapping_table_free(struct limpet_mapping_table *table)
{
	if (!table)
		return;
	free(table->nodes);
	free(table);
}

static uint32_t node_new(struct limpet_mapping_table *table, const struct limpet_mapping *mapping)
{
	uint32_t at = table->free_list;

	if (at) {
		table->free_list = table->nodes[at].left;
	} else {
		if (table->used >= table->capacity) {
			size_t capacity = table->capacity ? table->capacity * 2 : 256;
			struct treap_node *nodes;

			if (capacity > table->limit)
				capacity = table->limit;
			if (table->used >= capacity)
				return 0;
			nodes = realloc(table->nodes, capacity * sizeof(*nodes));
			if (!nodes)
				return 0;
			table->nodes = nodes;
			table->capacity = capacity;
		}
		at = table->used++;
	}
	/* xorshift32 (Marsaglia, 2003) */
	table->random ^= table->random << 13;
	table->random ^= table->random >> 17;
	table->random ^= table->random << 5;
	table->nodes[at] = (struct treap_node){.mapping = *mapping, .priority = table->random};
	table->count++;
	return at;
}

static void node_free(struct limpet_mapping_table *table, uint32_t at)
{
	table->nodes[at].left = table->free_list;
	table->free_list = at;
	table->count--;
}

/* Mappings that start below `key` go to the left, the others to the right. */
static void split(struct limpet_mapping_table *table, uint32_t root, uint64_t key,
		  uint32_t *ret_left, uint32_t *ret_right)
{
	struct treap_node *node;

	if (!root) {
		*ret_left = *ret_right = 0;
		return;
	}
	node = &table->nodes[root];
	if (node->mapping.start < key) {
		split(table, node->right, key, &node->right, ret_right);
		*ret_left = root;
	} else {
		split(table, node->left, key, ret_left, &node->left);
		*ret_right = root;
	}
}

/* All of `left` lies below all of `right`. */
static uint32_t merge(struct limpet_mapping_table *table, uint32_t left, uint32_t right)
{
	struct treap_node *nodes = table->nodes;

	if (!left || !right)
		return left ? left : right;
	if (nodes[left].priority > nodes[right].priority) {
		nodes[left].right = merge(table, nodes[left].right, right);
		return left;
	}
	nodes[right].left = merge(table, left, nodes[right].left);
	return right;
}

static uint32_t last_of(const struct limpet_mapping_table *table, uint32_t root)
{
	while (root && table->nodes[root].right)
		root = table->nodes[root].right;
	return root;
}

static void report(const struct limpet_mapping *mapping, uint64_t start, uint64_t end,
		   limpet_mapping_fn *each, void *data)
{
	struct limpet_mapping part = *mapping;

	part.start = start;
	part.end = end;
	each(&part, data);
}

static void free_all(struct limpet_mapping_table *table, uint32_t root, limpet_mapping_fn *each,
		     void *data)
{
	if (!root)
		return;
	free_all(table, table->nodes[root].left, each, data);
	each(&table->nodes[root].mapping, data);
	free_all(table, table->nodes[root].right, each, data);
	node_free(table, root);
}

void limpet_mapping_table_release(struct limpet_mapping_table *table, uint64_t start, uint64_t end,
				  limpet_mapping_fn *each, void *data)
{
	uint32_t below, middle, above, last, rest_node;

	if (start >= end)
		return;
	split(table, table->root, start, &below, &above);
	split(table, above, end, &middle, &above);

	/* A mapping that begins before the range may reach into it, and even beyond it. */
	last = last_of(table, below);
	if (last && table->nodes[last].mapping.end > start) {
		struct limpet_mapping *cut = &table->nodes[last].mapping;
		struct limpet_mapping rest = *cut;

		cut->end = start;
		if (rest.end <= end) {
			report(&rest, start, rest.end, each, data);
		} else {
			rest.start = end;
			/* may move the nodes: `cut` is stale from here */
			rest_node = node_new(table, &rest);
			report(&rest, start, rest_node ? end : rest.end, each, data);
			above = merge(table, rest_node, above);
		}
	}
	/* The last mapping that begins within the range may reach beyond it: that part is kept. */
	last = last_of(table, middle);
	if (last && table->nodes[last].mapping.end > end) {
		struct limpet_mapping rest = table->nodes[last].mapping;

		table->nodes[last].mapping.end = end;
		free_all(table, middle, each, data);
		rest.start = end;
		rest_node = node_new(table, &rest); /* there is room: one was just freed */
		above = merge(table, rest_node, above);
	} else {
		free_all(table, middle, each, data);
	}
	table->root = merge(table, below, above);
}

int limpet_mapping_table_add(struct limpet_mapping_table *table,
			     const struct limpet_mapping *mapping)
{
	uint32_t node = node_new(table, mapping), left, right;

	if (!node)
		return -ENOSPC;
	split(table, table->root, mapping->start, &left, &right);
	table->root = merge(table, merge(table, left, node), right);
	return 0;
}

static void walk(const struct limpet_mapping_table *table, uint32_t root, limpet_mapping_fn *each,
		 void *data)
{
	if (!root)
		return;
	walk(table, table->nodes[root].left, each, data);
	each(&table->nodes[root].mapping, data);
	walk(table, table->nodes[root].right, each, data);
}

void limpet_mapping_table_walk(const struct limpet_mapping_table *table, limpet_mapping_fn *each,
			       void *data)
{
	walk(table, table->root, each, data);
}

size_t limpet_mapping_table_count(const struct limpet_mapping_table *table)
{
	return table->count;
}
