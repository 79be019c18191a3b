#include "analyzer/views/view.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"

void limpet_view_add_figures(struct limpet_model_site *to, const struct limpet_model_site *from)
{
	to->allocations += from->allocations;
	to->allocated_bytes += from->allocated_bytes;
	to->frees += from->frees;
	to->freed_bytes += from->freed_bytes;
	to->temporary_allocations += from->temporary_allocations;
	to->reallocations += from->reallocations;
	to->live_allocations += from->live_allocations;
	to->live_bytes += from->live_bytes;
	to->peak_allocations += from->peak_allocations;
	to->peak_bytes += from->peak_bytes;
	to->growth_bytes += from->growth_bytes;
}

void limpet_view_add_up(struct limpet_view *view)
{
	view->totals = (struct limpet_model_site){0};
	for (size_t i = 0; i < view->site_count; i++)
		limpet_view_add_figures(&view->totals, &view->sites[i]);
}

/* Orders figures by the sort, then by bytes allocated. Callers then order by number. */
static int compare_figures(const struct limpet_model_site *x, const struct limpet_model_site *y,
			   enum limpet_report_sort sort)
{
	int64_t p = limpet_report_figure(x, sort), q = limpet_report_figure(y, sort);

	if (p != q)
		return p > q ? -1 : 1;
	if (x->allocated_bytes != y->allocated_bytes)
		return x->allocated_bytes > y->allocated_bytes ? -1 : 1;
	return 0;
}

/* ------------------------------------------------------------------ trees */

/* Children by (parent, function); open addressing, as trees have millions. */
struct index {
	uint32_t *slots; /* node; 0: free */
	size_t capacity;
};

static size_t hash_child(uint32_t parent, uint32_t function)
{
	uint64_t hash = ((uint64_t)parent << 32 | function) * 0x9e3779b97f4a7c15ull;

	return hash ^ hash >> 32;
}

static void index_insert(struct index *index, const struct limpet_view_tree *tree, uint32_t node)
{
	size_t at = hash_child(tree->nodes[node].parent, tree->nodes[node].function);

	while (index->slots[at & (index->capacity - 1)])
		at++;
	index->slots[at & (index->capacity - 1)] = node;
}

static int index_grow(struct index *index, const struct limpet_view_tree *tree)
{
	struct index larger = {.capacity = index->capacity ? 2 * index->capacity : 1024};

	if (2ul * tree->count < index->capacity)
		return 0;
	larger.slots = calloc(larger.capacity, sizeof(*larger.slots));
	if (!larger.slots)
		return -ENOMEM;
	for (uint32_t i = 1; i < tree->count; i++)
		index_insert(&larger, tree, i);
	free(index->slots);
	*index = larger;
	return 0;
}

static int find_child(struct limpet_view_tree *tree, struct index *index, uint32_t parent,
		      uint32_t function, uint32_t *ret_node)
{
	size_t at = hash_child(parent, function);
	int code;

	for (;; at++) {
		uint32_t node = index->slots[at & (index->capacity - 1)];

		if (!node)
			break;
		if (tree->nodes[node].parent == parent && tree->nodes[node].function == function) {
			*ret_node = node;
			return 0;
		}
	}
	if (tree->count > INT32_MAX || limpet_reserve(&tree->nodes, &tree->capacity,
						      tree->count + 1, sizeof(*tree->nodes)) < 0)
		return -ENOMEM;
	tree->nodes[tree->count] = (struct limpet_view_node){
		.parent = parent, .function = function, .largest = INT64_MIN};
	index_insert(index, tree, tree->count);
	*ret_node = tree->count++;
	code = index_grow(index, tree);
	return code;
}

static void add_to_node(const struct limpet_view *view, struct limpet_view_node *node,
			const struct limpet_model_site *site)
{
	int64_t figure = limpet_report_figure(site, view->sort);

	limpet_view_add_figures(&node->figures, site);
	if (figure > node->largest) {
		node->largest = figure;
		node->figures.node = site->node;
	}
}

static int add_stack(const struct limpet_view *view, struct limpet_view_tree *tree,
		     struct index *index, bool bottom_up, size_t site)
{
	struct limpet_location_stack stack;
	uint32_t node = 0;
	int code =
		limpet_locations_stack(view->locations, view->sites[site].node, view->full, &stack);

	if (code < 0)
		return code;
	add_to_node(view, &tree->nodes[0], &view->sites[site]);
	for (size_t i = 0; i < stack.count && code == 0; i++) {
		uint32_t place = stack.list[bottom_up ? i : stack.count - 1 - i];
		uint32_t function = view->locations->locations[place].function;

		if (view->alike)
			function = view->alike[function];
		code = find_child(tree, index, node, function, &node);
		if (code == 0)
			add_to_node(view, &tree->nodes[node], &view->sites[site]);
	}
	tree->leaf_of_site[site] = node;
	return code;
}

struct order {
	const struct limpet_view *view;
	const struct limpet_view_node *nodes;
};

static int compare_nodes(const void *a, const void *b, void *context)
{
	const struct order *order = context;
	const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
	const struct limpet_view_node *p = &order->nodes[x], *q = &order->nodes[y];
	int result;

	if (p->parent != q->parent)
		return p->parent < q->parent ? -1 : 1;
	result = compare_figures(&p->figures, &q->figures, order->view->sort);
	return result ? result : x < y ? -1 : x > y;
}

static int link_children(const struct limpet_view *view, struct limpet_view_tree *tree)
{
	LIMPET_FREE uint32_t *list = calloc(tree->count, sizeof(*list));
	struct order order = {.view = view, .nodes = tree->nodes};
	uint32_t before = 0;

	if (!list)
		return -ENOMEM;
	for (uint32_t i = 1; i < tree->count; i++)
		list[i] = i;
	qsort_r(list + 1, tree->count - 1, sizeof(*list), compare_nodes, &order);
	for (uint32_t i = 1; i < tree->count; i++) {
		struct limpet_view_node *node = &tree->nodes[list[i]];

		if (before && tree->nodes[before].parent == node->parent)
			tree->nodes[before].next = list[i];
		else
			tree->nodes[node->parent].first_child = list[i];
		before = list[i];
	}
	return 0;
}

int limpet_view_tree_new(const struct limpet_view *view, bool bottom_up,
			 struct limpet_view_tree **ret_tree)
{
	struct limpet_view_tree *tree = calloc(1, sizeof(*tree));
	struct index index = {0};
	int code = -ENOMEM;

	if (!tree)
		return -ENOMEM;
	tree->leaf_of_site = calloc(view->site_count + 1, sizeof(*tree->leaf_of_site));
	if (tree->leaf_of_site &&
	    limpet_reserve(&tree->nodes, &tree->capacity, 1, sizeof(*tree->nodes)) == 0) {
		tree->nodes[tree->count++] = (struct limpet_view_node){.largest = INT64_MIN};
		code = index_grow(&index, tree);
	}
	for (size_t i = 0; i < view->site_count && code == 0; i++)
		code = add_stack(view, tree, &index, bottom_up, i);
	free(index.slots);
	if (code == 0)
		code = link_children(view, tree);
	if (code < 0) {
		limpet_view_tree_free(tree);
		return code;
	}
	*ret_tree = tree;
	return 0;
}

void limpet_view_tree_free(struct limpet_view_tree *tree)
{
	if (!tree)
		return;
	free(tree->nodes);
	free(tree->leaf_of_site);
	free(tree);
}

/* ------------------------------------------------------------------ rows */

struct row_order {
	enum limpet_report_sort sort;
	bool by_self;
};

static int compare_rows(const void *a, const void *b, void *context)
{
	const struct limpet_view_row *x = a, *y = b;
	const struct row_order *order = context;
	int result = 0;

	if (order->by_self)
		result = compare_figures(&x->self, &y->self, order->sort);
	if (!result)
		result = compare_figures(&x->total, &y->total, order->sort);
	return result ? result : x->function < y->function ? -1 : x->function > y->function;
}

static bool has_figure(const struct limpet_model_site *figures)
{
	return figures->allocations || figures->frees || figures->live_allocations ||
	       figures->peak_allocations;
}

/* Drops rows without figures, and sorts. */
static void finish_rows(const struct limpet_view *view, struct limpet_view_rows *rows, bool by_self)
{
	struct row_order order = {.sort = view->sort, .by_self = by_self};
	size_t kept = 0;

	for (size_t i = 0; i < rows->count; i++)
		if (has_figure(&rows->rows[i].total))
			rows->rows[kept++] = rows->rows[i];
	rows->count = kept;
	qsort_r(rows->rows, kept, sizeof(*rows->rows), compare_rows, &order);
}

void limpet_view_rows_done(struct limpet_view_rows *rows)
{
	free(rows->rows);
	*rows = (struct limpet_view_rows){0};
}

static int new_rows(struct limpet_view_rows *rows, size_t count)
{
	rows->rows = calloc(count + 1, sizeof(*rows->rows));
	if (!rows->rows)
		return -ENOMEM;
	rows->count = count;
	for (size_t i = 0; i < count; i++)
		rows->rows[i].function = (uint32_t)i;
	return 0;
}

/* Adds each site to the rows of its functions, once to each, or to those with the numbers of these;
 * then 0 is of none, and a cut stack's unknown callers count for nothing. */
static int add_sites(const struct limpet_view *view, const uint32_t *numbers,
		     struct limpet_view_rows *rows)
{
	LIMPET_FREE size_t *seen = calloc(rows->count + 1, sizeof(*seen));
	int code = seen ? 0 : -ENOMEM;

	for (size_t i = 0; i < view->site_count && code == 0; i++) {
		struct limpet_location_stack stack;

		code = limpet_locations_stack(view->locations, view->sites[i].node, view->full,
					      &stack);
		for (size_t k = 0; code == 0 && k < stack.count; k++) {
			const uint32_t function =
				view->locations->locations[stack.list[k]].function;
			const uint32_t at = numbers ? numbers[function] : function;

			if (!k)
				limpet_view_add_figures(&rows->rows[at].self, &view->sites[i]);
			if (seen[at] == i + 1 ||
			    (numbers && !at && k && stack.list[k] == LIMPET_LOCATION_CUT))
				continue;
			seen[at] = i + 1;
			limpet_view_add_figures(&rows->rows[at].total, &view->sites[i]);
		}
	}
	if (code < 0)
		limpet_view_rows_done(rows);
	return code;
}

int limpet_view_functions(const struct limpet_view *view, struct limpet_view_rows *ret_rows)
{
	struct limpet_view_rows rows = {0};
	int code = new_rows(&rows, view->locations->function_count);

	if (code == 0)
		code = add_sites(view, NULL, &rows);
	if (code < 0)
		return code;
	finish_rows(view, &rows, false);
	*ret_rows = rows;
	return 0;
}

/* ------------------------------------------------------------------ modules */

static int compare_names(const void *a, const void *b)
{
	const char *const *x = a, *const *y = b;

	return strcmp(*x, *y);
}

/* Numbers the modules of functions; 0 is code in none. */
static int number_modules(const struct limpet_locations *locations, uint32_t **ret_numbers,
			  const char ***ret_names, size_t *ret_count)
{
	const char **names = calloc(locations->function_count + 1ul, sizeof(*names));
	uint32_t *numbers = calloc(locations->function_count + 1ul, sizeof(*numbers));
	size_t count = 0, kept = 1;

	if (!names || !numbers) {
		free(names);
		free(numbers);
		return -ENOMEM;
	}
	names[0] = "";
	for (uint32_t i = 0; i < locations->function_count; i++)
		if (locations->functions[i].module)
			names[1 + count++] = locations->functions[i].module;
	qsort(names + 1, count, sizeof(*names), compare_names);
	for (size_t i = 1; i <= count; i++)
		if (kept == 1 || strcmp(names[kept - 1], names[i]) != 0)
			names[kept++] = names[i];
	for (uint32_t i = 0; i < locations->function_count; i++) {
		const char **found = NULL;

		if (locations->functions[i].module)
			found = bsearch(&locations->functions[i].module, names + 1, kept - 1,
					sizeof(*names), compare_names);
		numbers[i] = found ? (uint32_t)(found - names) : 0;
	}
	*ret_numbers = numbers;
	*ret_names = names;
	*ret_count = kept;
	return 0;
}

int limpet_view_modules(const struct limpet_view *view, struct limpet_view_rows *ret_rows)
{
	LIMPET_FREE uint32_t *numbers = NULL;
	LIMPET_FREE const char **names = NULL;
	struct limpet_view_rows rows = {0};
	size_t count = 0;
	int code = number_modules(view->locations, &numbers, &names, &count);

	if (code == 0)
		code = new_rows(&rows, count);
	for (size_t i = 0; i < count && code == 0; i++)
		rows.rows[i].name = i ? names[i] : NULL;
	if (code == 0)
		code = add_sites(view, numbers, &rows);
	if (code < 0)
		return code;
	finish_rows(view, &rows, true);
	*ret_rows = rows;
	return 0;
}

/* ------------------------------------------------------------------ lives */

static void add_life(struct limpet_view_replayed *to, const struct limpet_replay_site *from)
{
	if (from->figures.allocations &&
	    (!to->figures.allocations || from->smallest_bytes < to->smallest_bytes))
		to->smallest_bytes = from->smallest_bytes;
	if (from->largest_bytes > to->largest_bytes)
		to->largest_bytes = from->largest_bytes;
	if (from->oldest_ns > to->oldest_ns)
		to->oldest_ns = from->oldest_ns;
	limpet_view_add_figures(&to->figures, &from->figures);
	limpet_replay_add_ages(from, &to->freed, &to->alive);
}

static int compare_lives(const void *a, const void *b, void *context)
{
	const struct limpet_view_life *x = a, *y = b;
	const struct limpet_view *view = context;
	int result = compare_figures(&x->life.figures, &y->life.figures, view->sort);

	return result ? result : x->leaf < y->leaf ? -1 : x->leaf > y->leaf;
}

int limpet_view_lives(const struct limpet_view *view, const struct limpet_view_tree *tree,
		      const struct limpet_replay *replay, struct limpet_view_lives *ret_lives)
{
	LIMPET_FREE uint32_t *row_of_leaf = calloc(tree->count, sizeof(*row_of_leaf));
	struct limpet_view_lives lives = {0};
	size_t at = 0;

	lives.rows = calloc(view->site_count + 1, sizeof(*lives.rows));
	if (!lives.rows || !row_of_leaf) {
		limpet_view_lives_done(&lives);
		return -ENOMEM;
	}
	/* Both lists are in the order of nodes. */
	for (size_t i = 0; i < replay->site_count; i++) {
		const struct limpet_replay_site *site = &replay->sites[i];
		uint32_t leaf;

		while (at < view->site_count && view->sites[at].node < site->figures.node)
			at++;
		if (at == view->site_count || view->sites[at].node != site->figures.node)
			continue;
		leaf = tree->leaf_of_site[at];
		if (!row_of_leaf[leaf]) {
			lives.rows[lives.count].leaf = leaf;
			row_of_leaf[leaf] = (uint32_t)++lives.count;
		}
		add_life(&lives.rows[row_of_leaf[leaf] - 1].life, site);
		add_life(&lives.all, site);
	}
	qsort_r(lives.rows, lives.count, sizeof(*lives.rows), compare_lives,
		(void *)(uintptr_t)view);
	*ret_lives = lives;
	return 0;
}

void limpet_view_lives_done(struct limpet_view_lives *lives)
{
	free(lives->rows);
	*lives = (struct limpet_view_lives){0};
}

/* ------------------------------------------------------------------ callers and callees */

/* Length of a name before its parameters; `operator()` and `(anonymous namespace)` are no end. */
static size_t bare_length(const char *name)
{
	size_t depth = 0, length = strlen(name);

	if (!length || name[length - 1] != ')') {
		const char *last = strrchr(name, ')');

		/* `f() const` */
		if (!last || strspn(last + 1, " abcdefghijklmnopqrstuvwxyz&") != strlen(last + 1))
			return length;
		length = (size_t)(last + 1 - name);
	}
	for (size_t i = length; i-- > 0;) {
		if (name[i] == ')')
			depth++;
		else if (name[i] == '(' && !--depth)
			return i ? i : strlen(name);
	}
	return strlen(name);
}

static bool is_named(const char *function, const char *name)
{
	size_t length = strlen(name);

	return !strcmp(function, name) ||
	       (bare_length(function) == length && !strncmp(function, name, length));
}

/* Finds the functions of that name that are on a stack. */
static int choose(const struct limpet_view *view, const struct limpet_view_rows *met,
		  const char *name, struct limpet_view_calls *calls)
{
	const struct limpet_function *functions = view->locations->functions;

	calls->chosen = calloc(met->count + 1, sizeof(*calls->chosen));
	if (!calls->chosen)
		return -ENOMEM;
	for (size_t i = 0; i < met->count; i++)
		if (is_named(functions[met->rows[i].function].name, name))
			calls->chosen[calls->chosen_count++] = met->rows[i].function;
	if (calls->chosen_count)
		return 0;
	for (size_t i = 0; i < met->count; i++)
		if (strstr(functions[met->rows[i].function].name, name))
			calls->chosen[calls->chosen_count++] = met->rows[i].function;
	if (!calls->chosen_count)
		return -ENOENT;
	return calls->chosen_count == 1 ? 0 : -ENOTUNIQ;
}

struct stamps {
	bool *chosen;                   /* by function */
	size_t *caller, *callee, *line; /* by function, by function, by place: site that counted */
};

static void add_once(const struct limpet_view *view, struct limpet_view_rows *rows, size_t *stamps,
		     uint32_t at, size_t site)
{
	if (stamps[at] == site + 1)
		return;
	stamps[at] = site + 1;
	limpet_view_add_figures(&rows->rows[at].total, &view->sites[site]);
}

static int add_calls(const struct limpet_view *view, struct limpet_view_calls *calls,
		     const struct stamps *stamps, size_t site)
{
	const struct limpet_location *locations = view->locations->locations;
	struct limpet_location_stack stack;
	bool met = false;
	int code =
		limpet_locations_stack(view->locations, view->sites[site].node, view->full, &stack);

	if (code < 0)
		return code;
	for (size_t k = 0; k < stack.count; k++) {
		if (!stamps->chosen[locations[stack.list[k]].function])
			continue;
		if (!k)
			limpet_view_add_figures(&calls->self, &view->sites[site]);
		if (!met)
			limpet_view_add_figures(&calls->total, &view->sites[site]);
		met = true;
		add_once(view, &calls->lines, stamps->line, stack.list[k], site);
		if (k)
			add_once(view, &calls->callees, stamps->callee,
				 locations[stack.list[k - 1]].function, site);
		if (k + 1 < stack.count)
			add_once(view, &calls->callers, stamps->caller,
				 locations[stack.list[k + 1]].function, site);
	}
	return 0;
}

static int count_calls(const struct limpet_view *view, struct limpet_view_calls *calls)
{
	const size_t functions = view->locations->function_count,
		     locations = view->locations->location_count;
	LIMPET_FREE bool *chosen = calloc(functions + 1, sizeof(*chosen));
	LIMPET_FREE size_t *caller = calloc(functions + 1, sizeof(*caller));
	LIMPET_FREE size_t *callee = calloc(functions + 1, sizeof(*callee));
	LIMPET_FREE size_t *line = calloc(locations + 1, sizeof(*line));
	const struct stamps stamps = {chosen, caller, callee, line};
	int code;

	if (!chosen || !caller || !callee || !line)
		return -ENOMEM;
	for (size_t i = 0; i < calls->chosen_count; i++)
		chosen[calls->chosen[i]] = true;
	code = new_rows(&calls->callers, functions);
	if (code == 0)
		code = new_rows(&calls->callees, functions);
	if (code == 0)
		code = new_rows(&calls->lines, locations);
	for (size_t i = 0; i < view->site_count && code == 0; i++)
		code = add_calls(view, calls, &stamps, i);
	if (code < 0)
		return code;
	finish_rows(view, &calls->callers, false);
	finish_rows(view, &calls->callees, false);
	finish_rows(view, &calls->lines, false);
	return 0;
}

int limpet_view_calls_new(const struct limpet_view *view, const char *name,
			  struct limpet_view_calls **ret_calls)
{
	struct limpet_view_calls *calls = calloc(1, sizeof(*calls));
	struct limpet_view_rows met = {0};
	int code = calls ? limpet_view_functions(view, &met) : -ENOMEM;

	if (code == 0)
		code = choose(view, &met, name, calls);
	limpet_view_rows_done(&met);
	if (code == 0)
		code = count_calls(view, calls);
	if (code == 0 || code == -ENOENT || code == -ENOTUNIQ)
		*ret_calls = calls;
	else
		limpet_view_calls_free(calls);
	return code;
}

void limpet_view_calls_free(struct limpet_view_calls *calls)
{
	if (!calls)
		return;
	limpet_view_rows_done(&calls->callers);
	limpet_view_rows_done(&calls->callees);
	limpet_view_rows_done(&calls->lines);
	free(calls->chosen);
	free(calls);
}
