#include "cli/top_calls.h"

#include <stdlib.h>

#include "common/array.h"

static const struct limpet_recursion once = {1, 1};

static int add_node(struct limpet_top_path *path, uint32_t node)
{
	if (limpet_reserve(&path->nodes, &path->capacity, path->count + 1, sizeof(*path->nodes)) <
	    0)
		return -ENOMEM;
	path->nodes[path->count++] = node;
	return 0;
}

int limpet_top_path_read(struct limpet_top_path *path, const struct limpet_view_tree *tree,
			 uint32_t node)
{
	int result = 0;

	path->tree = tree;
	path->count = 0;
	for (; node && result == 0; node = tree->nodes[node].parent)
		result = add_node(path, node);
	return result;
}

void limpet_top_path_done(struct limpet_top_path *path)
{
	free(path->nodes);
}

static bool is_same(const void *context, size_t a, size_t b)
{
	const struct limpet_top_path *path = context;
	const struct limpet_view_node *nodes = path->tree->nodes;

	return nodes[path->nodes[a]].function == nodes[path->nodes[b]].function;
}

static bool begin_series(const struct limpet_top_path *path, bool full, size_t at,
			 struct limpet_top_call *ret)
{
	if (at >= path->count)
		return false;
	*ret = (struct limpet_top_call){
		.at = at,
		.series = full ? once : limpet_recursion_at(at, path->count, is_same, path)};
	return true;
}

bool limpet_top_call_first(const struct limpet_top_path *path, bool full,
			   struct limpet_top_call *ret)
{
	return begin_series(path, full, 0, ret);
}

bool limpet_top_call_next(const struct limpet_top_path *path, bool full,
			  struct limpet_top_call *call)
{
	const size_t repeated = call->series.length * (call->series.times - 1);

	if (++call->i == call->series.length)
		return begin_series(path, full, call->at + 1 + repeated, call);
	call->at++;
	return true;
}

struct limpet_recursion limpet_top_call_ends(const struct limpet_top_call *call)
{
	return call->i + 1 == call->series.length ? call->series : once;
}

/* The only child of a node; 0: it has none, or several. */
static uint32_t only_child(const struct limpet_view_tree *tree, uint32_t node)
{
	const uint32_t child = tree->nodes[node].first_child;

	return child && !tree->nodes[child].next ? child : 0;
}

static void mark_path(const struct limpet_top_path *path, bool full, struct limpet_recursion *marks)
{
	struct limpet_top_call call;

	for (size_t i = 0; i < path->count; i++)
		marks[path->nodes[i]] = (struct limpet_recursion){1, 0};
	for (bool more = limpet_top_call_first(path, full, &call); more;
	     more = limpet_top_call_next(path, full, &call))
		marks[path->nodes[call.at]] = limpet_top_call_ends(&call);
}

struct limpet_recursion *limpet_top_calls_mark(const struct limpet_view_tree *tree, bool full)
{
	struct limpet_recursion *marks = calloc(tree->count, sizeof(*marks));
	struct limpet_top_path path = {.tree = tree};
	int result = marks ? 0 : -ENOMEM;

	for (uint32_t i = 1; i < tree->count && result == 0; i++) {
		const uint32_t parent = tree->nodes[i].parent;

		/* Where a path without branches begins. */
		if (parent && only_child(tree, parent) == i)
			continue;
		path.count = 0;
		for (uint32_t node = i; node && result == 0; node = only_child(tree, node))
			result = add_node(&path, node);
		if (result == 0)
			mark_path(&path, full, marks);
	}
	limpet_top_path_done(&path);
	if (result == 0)
		return marks;
	free(marks);
	return NULL;
}
