#include "analyzer/render/view_json.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#include "analyzer/render/json_printer.h"

struct context {
	struct limpet_heap *heap;
	const struct limpet_view_options *options;
	FILE *file;
	const struct limpet_model_site *base; /* what --min is a part of */
	size_t printed;                       /* of the list at hand */
};

static void begin_list(struct context *context, const char *key)
{
	fprintf(context->file, ",\n\"%s\":[", key);
	context->printed = 0;
}

static int print_item(struct context *context, json_t *value)
{
	return limpet_json_print(context->file, context->printed++ ? ",\n" : "\n", value);
}

static void end_list(struct context *context)
{
	fputs("]", context->file);
}

static json_t *figures_object(const struct context *context,
			      const struct limpet_model_site *figures)
{
	return limpet_json_figures(figures, context->heap->model->sample_bytes);
}

/* `more` is taken over into `object`, whose keys come first. */
static json_t *join(json_t *object, json_t *more)
{
	if (!object || !more || json_object_update(object, more)) {
		json_decref(object);
		json_decref(more);
		return NULL;
	}
	json_decref(more);
	return object;
}

static json_t *function_object(const struct context *context, uint32_t number)
{
	const struct limpet_function *function = &context->heap->locations->functions[number];

	return json_pack("{s:o,s:o,s:o,s:b}", "function", limpet_json_text(function->name),
			 "module", limpet_json_text(function->module), "file",
			 limpet_json_text(function->file), "noise",
			 function->kind != LIMPET_FRAME_PROGRAM);
}

static bool is_shown(const struct context *context, const struct limpet_model_site *figures)
{
	const struct limpet_view *view = &context->heap->view;
	int64_t whole = limpet_report_figure(context->base, view->sort);

	return context->options->least_share <= 0 ||
	       fabs((double)limpet_report_figure(figures, view->sort)) >=
		       context->options->least_share * fabs((double)whole);
}

/* ------------------------------------------------------------------ trees */

/* In the order of a walk: each node stands behind its parent. */
static int print_tree(struct context *context)
{
	const unsigned most = context->options->depth ? context->options->depth : UINT32_MAX;
	struct limpet_view_tree *tree;
	uint32_t at = 0;
	unsigned depth = 0;
	int result = limpet_view_tree_new(&context->heap->view,
					  context->options->kind == LIMPET_VIEW_BOTTOM_UP, &tree);

	if (result < 0)
		return result;
	begin_list(context, "nodes");
	for (;;) {
		const struct limpet_view_node *node = &tree->nodes[at];
		bool shown = !at || is_shown(context, &node->figures);

		if (at && shown)
			result = print_item(context,
					    join(json_pack("{s:I,s:I,s:I}", "id", (json_int_t)at,
							   "parent", (json_int_t)node->parent,
							   "depth", (json_int_t)depth),
						 join(function_object(context, node->function),
						      figures_object(context, &node->figures))));
		if (result || ferror(context->file))
			break;
		if (shown && node->first_child && depth < most) {
			at = node->first_child;
			depth++;
			continue;
		}
		while (at && !tree->nodes[at].next) {
			at = tree->nodes[at].parent;
			depth--;
		}
		if (!at)
			break;
		at = tree->nodes[at].next;
	}
	end_list(context);
	limpet_view_tree_free(tree);
	return result;
}

/* ------------------------------------------------------------------ tables */

static json_t *row_object(struct context *context, const struct limpet_view_row *row, bool self)
{
	json_t *object =
		join(function_object(context, row->function), figures_object(context, &row->total));

	if (object && self &&
	    json_object_set_new(object, "self", figures_object(context, &row->self))) {
		json_decref(object);
		return NULL;
	}
	return object;
}

static int print_rows(struct context *context, const char *key, const struct limpet_view_rows *rows,
		      bool self)
{
	int result = 0;

	begin_list(context, key);
	for (size_t i = 0; i < rows->count && i < context->options->limit && !result; i++)
		if (is_shown(context, &rows->rows[i].total))
			result = print_item(context, row_object(context, &rows->rows[i], self));
	end_list(context);
	return result;
}

static int print_functions(struct context *context)
{
	struct limpet_view_rows rows;
	int result = limpet_view_functions(&context->heap->view, &rows);

	if (result < 0)
		return result;
	result = print_rows(context, "functions", &rows, true);
	limpet_view_rows_done(&rows);
	return result;
}

static int print_modules(struct context *context)
{
	struct limpet_view_rows rows;
	int result = limpet_view_modules(&context->heap->view, &rows);

	if (result < 0)
		return result;
	begin_list(context, "modules");
	for (size_t i = 0; i < rows.count && i < context->options->limit && !result; i++) {
		const struct limpet_view_row *row = &rows.rows[i];
		json_t *object = join(json_pack("{s:o,s:o}", "module", limpet_json_text(row->name),
						"self", figures_object(context, &row->self)),
				      figures_object(context, &row->total));

		result = print_item(context, object);
	}
	end_list(context);
	limpet_view_rows_done(&rows);
	return result;
}

static int print_calls(struct context *context, struct limpet_view_calls *calls)
{
	int result;

	context->base = &calls->total;
	begin_list(context, "functions");
	result = 0;
	for (size_t i = 0; i < calls->chosen_count && !result; i++)
		result = print_item(context, function_object(context, calls->chosen[i]));
	end_list(context);
	if (!result)
		result = limpet_json_print(context->file,
					   ",\n\"total\":", figures_object(context, &calls->total));
	if (!result)
		result = limpet_json_print(context->file,
					   ",\n\"self\":", figures_object(context, &calls->self));
	if (!result)
		result = print_rows(context, "callers", &calls->callers, false);
	if (!result)
		result = print_rows(context, "callees", &calls->callees, false);
	begin_list(context, "lines");
	for (size_t i = 0; i < calls->lines.count && !result; i++) {
		const struct limpet_view_row *row = &calls->lines.rows[i];
		const struct limpet_location *place =
			&context->heap->locations->locations[row->function];

		result = print_item(
			context,
			join(json_pack("{s:o,s:o}", "file", limpet_json_text(place->file), "line",
				       place->line ? limpet_json_number(place->line) : json_null()),
			     figures_object(context, &row->total)));
	}
	end_list(context);
	return result;
}

/* ------------------------------------------------------------------ what a replay knows */

static int print_threads(struct context *context)
{
	const struct limpet_replay *replay = context->heap->replay;
	int result = 0;

	begin_list(context, "threads");
	for (size_t i = 0; i < replay->thread_count && i < context->options->limit && !result;
	     i++) {
		const struct limpet_replay_thread *thread = &replay->threads[i];

		result = print_item(
			context,
			join(json_pack("{s:o,s:o,s:o}", "thread", limpet_json_number(thread->tid),
				       "own_frees", limpet_json_number(thread->own_frees),
				       "own_freed_bytes",
				       limpet_json_number(thread->own_freed_bytes)),
			     figures_object(context, &thread->figures)));
	}
	end_list(context);
	return result;
}

static json_t *sizes_array(const struct limpet_replay *replay)
{
	json_t *array = json_array();

	for (size_t i = 0; array && i < replay->size_count; i++) {
		const struct limpet_model_size *size = &replay->sizes[i];

		if (json_array_append_new(
			    array,
			    json_pack("{s:o,s:o,s:o,s:o,s:o}", "from_bytes",
				      limpet_json_number(size->from_bytes), "to_bytes",
				      limpet_json_number(size->to_bytes), "allocations",
				      limpet_json_number(size->allocations), "allocated_bytes",
				      limpet_json_number(size->allocated_bytes), "average_bytes",
				      json_real((double)size->allocated_bytes /
						(double)size->allocations)))) {
			json_decref(array);
			return NULL;
		}
	}
	return array;
}

static json_t *ages_array(const struct limpet_replay_site *life)
{
	json_t *array = json_array();

	for (unsigned i = 0; array && i < LIMPET_REPLAY_AGES; i++) {
		json_t *below = i < LIMPET_REPLAY_AGES - 1
					? limpet_json_seconds(limpet_replay_age_limits_ns[i])
					: json_null();

		if (json_array_append_new(
			    array,
			    json_pack("{s:o,s:o,s:o,s:o,s:o}", "below_seconds", below, "freed",
				      limpet_json_number(life->freed.blocks[i]), "freed_bytes",
				      limpet_json_number(life->freed.bytes[i]), "alive",
				      limpet_json_number(life->alive.blocks[i]), "alive_bytes",
				      limpet_json_number(life->alive.bytes[i])))) {
			json_decref(array);
			return NULL;
		}
	}
	return array;
}

static json_t *life_object(struct context *context, const struct limpet_view_tree *tree,
			   const struct limpet_view_life *row)
{
	const bool sizes = context->options->kind == LIMPET_VIEW_SIZES;
	const struct limpet_replay_site *life = &row->life;
	json_t *stack = json_array(), *object;

	for (uint32_t at = row->leaf; stack && at; at = tree->nodes[at].parent)
		json_array_append_new(stack,
				      limpet_json_text(context->heap->locations
							       ->functions[tree->nodes[at].function]
							       .name));
	if (!stack)
		return NULL;
	if (sizes)
		object = json_pack("{s:o,s:o,s:o}", "stack", stack, "smallest_bytes",
				   limpet_json_number(life->smallest_bytes), "largest_bytes",
				   limpet_json_number(life->largest_bytes));
	else
		object = json_pack("{s:o,s:o,s:o}", "stack", stack, "oldest_seconds",
				   life->oldest_ns ? limpet_json_seconds(life->oldest_ns)
						   : json_null(),
				   "ages", ages_array(life));
	return join(object, figures_object(context, &life->figures));
}

static int print_lives(struct context *context)
{
	const bool sizes = context->options->kind == LIMPET_VIEW_SIZES;
	struct limpet_view_lives lives = {0};
	struct limpet_view_tree *tree;
	int result = limpet_view_tree_new(&context->heap->view, false, &tree);

	if (result < 0)
		return result;
	result = limpet_view_lives(&context->heap->view, tree, context->heap->replay, &lives);
	if (!result)
		result = limpet_json_print(context->file, sizes ? ",\n\"sizes\":" : ",\n\"ages\":",
					   sizes ? sizes_array(context->heap->replay)
						 : ages_array(&lives.all));
	begin_list(context, "sites");
	for (size_t i = 0; i < lives.count && i < context->options->limit && !result; i++)
		result = print_item(context, life_object(context, tree, &lives.rows[i]));
	end_list(context);
	limpet_view_lives_done(&lives);
	limpet_view_tree_free(tree);
	return result;
}

static int print_timeline(struct context *context)
{
	const struct limpet_replay *replay = context->heap->replay;
	const struct limpet_model *model = context->heap->model;
	size_t at = 0;
	int result = 0;

	begin_list(context, "timeline");
	for (size_t i = 0; i < replay->moment_count && !result; i++) {
		const struct limpet_replay_moment *moment = &replay->moments[i];
		const struct limpet_model_point *point;

		while (at < model->timeline_count && model->timeline[at].time_ns <= moment->to_ns)
			at++;
		point = at ? &model->timeline[at - 1] : NULL;
		result = print_item(
			context,
			json_pack("{s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o}", "from_seconds",
				  limpet_json_seconds(moment->from_ns), "to_seconds",
				  limpet_json_seconds(moment->to_ns), "highest_live_bytes",
				  limpet_json_number(moment->live_bytes), "live_bytes",
				  limpet_json_number(moment->last_bytes), "allocations",
				  limpet_json_number(moment->allocations), "allocated_bytes",
				  limpet_json_number(moment->allocated_bytes), "frees",
				  limpet_json_number(moment->frees), "temporary_allocations",
				  model->sample_bytes
					  ? json_null()
					  : limpet_json_number(moment->temporary_allocations),
				  "rss_bytes", limpet_json_known(point ? point->rss_bytes : 0),
				  "agent_bytes", limpet_json_known(point ? point->agent_bytes : 0),
				  "mapped_bytes",
				  point ? limpet_json_number(point->mapped_bytes) : json_null()));
	}
	end_list(context);
	return result;
}

/* ------------------------------------------------------------------ the whole */

static int print_head(struct context *context)
{
	const struct limpet_heap *heap = context->heap;
	const struct limpet_model *model = heap->model;
	int result;

	fprintf(context->file, "{\"format\":\"limpet-view\",\"version\":1,\"view\":\"%s\"",
		limpet_view_words[context->options->kind]);
	result = limpet_json_print(
		context->file, ",\n\"capture\":",
		json_pack("{s:o,s:o,s:b,s:b,s:b}", "pid", limpet_json_number(model->target->pid),
			  "comm", limpet_json_text(model->target->comm), "complete",
			  model->complete, "exact",
			  limpet_losses_exact(model->losses |
					      (heap->replay ? heap->replay->losses : 0)),
			  "estimated", model->sample_bytes != 0));
	if (!result)
		result = limpet_json_print(
			context->file, ",\n\"window\":",
			json_pack("{s:o,s:o}", "from_seconds", limpet_json_seconds(model->from_ns),
				  "to_seconds", limpet_json_seconds(model->to_ns)));
	if (!result)
		result = limpet_json_print(context->file, ",\n\"sort\":",
					   json_string(limpet_report_sort_words[heap->view.sort]));
	if (!result)
		result = limpet_json_print(context->file, ",\n\"totals\":",
					   figures_object(context, &heap->view.totals));
	if (!result && heap->filtered)
		result = limpet_json_print(
			context->file, ",\n\"hidden\":", figures_object(context, &heap->hidden));
	return result;
}

static int print_body(struct context *context)
{
	switch (context->options->kind) {
	case LIMPET_VIEW_BOTTOM_UP:
	case LIMPET_VIEW_TOP_DOWN:
		return print_tree(context);
	case LIMPET_VIEW_FUNCTIONS:
		return print_functions(context);
	case LIMPET_VIEW_THREADS:
		return print_threads(context);
	case LIMPET_VIEW_MODULES:
		return print_modules(context);
	case LIMPET_VIEW_SIZES:
	case LIMPET_VIEW_LIFETIMES:
		return print_lives(context);
	case LIMPET_VIEW_TIMELINE:
		return print_timeline(context);
	case LIMPET_VIEW_CALLERS:
	case LIMPET_VIEW_SITES:
	case LIMPET_VIEW_COUNT:
		break;
	}
	return -EINVAL;
}

int limpet_view_json_print(struct limpet_heap *heap, const struct limpet_view_options *options,
			   FILE *file, struct limpet_err *err)
{
	struct context context = {
		.heap = heap, .options = options, .file = file, .base = &heap->view.totals};
	struct limpet_view_calls *calls = NULL;
	int result = 0;

	/* Before the first byte: the function may not be there. */
	if (options->kind == LIMPET_VIEW_CALLERS)
		result = limpet_view_calls_new(&heap->view, options->function, &calls);
	if (result < 0 && calls)
		limpet_view_explain(&heap->view, options->function, calls, result, err);
	if (!result)
		result = print_head(&context);
	if (!result)
		result = calls ? print_calls(&context, calls) : print_body(&context);
	limpet_view_calls_free(calls);
	if (!result)
		fputs("}\n", file);
	return result;
}
