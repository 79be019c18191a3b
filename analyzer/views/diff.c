#include "analyzer/views/diff.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <uthash.h>

#include "analyzer/views/diff_verdict.h"
#include "common/array.h"
#include "common/base_name.h"

/* Lengths that differ by less are equal. */
#define EQUAL_SHARE 0.01

struct name {
	uint32_t number;
	UT_hash_handle hh;
	char text[];
};
struct child {
	uint64_t key; /* parent and name */
	uint32_t node;
	UT_hash_handle hh;
};

struct limpet_diff_private {
	struct name *names;
	struct child *children;
	size_t name_capacity, node_capacity, row_capacity, row_of_node_capacity;
	size_t *row_of_node; /* index + 1 */
};

static bool is_flow(enum limpet_report_sort sort)
{
	return sort != LIMPET_REPORT_LIVE && sort != LIMPET_REPORT_PEAK;
}

static int add_name(struct limpet_diff *diff, const char *text, uint32_t *ret_number)
{
	struct limpet_diff_private *private = diff->private;
	struct name *name;

	HASH_FIND_STR(private->names, text, name);
	if (!name) {
		if (limpet_reserve(&diff->names, &private->name_capacity, diff->name_count + 1ul,
				   sizeof(*diff->names)) < 0)
			return -ENOMEM;
		name = malloc(sizeof(*name) + strlen(text) + 1);
		if (!name)
			return -ENOMEM;
		strcpy(name->text, text);
		name->number = diff->name_count;
		HASH_ADD_STR(private->names, text, name);
		diff->names[diff->name_count++] = name->text;
	}
	*ret_number = name->number;
	return 0;
}

static int add_node(struct limpet_diff *diff, uint32_t parent, uint32_t name, uint32_t *ret_node)
{
	struct limpet_diff_private *private = diff->private;
	const uint64_t key = (uint64_t)parent << 32 | name;
	struct child *child;

	HASH_FIND(hh, private->children, &key, sizeof(key), child);
	if (!child) {
		if (limpet_reserve(&diff->nodes, &private->node_capacity, diff->node_count + 1ul,
				   sizeof(*diff->nodes)) < 0)
			return -ENOMEM;
		child = calloc(1, sizeof(*child));
		if (!child)
			return -ENOMEM;
		child->key = key;
		child->node = diff->node_count;
		HASH_ADD(hh, private->children, key, sizeof(child->key), child);
		diff->nodes[diff->node_count++] =
			(struct limpet_diff_node){.parent = parent, .name = name};
	}
	*ret_node = child->node;
	return 0;
}

static int find_row(struct limpet_diff *diff, uint32_t node, struct limpet_diff_row **ret_row)
{
	struct limpet_diff_private *private = diff->private;

	if (limpet_reserve_zeroed(&private->row_of_node, &private->row_of_node_capacity, node + 1ul,
				  sizeof(*private->row_of_node)) < 0)
		return -ENOMEM;
	if (!private->row_of_node[node]) {
		if (limpet_reserve(&diff->rows, &private->row_capacity, diff->row_count + 1,
				   sizeof(*diff->rows)) < 0)
			return -ENOMEM;
		diff->rows[diff->row_count] = (struct limpet_diff_row){.node = node};
		private->row_of_node[node] = ++diff->row_count;
	}
	*ret_row = &diff->rows[private->row_of_node[node] - 1];
	return 0;
}

/* Other profilers do not say where a module was: of its nameless functions nothing is the same in
 * another run. */
static const char *name_of(const struct limpet_analysis *analysis,
			   const struct limpet_function *function)
{
	return limpet_model_is_imported(analysis->model) && !function->named && function->module
		       ? limpet_base_name(function->module)
		       : function->name;
}

static int add_heap(struct limpet_diff *diff, const struct limpet_analysis *analysis, bool is_new)
{
	const struct limpet_view *view = &analysis->view;
	int code = 0;

	for (size_t i = 0; i < view->site_count && code == 0; i++) {
		struct limpet_location_stack stack;
		struct limpet_diff_row *row;
		uint32_t node = 0, name;

		code = limpet_locations_stack(view->locations, view->sites[i].node, view->full,
					      &stack);
		for (size_t k = stack.count; code == 0 && k-- > 0;) {
			uint32_t function = view->locations->locations[stack.list[k]].function;

			code = add_name(diff,
					name_of(analysis, &view->locations->functions[function]),
					&name);
			if (code == 0)
				code = add_node(diff, node, name, &node);
		}
		if (code < 0)
			break;
		code = find_row(diff, node, &row);
		if (code < 0)
			break;
		limpet_view_add_figures(is_new ? &row->new_figures : &row->old_figures,
					&view->sites[i]);
		row->nodes[is_new] = view->sites[i].node;
		limpet_lost_add(&row->lost[is_new], diff->leaks[is_new], view->sites[i].node);
	}
	return code;
}

/* ------------------------------------------------------------------ comparing */

bool limpet_diff_has_figure(const struct limpet_model_site *figures)
{
	return figures->allocations || figures->live_allocations || figures->peak_allocations ||
	       figures->frees;
}

static double length_of(const struct limpet_analysis *analysis)
{
	return (double)(analysis->model->to_ns - analysis->model->from_ns) / 1e9;
}

static double value_of(const struct limpet_diff *diff, const struct limpet_analysis *heap,
		       const struct limpet_model_site *figures)
{
	const double figure = (double)limpet_report_figure(figures, diff->sort);

	return diff->per_second ? figure / length_of(heap) : figure;
}

static void compare(const struct limpet_diff *diff, struct limpet_diff_row *row)
{
	const double old = value_of(diff, diff->old_heap, &row->old_figures);
	const double new = value_of(diff, diff->new_heap, &row->new_figures);

	row->old_value = llround(old);
	row->new_value = llround(new);
	row->change = llround(new - old);
	if (!limpet_diff_has_figure(&row->old_figures))
		row->state = LIMPET_DIFF_APPEARED;
	else if (!limpet_diff_has_figure(&row->new_figures))
		row->state = LIMPET_DIFF_VANISHED;
	else if (row->change)
		row->state = row->change > 0 ? LIMPET_DIFF_GREW : LIMPET_DIFF_SHRANK;
}

const char *limpet_diff_state_word(const struct limpet_diff *diff,
				   const struct limpet_diff_row *row)
{
	static const char *const words[] = {"same", "grew", "shrank", "appeared", "vanished"};
	static const char *const of_growth[] = {"same", "faster", "slower", "appeared", "vanished"};

	return diff->sort == LIMPET_REPORT_GROWTH ? of_growth[row->state] : words[row->state];
}

static int compare_rows(const void *a, const void *b)
{
	const struct limpet_diff_row *x = a, *y = b;
	int64_t p = llabs(x->change), q = llabs(y->change);

	if (p != q)
		return p > q ? -1 : 1;
	if (x->change != y->change)
		return x->change > y->change ? -1 : 1;
	if (x->new_value != y->new_value)
		return x->new_value > y->new_value ? -1 : 1;
	return x->node < y->node ? -1 : x->node > y->node;
}

static bool is_by_second(const struct limpet_diff *diff)
{
	const double a = length_of(diff->old_heap), b = length_of(diff->new_heap);

	return is_flow(diff->sort) && a > 0 && b > 0 && fabs(a - b) > EQUAL_SHARE * fmax(a, b);
}

int limpet_diff_new(const struct limpet_analysis *old_heap, const struct limpet_analysis *new_heap,
		    const struct limpet_verdict *const verdicts[2], struct limpet_diff **ret_diff)
{
	struct limpet_diff *diff = calloc(1, sizeof(*diff));
	uint32_t root;
	int code = -ENOMEM;

	if (!diff)
		return -ENOMEM;
	diff->old_heap = old_heap;
	diff->new_heap = new_heap;
	diff->leaks[0] = limpet_lost_counts(old_heap->model, old_heap->filtered);
	diff->leaks[1] = limpet_lost_counts(new_heap->model, new_heap->filtered);
	diff->sort = new_heap->view.sort;
	diff->per_second = is_by_second(diff);
	diff->private = calloc(1, sizeof(*diff->private));
	if (diff->private)
		code = add_name(diff, "", &root);
	if (code == 0)
		code = add_node(diff, 0, root, &root);
	if (code == 0)
		code = add_heap(diff, old_heap, false);
	if (code == 0)
		code = add_heap(diff, new_heap, true);
	if (code < 0) {
		limpet_diff_free(diff);
		return code;
	}
	for (size_t i = 0; i < diff->row_count; i++)
		compare(diff, &diff->rows[i]);
	qsort(diff->rows, diff->row_count, sizeof(*diff->rows), compare_rows);
	diff->totals.old_figures = old_heap->view.totals;
	diff->totals.new_figures = new_heap->view.totals;
	compare(diff, &diff->totals);
	code = limpet_diff_judge(diff, verdicts, &diff->verdict);
	if (code < 0) {
		limpet_diff_free(diff);
		return code;
	}
	*ret_diff = diff;
	return 0;
}

static void free_private(struct limpet_diff_private *private)
{
	struct name *name = private->names;
	struct child *child = private->children;

	HASH_CLEAR(hh, private->names);
	while (name) {
		struct name *next = name->hh.next;

		free(name);
		name = next;
	}
	HASH_CLEAR(hh, private->children);
	while (child) {
		struct child *next = child->hh.next;

		free(child);
		child = next;
	}
	free(private->row_of_node);
	free(private);
}

void limpet_diff_free(struct limpet_diff *diff)
{
	if (!diff)
		return;
	if (diff->private)
		free_private(diff->private);
	free(diff->verdict);
	free(diff->nodes);
	free(diff->names);
	free(diff->rows);
	free(diff);
}
