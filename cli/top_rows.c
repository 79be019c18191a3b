#include "cli/top_rows.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <uthash.h>

#include "analyzer/text/report_printer.h"
#include "analyzer/text/view_text.h"
#include "cli/top_calls.h"
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
	struct limpet_recursion *series;  /* of the trees' lists: see limpet_top_calls_mark() */
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
	free(rows->series);
	free(rows->leaves);
	free(rows->order);
	rows->tree = NULL;
	rows->keys = NULL;
	rows->found = NULL;
	rows->series = NULL;
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

/* Whether a node of the tree only repeats calls above it, which are shown once. */
static bool is_repeated(const struct limpet_top_rows *rows, uint32_t node)
{
	return rows->series[node].times == 0;
}

/* Follows such nodes down. */
static uint32_t last_repeated(const struct limpet_top_rows *rows, uint32_t node)
{
	uint32_t child;

	while ((child = rows->tree->nodes[node].first_child) && is_repeated(rows, child))
		node = child;
	return node;
}

static struct limpet_top_row *add_row(struct limpet_top_rows *rows)
{
	if (limpet_reserve(&rows->list, &rows->capacity, rows->count + 1, sizeof(*rows->list)) < 0)
		return NULL;
	rows->list[rows->count] = (struct limpet_top_row){.series = {1, 1}};
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

	rows->series = limpet_top_calls_mark(rows->tree, rows->view->full);
	if (!rows->series)
		return -ENOMEM;
	while (node) {
		struct limpet_top_row *row = add_row(rows);

		if (!row)
			return -ENOMEM;
		row->key = rows->keys[node];
		row->depth = depth;
		row->node = node;
		row->figures = nodes[node].figures;
		row->series = rows->series[node];
		node = last_repeated(rows, node);
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

/* The callers of an unfolded stack, whose first call has a row. */
static int add_frames(struct limpet_top_rows *rows, const struct limpet_top_path *path,
		      struct limpet_top_call *call)
{
	const uint32_t leaf = path->nodes[0];

	while (limpet_top_call_next(path, rows->view->full, call)) {
		struct limpet_top_row *row = add_row(rows);

		if (!row)
			return -ENOMEM;
		row->node = path->nodes[call->at];
		row->key = as_key(rows->keys[leaf] ^ rows->keys[row->node]);
		row->depth = 1;
		row->is_frame = true;
		row->found = rows->found[rows->tree->nodes[row->node].function];
		row->series = limpet_top_call_ends(call);
	}
	return 0;
}

static int add_site(struct limpet_top_rows *rows, uint32_t leaf, struct limpet_top_path *path)
{
	struct limpet_top_row *row = add_row(rows);
	struct limpet_top_call call = {0}, next;

	if (!row || limpet_top_path_read(path, rows->tree, leaf) < 0)
		return -ENOMEM;
	limpet_top_call_first(path, rows->view->full, &call);
	next = call;
	row->key = rows->keys[leaf];
	row->series = limpet_top_call_ends(&call);
	row->has_children = limpet_top_call_next(path, rows->view->full, &next);
	row->open = row->has_children && is_open(rows, row->key);
	row->found = is_found_above(rows, leaf);
	row->figures = rows->leaves[leaf];
	row->node = leaf;
	return row->open ? add_frames(rows, path, &call) : 0;
}

static int add_sites(struct limpet_top_rows *rows)
{
	struct limpet_top_path path = {.tree = NULL};
	int result = sort_leaves(rows);

	for (size_t i = 0; i < rows->order_count && result == 0; i++)
		result = add_site(rows, rows->order[i], &path);
	limpet_top_path_done(&path);
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

/* A name between marks, cut at its start, since its end says more. */
static char *function_name(const struct limpet_top_rows *rows, uint32_t number,
			   const struct limpet_recursion_marks *marks, size_t columns)
{
	const struct limpet_function *function = &rows->view->locations->functions[number];
	LIMPET_FREE char *name = limpet_function_name(function, rows->view->full);
	const size_t taken = strlen(marks->before) + strlen(marks->after);
	char *text = NULL;

	if (name && !rows->view->full)
		limpet_top_rows_drop_nameless(name);
	if (name && limpet_plain_text_columns(name) + taken > columns)
		limpet_printer_cut(name, columns > taken ? columns - taken : 0, true);
	if (!name || asprintf(&text, "%s%s%s", marks->before, name, marks->after) < 0)
		return NULL;
	return limpet_plain_text_clean(text);
}

static const struct limpet_recursion_marks no_marks = {.before = ""};

/* A row or a caller that is named alone: a series of several is not. */
static struct limpet_recursion_marks marks_alone(const struct limpet_recursion *series)
{
	return series->length == 1 ? limpet_recursion_marks(series, 0) : no_marks;
}

/* The file of a function, else its module; NULL: unknown, or in the name already. */
static const char *place_of(const struct limpet_function *function)
{
	if (function->file)
		return limpet_base_name(function->file);
	return function->named && function->module ? limpet_base_name(function->module) : NULL;
}

static char *function_text(const struct limpet_top_rows *rows, const struct limpet_top_row *row,
			   size_t columns)
{
	const uint32_t number = rows->tree->nodes[row->node].function;
	const struct limpet_function *function = &rows->view->locations->functions[number];
	struct limpet_recursion_marks marks = marks_alone(&row->series);
	LIMPET_FREE char *name = NULL;
	const char *where = place_of(function);
	char *text = NULL;

	if (row->series.length > 1)
		snprintf(marks.after, sizeof(marks.after), " (these %zu frames x%zu)",
			 row->series.length, row->series.times);
	name = function_name(rows, number, &marks, columns);
	if (!name || asprintf(&text, "%s%s%s", name, where ? "  " : "", where ? where : "") < 0)
		return NULL;
	return limpet_plain_text_clean(text);
}

/* A call that is shown, and what its name is between. */
struct shown {
	uint32_t function;
	struct limpet_recursion_marks marks;
};

/* The names of a function and its caller, in at most so many columns together, of which a long name
 * of the function leaves some to the caller's. */
static int name_pair(const struct limpet_top_rows *rows, const struct shown *calls, size_t count,
		     size_t columns, char *ret[2])
{
	const size_t least = columns * 3 / 5;
	size_t used;

	if (count < 2 || columns < NAME_LEAST) {
		ret[0] = function_name(rows, calls[0].function, &calls[0].marks, columns);
		return ret[0] ? 0 : -ENOMEM;
	}
	ret[1] = function_name(rows, calls[1].function, &calls[1].marks, SIZE_MAX);
	if (!ret[1])
		return -ENOMEM;
	used = limpet_plain_text_columns(ret[1]);
	ret[0] = function_name(rows, calls[0].function, &calls[0].marks,
			       used + least < columns ? columns - used : least);
	if (!ret[0])
		return -ENOMEM;
	used = limpet_plain_text_columns(ret[0]);
	limpet_printer_cut(ret[1], columns > used ? columns - used : 0, true);
	return 0;
}

/* The first calls from a node up. Returns their number, at least 1, or -ENOMEM. */
static int first_calls(const struct limpet_top_rows *rows, uint32_t node, struct shown *ret,
		       size_t most)
{
	struct limpet_top_path path = {.tree = NULL};
	struct limpet_top_call call;
	const bool full = rows->view->full;
	int count = limpet_top_path_read(&path, rows->tree, node);

	for (bool more = count == 0 && limpet_top_call_first(&path, full, &call);
	     more && (size_t)count < most; more = limpet_top_call_next(&path, full, &call))
		ret[count++] =
			(struct shown){.function = rows->tree->nodes[path.nodes[call.at]].function,
				       .marks = limpet_recursion_marks(&call.series, call.i)};
	limpet_top_path_done(&path);
	return count;
}

/* The function that allocates, and its callers. */
static char *site_text(const struct limpet_top_rows *rows, const struct limpet_top_row *row,
		       size_t columns)
{
	const size_t arrow = strlen(" < ");
	struct shown calls[CALLERS_SHOWN + 1] = {{.function = 0}};
	char *names[2] = {NULL, NULL}, *text;
	const int count =
		first_calls(rows, row->node, calls, row->open ? 1 : LIMPET_COUNT_OF(calls));

	if (count < 1)
		return NULL;
	if (row->open)
		calls[0].marks = marks_alone(&row->series);
	if (name_pair(rows, calls, (size_t)count,
		      count > 1 && columns > arrow ? columns - arrow : columns, names) < 0) {
		free(names[1]);
		return NULL;
	}
	text = names[0];
	for (int i = 1; text && i < count; i++) {
		LIMPET_FREE char *before = text;
		LIMPET_FREE char *caller =
			i == 1 && names[1]
				? LIMPET_TAKE(names[1])
				: function_name(rows, calls[i].function, &calls[i].marks, columns);

		if (!caller || asprintf(&text, "%s < %s", before, caller) < 0)
			text = NULL;
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

/* The node of the caller that has most of the row; 0: none. *ret_more: there are others. */
static uint32_t caller_of(const struct limpet_top_rows *rows, const struct limpet_top_row *row,
			  bool *ret_more)
{
	const struct limpet_view_node *nodes = rows->tree->nodes;
	uint32_t caller = row->node;

	*ret_more = false;
	if (rows->kind == LIMPET_TOP_CALLERS) {
		caller = nodes[last_repeated(rows, row->node)].first_child;
		*ret_more = caller && nodes[caller].next;
		return caller;
	}
	/* In the list of sites the calls that are not shown are above the node. */
	if (rows->kind == LIMPET_TOP_SITES)
		for (size_t i = row->series.length * (row->series.times - 1); i; i--)
			caller = nodes[caller].parent;
	return nodes[caller].parent;
}

/* The calls that a row's line is about. Returns their number, or -ENOMEM. */
static int calls_of_row(const struct limpet_top_rows *rows, const struct limpet_top_row *row,
			uint32_t caller, struct shown ret[2])
{
	ret[0] = (struct shown){.function = rows->tree->nodes[row->node].function,
				.marks = marks_alone(&row->series)};
	if (!caller)
		return 1;
	if (rows->kind == LIMPET_TOP_CALLERS)
		ret[1] = (struct shown){.function = rows->tree->nodes[caller].function,
					.marks = marks_alone(&rows->series[caller])};
	else if (first_calls(rows, caller, &ret[1], 1) < 0)
		return -ENOMEM;
	/* Of a series of several, only the caller itself. */
	if (ret[1].marks.before[0])
		ret[1].marks = no_marks;
	return 2;
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
	struct shown calls[2] = {{.function = 0}};
	int count;

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
	count = calls_of_row(rows, row, caller, calls);
	if (count > 0 &&
	    name_pair(rows, calls, (size_t)count, columns > taken ? columns - taken : 1, names) ==
		    0 &&
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
	return function_text(rows, row, columns);
}
