#include "cli/top_rows.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <uthash.h>

#include "analyzer/render/report_printer.h"
#include "analyzer/render/view_text.h"
#include "common/array.h"
#include "common/base_name.h"
#include "common/plain_text.h"

/* How many callers are shown after a site's function. */
#define CALLERS_SHOWN 8
/* In fewer columns a function's name has no room for a caller beside it. */
#define NAME_LEAST 20u
/* How many rows one key opens at most. */
#define OPEN_ALL_MAX 20000u

struct key {
	uint64_t key;
	UT_hash_handle hh;
};

struct limpet_top_rows {
	struct limpet_top_row *list;
	size_t count, capacity;
	struct key *open;
	char *search;
	uint64_t threads_ns;
	/* Of the last fill. */
	enum limpet_top_kind kind;
	struct limpet_top_source *source;
	const struct limpet_view *view;
	struct limpet_view_tree *tree;
	uint64_t *keys;                   /* of the tree's nodes */
	bool *found;                      /* by function */
	struct limpet_model_site *leaves; /* of sites: by node of the tree */
	uint32_t *order;                  /* nodes that are leaves, sorted */
	size_t order_count;
};

struct limpet_top_rows *limpet_top_rows_new(void)
{
	return calloc(1, sizeof(struct limpet_top_rows));
}

static void clear(struct limpet_top_rows *rows)
{
	limpet_view_tree_free(rows->tree);
	free(rows->keys);
	free(rows->found);
	free(rows->leaves);
	free(rows->order);
	rows->tree = NULL;
	rows->keys = NULL;
	rows->found = NULL;
	rows->leaves = NULL;
	rows->order = NULL;
	rows->order_count = rows->count = 0;
}

static void close_all(struct limpet_top_rows *rows)
{
	struct key *key = rows->open;

	/* Clearing frees the table but leaves its members linked. */
	HASH_CLEAR(hh, rows->open);
	while (key) {
		struct key *next = key->hh.next;

		free(key);
		key = next;
	}
}

void limpet_top_rows_free(struct limpet_top_rows *rows)
{
	if (!rows)
		return;
	clear(rows);
	close_all(rows);
	free(rows->list);
	free(rows->search);
	free(rows);
}

int limpet_top_rows_search(struct limpet_top_rows *rows, const char *text)
{
	char *copy = text[0] ? strdup(text) : NULL;

	if (text[0] && !copy)
		return -ENOMEM;
	free(rows->search);
	rows->search = copy;
	return 0;
}

size_t limpet_top_rows_list(const struct limpet_top_rows *rows,
			    const struct limpet_top_row **ret_list)
{
	*ret_list = rows->list;
	return rows->count;
}

uint64_t limpet_top_rows_threads_ns(const struct limpet_top_rows *rows)
{
	return rows->threads_ns;
}

/* ------------------------------------------------------------------ keys */

#define HASH_START 0xcbf29ce484222325ull

/* FNV-1a. */
static uint64_t hash_bytes(uint64_t hash, const void *bytes, size_t count)
{
	const unsigned char *at = bytes;

	for (size_t i = 0; i < count; i++)
		hash = (hash ^ at[i]) * 0x100000001b3ull;
	return hash;
}

static uint64_t hash_text(uint64_t hash, const char *text)
{
	return hash_bytes(hash, text ? text : "", text ? strlen(text) + 1 : 1);
}

/* 0 means none. */
static uint64_t as_key(uint64_t hash)
{
	return hash ? hash : 1;
}

static bool is_open(const struct limpet_top_rows *rows, uint64_t key)
{
	struct key *found;

	HASH_FIND(hh, rows->open, &key, sizeof(key), found);
	return found != NULL;
}

static void set_open(struct limpet_top_rows *rows, uint64_t key, bool open)
{
	struct key *found;

	HASH_FIND(hh, rows->open, &key, sizeof(key), found);
	if (found && !open) {
		HASH_DEL(rows->open, found);
		free(found);
	} else if (!found && open) {
		found = malloc(sizeof(*found));
		if (!found)
			return;
		found->key = key;
		HASH_ADD(hh, rows->open, key, sizeof(found->key), found);
	}
}

/* By the names of all ancestors, since numbers of nodes and functions change. */
static int name_nodes(struct limpet_top_rows *rows)
{
	const struct limpet_locations *locations = rows->view->locations;
	LIMPET_FREE uint64_t *functions =
		calloc(locations->function_count + 1ul, sizeof(*functions));

	rows->keys = calloc(rows->tree->count, sizeof(*rows->keys));
	if (!functions || !rows->keys)
		return -ENOMEM;
	for (uint32_t i = 0; i < locations->function_count; i++)
		functions[i] = hash_text(hash_text(HASH_START, locations->functions[i].name),
					 locations->functions[i].module);
	/* Each view has its own tree. */
	rows->keys[0] = HASH_START + rows->kind;
	for (uint32_t i = 1; i < rows->tree->count; i++) {
		const struct limpet_view_node *node = &rows->tree->nodes[i];

		rows->keys[i] = as_key(hash_bytes(rows->keys[node->parent],
						  &functions[node->function], sizeof(uint64_t)));
	}
	return 0;
}

/* ------------------------------------------------------------------ searching */

static bool holds(const char *text, const char *what)
{
	return text && strcasestr(text, what);
}

static int search_functions(struct limpet_top_rows *rows)
{
	const struct limpet_locations *locations = rows->view->locations;

	rows->found = calloc(locations->function_count + 1ul, sizeof(*rows->found));
	if (!rows->found)
		return -ENOMEM;
	for (uint32_t i = 0; rows->search && i < locations->function_count; i++) {
		const struct limpet_function *function = &locations->functions[i];

		rows->found[i] = holds(function->name, rows->search) ||
				 holds(function->file, rows->search) ||
				 holds(function->module, rows->search);
	}
	return 0;
}

/* Whether a function on the path from a node to the root was found. */
static bool is_found_above(const struct limpet_top_rows *rows, uint32_t node)
{
	for (; node; node = rows->tree->nodes[node].parent)
		if (rows->found[rows->tree->nodes[node].function])
			return true;
	return false;
}

/* ------------------------------------------------------------------ filling */

/* Whether a node of the tree only repeats the call of its parent: the two are one row. */
static bool is_repeated(const struct limpet_top_rows *rows, uint32_t node)
{
	const struct limpet_view_node *nodes = rows->tree->nodes;
	const uint32_t parent = nodes[node].parent;

	return !rows->view->full && parent && nodes[parent].first_child == node &&
	       !nodes[node].next && nodes[parent].function == nodes[node].function;
}

/* Follows such calls down; *ret_times: how often the function is on the row. */
static uint32_t last_repeated(const struct limpet_top_rows *rows, uint32_t node,
			      unsigned *ret_times)
{
	uint32_t child;

	*ret_times = 1;
	while ((child = rows->tree->nodes[node].first_child) && is_repeated(rows, child)) {
		node = child;
		++*ret_times;
	}
	return node;
}

/* The same within one stack: follows the calls of a function by itself up to the outermost. */
static uint32_t outermost_of(const struct limpet_top_rows *rows, uint32_t node, unsigned *ret_times)
{
	const struct limpet_view_node *nodes = rows->tree->nodes;

	*ret_times = 1;
	while (!rows->view->full && nodes[node].parent &&
	       nodes[nodes[node].parent].function == nodes[node].function) {
		node = nodes[node].parent;
		++*ret_times;
	}
	return node;
}

static struct limpet_top_row *add_row(struct limpet_top_rows *rows)
{
	if (limpet_reserve(&rows->list, &rows->capacity, rows->count + 1, sizeof(*rows->list)) < 0)
		return NULL;
	rows->list[rows->count] = (struct limpet_top_row){0};
	return &rows->list[rows->count++];
}

static bool has_figure(const struct limpet_model_site *figures)
{
	return figures->allocations || figures->frees || figures->live_allocations ||
	       figures->peak_allocations;
}

/* Adds the unfolded parts in order, without recursion, since a stack may be deep. */
static int add_tree(struct limpet_top_rows *rows)
{
	const struct limpet_view_node *nodes = rows->tree->nodes;
	uint32_t node = nodes[0].first_child;
	unsigned depth = 0;

	while (node) {
		struct limpet_top_row *row = add_row(rows);

		if (!row)
			return -ENOMEM;
		row->key = rows->keys[node];
		row->depth = depth;
		row->node = node;
		row->figures = nodes[node].figures;
		node = last_repeated(rows, node, &row->times);
		row->has_children = nodes[node].first_child != 0;
		row->open = row->has_children && is_open(rows, row->key);
		row->found = rows->found[nodes[node].function];
		if (row->open) {
			node = nodes[node].first_child;
			depth++;
			continue;
		}
		while (node && !nodes[node].next) {
			depth -= nodes[node].parent && !is_repeated(rows, node);
			node = nodes[node].parent;
		}
		node = node ? nodes[node].next : 0;
	}
	return 0;
}

static int compare_leaves(const void *a, const void *b, void *context)
{
	const struct limpet_top_rows *rows = context;
	const uint32_t p = *(const uint32_t *)a, q = *(const uint32_t *)b;
	const struct limpet_model_site *x = &rows->leaves[p], *y = &rows->leaves[q];
	int64_t u = limpet_report_figure(x, rows->view->sort);
	int64_t v = limpet_report_figure(y, rows->view->sort);

	if (u != v)
		return u > v ? -1 : 1;
	if (x->allocated_bytes != y->allocated_bytes)
		return x->allocated_bytes > y->allocated_bytes ? -1 : 1;
	return p < q ? -1 : p > q;
}

/* Stacks that look the same are one row. In the tree from main down, each ends at its own node. */
static int sort_leaves(struct limpet_top_rows *rows)
{
	const struct limpet_view *view = rows->view;

	rows->leaves = calloc(rows->tree->count, sizeof(*rows->leaves));
	rows->order = calloc(view->site_count + 1, sizeof(*rows->order));
	if (!rows->leaves || !rows->order)
		return -ENOMEM;
	for (size_t i = 0; i < view->site_count; i++) {
		uint32_t leaf = rows->tree->leaf_of_site[i];

		if (!has_figure(&view->sites[i]))
			continue;
		if (!has_figure(&rows->leaves[leaf]))
			rows->order[rows->order_count++] = leaf;
		limpet_view_add_figures(&rows->leaves[leaf], &view->sites[i]);
	}
	qsort_r(rows->order, rows->order_count, sizeof(*rows->order), compare_leaves, rows);
	return 0;
}

/* The callers of an unfolded stack. */
static int add_frames(struct limpet_top_rows *rows, uint32_t leaf, uint32_t node)
{
	const struct limpet_view_node *nodes = rows->tree->nodes;

	while (node) {
		struct limpet_top_row *row = add_row(rows);

		if (!row)
			return -ENOMEM;
		row->key = as_key(rows->keys[leaf] ^ rows->keys[node]);
		row->depth = 1;
		row->is_frame = true;
		row->found = rows->found[nodes[node].function];
		row->node = node;
		node = nodes[outermost_of(rows, node, &row->times)].parent;
	}
	return 0;
}

static int add_sites(struct limpet_top_rows *rows)
{
	int result = sort_leaves(rows);

	for (size_t i = 0; i < rows->order_count && result == 0; i++) {
		const uint32_t leaf = rows->order[i];
		struct limpet_top_row *row = add_row(rows);
		uint32_t caller;

		if (!row)
			return -ENOMEM;
		row->key = rows->keys[leaf];
		caller = rows->tree->nodes[outermost_of(rows, leaf, &row->times)].parent;
		row->has_children = caller != 0;
		row->open = row->has_children && is_open(rows, row->key);
		row->found = is_found_above(rows, leaf);
		row->figures = rows->leaves[leaf];
		row->node = leaf;
		if (row->open)
			result = add_frames(rows, leaf, caller);
	}
	return result;
}

static int add_modules(struct limpet_top_rows *rows)
{
	struct limpet_view_rows modules = {0};
	int result = limpet_view_modules(rows->view, &modules);

	for (size_t i = 0; result == 0 && i < modules.count; i++) {
		const struct limpet_view_row *from = &modules.rows[i];
		struct limpet_top_row *row = add_row(rows);

		if (!row) {
			result = -ENOMEM;
			break;
		}
		row->key = as_key(hash_text(HASH_START, from->name));
		row->figures = from->self;
		row->name = from->name ? from->name : "(code in no module)";
		row->found = rows->search && holds(row->name, rows->search);
	}
	limpet_view_rows_done(&modules);
	return result;
}

static int compare_rows(const void *a, const void *b, void *context)
{
	const struct limpet_top_row *x = a, *y = b;
	const struct limpet_view *view = context;
	int64_t u = limpet_report_figure(&x->figures, view->sort);
	int64_t v = limpet_report_figure(&y->figures, view->sort);

	if (u != v)
		return u > v ? -1 : 1;
	if (x->figures.allocated_bytes != y->figures.allocated_bytes)
		return x->figures.allocated_bytes > y->figures.allocated_bytes ? -1 : 1;
	return x->tid < y->tid ? -1 : x->tid > y->tid;
}

static int add_threads(struct limpet_top_rows *rows)
{
	const struct limpet_replay_thread *list;
	int64_t count = limpet_top_source_threads(rows->source, &list, &rows->threads_ns);

	if (count < 0)
		return (int)count;
	for (int64_t i = 0; i < count; i++) {
		struct limpet_top_row *row = add_row(rows);
		char name[32];

		if (!row)
			return -ENOMEM;
		row->key = as_key(list[i].tid);
		row->tid = list[i].tid;
		row->figures = list[i].figures;
		row->figures.frees = list[i].own_frees;
		row->figures.freed_bytes = list[i].own_freed_bytes;
		row->found = rows->search &&
			     holds(limpet_top_source_thread_name(rows->source, row->tid, name),
				   rows->search);
	}
	if (rows->count)
		qsort_r(rows->list, rows->count, sizeof(*rows->list), compare_rows,
			(void *)(uintptr_t)rows->view);
	return 0;
}

int limpet_top_rows_fill(struct limpet_top_rows *rows, struct limpet_top_source *source,
			 const struct limpet_view *view, enum limpet_top_kind kind)
{
	int result = 0;

	clear(rows);
	rows->threads_ns = 0;
	rows->kind = kind;
	rows->source = source;
	rows->view = view;
	if (kind == LIMPET_TOP_MODULES)
		return add_modules(rows);
	if (kind == LIMPET_TOP_THREADS)
		return add_threads(rows);
	result = limpet_view_tree_new(view, kind == LIMPET_TOP_CALLERS, &rows->tree);
	if (result == 0)
		result = name_nodes(rows);
	if (result == 0)
		result = search_functions(rows);
	if (result == 0)
		result = kind == LIMPET_TOP_SITES ? add_sites(rows) : add_tree(rows);
	if (result < 0)
		clear(rows);
	return result;
}

/* ------------------------------------------------------------------ moving */

static const struct limpet_top_row *row_of(const struct limpet_top_rows *rows, uint64_t key)
{
	for (size_t i = 0; i < rows->count; i++)
		if (rows->list[i].key == key)
			return &rows->list[i];
	return NULL;
}

static bool is_tree(const struct limpet_top_rows *rows)
{
	return rows->tree && rows->kind != LIMPET_TOP_SITES;
}

void limpet_top_rows_open(struct limpet_top_rows *rows, uint64_t key, bool open)
{
	const struct limpet_top_row *row = row_of(rows, key);
	uint32_t node = row ? row->node : 0;

	if (!row || !row->has_children)
		return;
	set_open(rows, key, open);
	while (open && is_tree(rows)) {
		uint32_t child = rows->tree->nodes[node].first_child;

		if (!child || rows->tree->nodes[child].next ||
		    !rows->tree->nodes[child].first_child)
			break;
		set_open(rows, rows->keys[child], true);
		node = child;
	}
}

/* The next node in the order of the tree, folded or not; `within`: not outside its subtree. 0:
 * none. */
static uint32_t next_node(const struct limpet_top_rows *rows, uint32_t node, uint32_t within)
{
	const struct limpet_view_node *nodes = rows->tree->nodes;

	if (nodes[node].first_child)
		return nodes[node].first_child;
	while (node != within && node && !nodes[node].next)
		node = nodes[node].parent;
	return node == within || !node ? 0 : nodes[node].next;
}

void limpet_top_rows_open_all(struct limpet_top_rows *rows, uint64_t key, bool open)
{
	const struct limpet_top_row *row = key ? row_of(rows, key) : NULL;
	uint32_t within = row ? row->node : 0, node = within;
	unsigned opened = 0;

	if (!key && !open) {
		close_all(rows);
		return;
	}
	if (row && !is_tree(rows))
		set_open(rows, key, open);
	if (!is_tree(rows))
		return;
	do {
		if (rows->tree->nodes[node].first_child && node)
			set_open(rows, rows->keys[node], open);
		node = next_node(rows, node, within);
	} while (node && ++opened < OPEN_ALL_MAX);
}

uint64_t limpet_top_rows_parent(const struct limpet_top_rows *rows, uint64_t key)
{
	const struct limpet_top_row *row = row_of(rows, key);

	const struct limpet_top_row *before = row;

	if (!row || !row->depth)
		return 0;
	while (before > rows->list && before->depth >= row->depth)
		before--;
	return before->key;
}

static uint64_t find_in_tree(struct limpet_top_rows *rows, uint64_t key, bool backwards)
{
	const struct limpet_view_node *nodes = rows->tree->nodes;
	const struct limpet_top_row *row = row_of(rows, key);
	const uint32_t from = row ? row->node : 0;
	uint32_t node, first = 0, before = 0, last = 0, after = 0, hit;
	bool passed = !from;

	for (node = next_node(rows, 0, 0); node; node = next_node(rows, node, 0)) {
		if (node == from) {
			passed = true;
			continue;
		}
		if (!rows->found[nodes[node].function] || is_repeated(rows, node))
			continue;
		first = first ? first : node;
		last = node;
		if (!passed)
			before = node;
		else if (!after)
			after = node;
	}
	if (backwards)
		hit = before ? before : last;
	else
		hit = after ? after : first;
	if (!hit)
		return from && rows->found[nodes[from].function] ? key : 0;
	for (node = nodes[hit].parent; node; node = nodes[node].parent)
		set_open(rows, rows->keys[node], true);
	return rows->keys[hit];
}

uint64_t limpet_top_rows_find(struct limpet_top_rows *rows, uint64_t key, bool backwards)
{
	const struct limpet_top_row *row = row_of(rows, key);
	size_t from = row ? (size_t)(row - rows->list) : 0;

	if (!rows->search || !rows->count)
		return 0;
	if (is_tree(rows))
		return find_in_tree(rows, key, backwards);
	for (size_t i = 1; i <= rows->count; i++) {
		size_t at = (backwards ? from + rows->count - i : from + i) % rows->count;

		if (rows->list[at].found)
			return rows->list[at].key;
	}
	return 0;
}

/* ------------------------------------------------------------------ words */

void limpet_top_rows_drop_nameless(char *name)
{
	static const char nameless[] = "(anonymous namespace)::";
	char *at = name;

	while ((at = strstr(at, nameless)))
		memmove(at, at + strlen(nameless), strlen(at + strlen(nameless)) + 1);
}

/* Cuts a name at its start, since its end says more; `times`: how often it follows itself. */
static char *function_name(const struct limpet_top_rows *rows, uint32_t number, unsigned times,
			   size_t columns)
{
	const struct limpet_function *function = &rows->view->locations->functions[number];
	LIMPET_FREE char *name = limpet_function_name(function, rows->view->full);
	char *text = NULL, note[16] = "";

	if (times > 1)
		snprintf(note, sizeof(note), " x%u", times);
	if (name && !rows->view->full)
		limpet_top_rows_drop_nameless(name);
	if (name && limpet_plain_text_columns(name) + strlen(note) > columns)
		limpet_printer_cut(name, columns > strlen(note) ? columns - strlen(note) : 0, true);
	if (!name || asprintf(&text, "%s%s", name, note) < 0)
		return NULL;
	return limpet_plain_text_clean(text);
}

/* The file of a function, else its module; NULL: unknown, or in the name already. */
static const char *place_of(const struct limpet_function *function)
{
	if (function->file)
		return limpet_base_name(function->file);
	return function->named && function->module ? limpet_base_name(function->module) : NULL;
}

static char *function_text(const struct limpet_top_rows *rows, uint32_t number, unsigned times,
			   size_t columns)
{
	const struct limpet_function *function = &rows->view->locations->functions[number];
	LIMPET_FREE char *name = function_name(rows, number, times, columns);
	const char *where = place_of(function);
	char *text = NULL;

	if (!name || asprintf(&text, "%s%s%s", name, where ? "  " : "", where ? where : "") < 0)
		return NULL;
	return limpet_plain_text_clean(text);
}

/* The names of a function and its caller, in at most so many columns together, of which a long name
 * of the function leaves some to the caller's. */
static int name_pair(const struct limpet_top_rows *rows, const struct limpet_top_row *row,
		     uint32_t caller, size_t columns, char *ret[2])
{
	const struct limpet_view_node *nodes = rows->tree->nodes;
	const size_t least = columns * 3 / 5;
	unsigned times = 1;
	size_t used;

	if (!caller || columns < NAME_LEAST) {
		ret[0] = function_name(rows, nodes[row->node].function, row->times, columns);
		return ret[0] ? 0 : -ENOMEM;
	}
	/* In the tree of callers one repeats the other downwards. */
	if (rows->kind == LIMPET_TOP_CALLERS)
		last_repeated(rows, caller, &times);
	else
		outermost_of(rows, caller, &times);
	ret[1] = function_name(rows, nodes[caller].function, times, SIZE_MAX);
	if (!ret[1])
		return -ENOMEM;
	used = limpet_plain_text_columns(ret[1]);
	ret[0] = function_name(rows, nodes[row->node].function, row->times,
			       used + least < columns ? columns - used : least);
	if (!ret[0])
		return -ENOMEM;
	used = limpet_plain_text_columns(ret[0]);
	limpet_printer_cut(ret[1], columns > used ? columns - used : 0, true);
	return 0;
}

/* The function that allocates, and its callers. */
static char *site_text(const struct limpet_top_rows *rows, const struct limpet_top_row *row,
		       size_t columns)
{
	const struct limpet_view_node *nodes = rows->tree->nodes;
	const size_t arrow = strlen(" < ");
	char *names[2] = {NULL, NULL}, *text;
	unsigned times;
	uint32_t node = row->open ? 0 : nodes[outermost_of(rows, row->node, &times)].parent;
	const size_t room = node && columns > arrow ? columns - arrow : columns;

	if (name_pair(rows, row, node, room, names) < 0) {
		free(names[1]);
		return NULL;
	}
	text = names[0];
	for (unsigned i = 0; text && node && i < CALLERS_SHOWN; i++) {
		LIMPET_FREE char *before = text;
		const uint32_t outermost = outermost_of(rows, node, &times);
		LIMPET_FREE char *caller =
			!i && names[1] ? LIMPET_TAKE(names[1])
				       : function_name(rows, nodes[node].function, times, columns);

		if (!caller || asprintf(&text, "%s < %s", before, caller) < 0)
			text = NULL;
		node = nodes[outermost].parent;
	}
	free(names[1]);
	return text;
}

/* A stack of the row, the one with most: a node of the trace; 0: unknown. */
static uint32_t largest_stack(const struct limpet_top_rows *rows, const struct limpet_top_row *row)
{
	const struct limpet_view *view = rows->view;
	int64_t most = INT64_MIN;
	uint32_t node = 0;

	if (rows->kind != LIMPET_TOP_SITES)
		return row->figures.node;
	for (size_t i = 0; i < view->site_count; i++) {
		const int64_t figure = limpet_report_figure(&view->sites[i], view->sort);

		if (rows->tree->leaf_of_site[i] == row->node && figure > most) {
			most = figure;
			node = view->sites[i].node;
		}
	}
	return node;
}

static unsigned depth_of(const struct limpet_top_rows *rows, uint32_t node)
{
	unsigned depth = 0;

	for (; node; node = rows->tree->nodes[node].parent)
		depth++;
	return depth;
}

/* The location of a node's function on a stack that goes through it; NULL: it is not there. */
static const struct limpet_location *location_on(const struct limpet_top_rows *rows, uint32_t node,
						 uint32_t stack_node)
{
	struct limpet_locations *locations = rows->view->locations;
	const unsigned depth = depth_of(rows, node);
	const struct limpet_location *location;
	struct limpet_location_stack stack;

	if (!stack_node ||
	    limpet_locations_stack(locations, stack_node, rows->view->full, &stack) < 0 || !depth ||
	    depth > stack.count)
		return NULL;
	/* Only the tree of callers begins with the innermost function. */
	location = &locations->locations[stack.list[rows->kind == LIMPET_TOP_CALLERS
							    ? depth - 1
							    : stack.count - depth]];
	return location->function == rows->tree->nodes[node].function ? location : NULL;
}

struct limpet_top_place limpet_top_rows_place(const struct limpet_top_rows *rows,
					      const struct limpet_top_row *row)
{
	struct limpet_top_place place = {.function = NULL};
	const struct limpet_top_row *site = row;
	const struct limpet_location *location;

	if (!rows->tree || !row->node)
		return place;
	place.function = &rows->view->locations->functions[rows->tree->nodes[row->node].function];
	place.file = place.function->file;
	if (row->is_frame)
		site = row_of(rows, limpet_top_rows_parent(rows, row->key));
	location = site ? location_on(rows, row->node, largest_stack(rows, site)) : NULL;
	if (location && location->file) {
		place.file = location->file;
		place.line = location->line;
	}
	return place;
}

/* The node of the caller that has most of the row; *ret_more: there are others. */
static uint32_t caller_of(const struct limpet_top_rows *rows, const struct limpet_top_row *row,
			  bool *ret_more)
{
	const struct limpet_view_node *nodes = rows->tree->nodes;
	unsigned times;
	uint32_t caller;

	*ret_more = false;
	if (rows->kind != LIMPET_TOP_CALLERS)
		return nodes[outermost_of(rows, row->node, &times)].parent;
	caller = nodes[last_repeated(rows, row->node, &times)].first_child;
	*ret_more = caller && nodes[caller].next;
	return caller;
}

char *limpet_top_rows_detail(const struct limpet_top_rows *rows, const struct limpet_top_row *row,
			     size_t columns)
{
	const struct limpet_top_place place = limpet_top_rows_place(rows, row);
	char *names[2] = {NULL, NULL}, *text = NULL, line[16] = "";
	const char *others = "", *where;
	bool more = false;
	uint32_t caller;
	size_t taken = 0;
	int result;

	if (!place.function)
		return strdup("");
	caller = caller_of(rows, row, &more);
	where = place.file ? limpet_base_name(place.file) : place_of(place.function);
	if (more)
		others = " and others";
	if (caller)
		taken = strlen(" (called by )") + strlen(others);
	if (place.line)
		snprintf(line, sizeof(line), ":%u", place.line);
	result = name_pair(rows, row, caller, columns > taken ? columns - taken : 1, names);
	if (result == 0 &&
	    asprintf(&text, "%s%s%s%s%s%s%s%s", names[0], names[1] ? " (called by " : "",
		     names[1] ? names[1] : "", names[1] ? others : "", names[1] ? ")" : "",
		     where ? "  " : "", where ? where : "", line) < 0)
		text = NULL;
	free(names[0]);
	free(names[1]);
	return text ? limpet_plain_text_clean(text) : NULL;
}

static char *thread_text(const struct limpet_top_rows *rows, const struct limpet_top_row *row)
{
	char name[32], *text = NULL;

	limpet_top_source_thread_name(rows->source, row->tid, name);
	if (asprintf(&text, "%u%s%s", row->tid, name[0] ? "  " : "", name) < 0)
		return NULL;
	return limpet_plain_text_clean(text);
}

char *limpet_top_rows_text(const struct limpet_top_rows *rows, const struct limpet_top_row *row,
			   size_t columns)
{
	if (row->name) {
		char *copy = strdup(row->name);

		return copy ? limpet_plain_text_clean(copy) : NULL;
	}
	if (row->tid)
		return thread_text(rows, row);
	if (rows->kind == LIMPET_TOP_SITES && !row->is_frame)
		return site_text(rows, row, columns);
	return function_text(rows, rows->tree->nodes[row->node].function, row->times, columns);
}
