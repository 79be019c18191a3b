#include "analyzer/view_json.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#include "analyzer/json_pen.h"

struct talk {
	struct limpet_heap *heap;
	const struct limpet_view_options *options;
	FILE *file;
	const struct limpet_model_site *base; /* what --min is a part of */
	size_t printed;                       /* of the list at hand */
};

static void begin_list(struct talk *talk, const char *key)
{
	fprintf(talk->file, ",\n\"%s\":[", key);
	talk->printed = 0;
}

static int print_item(struct talk *talk, json_t *value)
{
	return limpet_json_print(talk->file, talk->printed++ ? ",\n" : "\n", value);
}

static void end_list(struct talk *talk)
{
	fputs("]", talk->file);
}

static json_t *figures_object(const struct talk *talk, const struct limpet_model_site *figures)
{
	return limpet_json_figures(figures, talk->heap->model->sample_bytes);
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

static json_t *function_object(const struct talk *talk, uint32_t number)
{
	const struct limpet_function *function = &talk->heap->places->functions[number];

	return json_pack("{s:o,s:o,s:o,s:b}", "function", limpet_json_text(function->name),
			 "module", limpet_json_text(function->module), "file",
			 limpet_json_text(function->file), "noise",
			 function->kind != LIMPET_FOLD_PROGRAM);
}

static bool is_shown(const struct talk *talk, const struct limpet_model_site *figures)
{
	const struct limpet_view *view = &talk->heap->view;
	int64_t whole = limpet_report_figure(talk->base, view->sort);

	return talk->options->least_share <= 0 ||
	       fabs((double)limpet_report_figure(figures, view->sort)) >=
		       talk->options->least_share * fabs((double)whole);
}

/* ------------------------------------------------------------------ trees */

/* In the order of a walk: each node stands behind its parent. */
static int print_tree(struct talk *talk)
{
	const unsigned most = talk->options->depth ? talk->options->depth : UINT32_MAX;
	struct limpet_view_tree *tree;
	uint32_t at = 0;
	unsigned depth = 0;
	int result = limpet_view_tree_new(&talk->heap->view,
					  talk->options->kind == LIMPET_VIEW_BOTTOM_UP, &tree);

	if (result < 0)
		return result;
	begin_list(talk, "nodes");
	for (;;) {
		const struct limpet_view_node *node = &tree->nodes[at];
		bool shown = !at || is_shown(talk, &node->figures);

		if (at && shown)
			result = print_item(talk,
					    join(json_pack("{s:I,s:I,s:I}", "id", (json_int_t)at,
							   "parent", (json_int_t)node->parent,
							   "depth", (json_int_t)depth),
						 join(function_object(talk, node->function),
						      figures_object(talk, &node->figures))));
		if (result || ferror(talk->file))
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
	end_list(talk);
	limpet_view_tree_free(tree);
	return result;
}

/* ------------------------------------------------------------------ tables */

static json_t *row_object(struct talk *talk, const struct limpet_view_row *row, bool self)
{
	json_t *object =
		join(function_object(talk, row->function), figures_object(talk, &row->total));

	if (object && self &&
	    json_object_set_new(object, "self", figures_object(talk, &row->self))) {
		json_decref(object);
		return NULL;
	}
	return object;
}

static int print_rows(struct talk *talk, const char *key, const struct limpet_view_rows *rows,
		      bool self)
{
	int result = 0;

	begin_list(talk, key);
	for (size_t i = 0; i < rows->count && i < talk->options->limit && !result; i++)
		if (is_shown(talk, &rows->rows[i].total))
			result = print_item(talk, row_object(talk, &rows->rows[i], self));
	end_list(talk);
	return result;
}

static int print_functions(struct talk *talk)
{
	struct limpet_view_rows rows;
	int result = limpet_view_functions(&talk->heap->view, &rows);

	if (result < 0)
		return result;
	result = print_rows(talk, "functions", &rows, true);
	limpet_view_rows_done(&rows);
	return result;
}

static int print_modules(struct talk *talk)
{
	struct limpet_view_rows rows;
	int result = limpet_view_modules(&talk->heap->view, &rows);

	if (result < 0)
		return result;
	begin_list(talk, "modules");
	for (size_t i = 0; i < rows.count && i < talk->options->limit && !result; i++) {
		const struct limpet_view_row *row = &rows.rows[i];
		json_t *object = join(json_pack("{s:o,s:o}", "module", limpet_json_text(row->name),
						"self", figures_object(talk, &row->self)),
				      figures_object(talk, &row->total));

		result = print_item(talk, object);
	}
	end_list(talk);
	limpet_view_rows_done(&rows);
	return result;
}

static int print_calls(struct talk *talk, struct limpet_view_calls *calls)
{
	int result;

	talk->base = &calls->total;
	begin_list(talk, "functions");
	result = 0;
	for (size_t i = 0; i < calls->chosen_count && !result; i++)
		result = print_item(talk, function_object(talk, calls->chosen[i]));
	end_list(talk);
	if (!result)
		result = limpet_json_print(talk->file,
					   ",\n\"total\":", figures_object(talk, &calls->total));
	if (!result)
		result = limpet_json_print(talk->file,
					   ",\n\"self\":", figures_object(talk, &calls->self));
	if (!result)
		result = print_rows(talk, "callers", &calls->callers, false);
	if (!result)
		result = print_rows(talk, "callees", &calls->callees, false);
	begin_list(talk, "lines");
	for (size_t i = 0; i < calls->lines.count && !result; i++) {
		const struct limpet_view_row *row = &calls->lines.rows[i];
		const struct limpet_place *place = &talk->heap->places->places[row->function];

		result = print_item(
			talk,
			join(json_pack("{s:o,s:o}", "file", limpet_json_text(place->file), "line",
				       place->line ? limpet_json_number(place->line) : json_null()),
			     figures_object(talk, &row->total)));
	}
	end_list(talk);
	return result;
}

/* ------------------------------------------------------------------ what a replay knows */

static int print_threads(struct talk *talk)
{
	const struct limpet_replay *replay = talk->heap->replay;
	int result = 0;

	begin_list(talk, "threads");
	for (size_t i = 0; i < replay->thread_count && i < talk->options->limit && !result; i++) {
		const struct limpet_replay_thread *thread = &replay->threads[i];

		result = print_item(
			talk,
			join(json_pack("{s:o,s:o,s:o}", "thread", limpet_json_number(thread->tid),
				       "own_frees", limpet_json_number(thread->own_frees),
				       "own_freed_bytes",
				       limpet_json_number(thread->own_freed_bytes)),
			     figures_object(talk, &thread->figures)));
	}
	end_list(talk);
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

static json_t *life_object(struct talk *talk, const struct limpet_view_tree *tree,
			   const struct limpet_view_life *row)
{
	const bool sizes = talk->options->kind == LIMPET_VIEW_SIZES;
	const struct limpet_replay_site *life = &row->life;
	json_t *stack = json_array(), *object;

	for (uint32_t at = row->leaf; stack && at; at = tree->nodes[at].parent)
		json_array_append_new(
			stack,
			limpet_json_text(
				talk->heap->places->functions[tree->nodes[at].function].name));
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
	return join(object, figures_object(talk, &life->figures));
}

static int print_lives(struct talk *talk)
{
	const bool sizes = talk->options->kind == LIMPET_VIEW_SIZES;
	struct limpet_view_lives lives = {0};
	struct limpet_view_tree *tree;
	int result = limpet_view_tree_new(&talk->heap->view, false, &tree);

	if (result < 0)
		return result;
	result = limpet_view_lives(&talk->heap->view, tree, talk->heap->replay, &lives);
	if (!result)
		result = limpet_json_print(talk->file, sizes ? ",\n\"sizes\":" : ",\n\"ages\":",
					   sizes ? sizes_array(talk->heap->replay)
						 : ages_array(&lives.all));
	begin_list(talk, "sites");
	for (size_t i = 0; i < lives.count && i < talk->options->limit && !result; i++)
		result = print_item(talk, life_object(talk, tree, &lives.rows[i]));
	end_list(talk);
	limpet_view_lives_done(&lives);
	limpet_view_tree_free(tree);
	return result;
}

static int print_timeline(struct talk *talk)
{
	const struct limpet_replay *replay = talk->heap->replay;
	const struct limpet_model *model = talk->heap->model;
	size_t at = 0;
	int result = 0;

	begin_list(talk, "timeline");
	for (size_t i = 0; i < replay->moment_count && !result; i++) {
		const struct limpet_replay_moment *moment = &replay->moments[i];
		const struct limpet_model_point *point;

		while (at < model->timeline_count && model->timeline[at].time_ns <= moment->to_ns)
			at++;
		point = at ? &model->timeline[at - 1] : NULL;
		result = print_item(
			talk,
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
	end_list(talk);
	return result;
}

/* ------------------------------------------------------------------ the whole */

static int print_head(struct talk *talk)
{
	const struct limpet_heap *heap = talk->heap;
	const struct limpet_model *model = heap->model;
	int result;

	fprintf(talk->file, "{\"format\":\"limpet-view\",\"version\":1,\"view\":\"%s\"",
		limpet_view_words[talk->options->kind]);
	result = limpet_json_print(
		talk->file, ",\n\"capture\":",
		json_pack("{s:o,s:o,s:b,s:b,s:b}", "pid", limpet_json_number(model->target->pid),
			  "comm", limpet_json_text(model->target->comm), "complete",
			  model->complete, "exact",
			  limpet_losses_exact(model->losses |
					      (heap->replay ? heap->replay->losses : 0)),
			  "estimated", model->sample_bytes != 0));
	if (!result)
		result = limpet_json_print(
			talk->file, ",\n\"window\":",
			json_pack("{s:o,s:o}", "from_seconds", limpet_json_seconds(model->from_ns),
				  "to_seconds", limpet_json_seconds(model->to_ns)));
	if (!result)
		result = limpet_json_print(talk->file, ",\n\"sort\":",
					   json_string(limpet_report_sort_words[heap->view.sort]));
	if (!result)
		result = limpet_json_print(
			talk->file, ",\n\"totals\":", figures_object(talk, &heap->view.totals));
	if (!result && heap->filtered)
		result = limpet_json_print(talk->file,
					   ",\n\"hidden\":", figures_object(talk, &heap->hidden));
	return result;
}

static int print_body(struct talk *talk)
{
	switch (talk->options->kind) {
	case LIMPET_VIEW_BOTTOM_UP:
	case LIMPET_VIEW_TOP_DOWN:
		return print_tree(talk);
	case LIMPET_VIEW_FUNCTIONS:
		return print_functions(talk);
	case LIMPET_VIEW_THREADS:
		return print_threads(talk);
	case LIMPET_VIEW_MODULES:
		return print_modules(talk);
	case LIMPET_VIEW_SIZES:
	case LIMPET_VIEW_LIFETIMES:
		return print_lives(talk);
	case LIMPET_VIEW_TIMELINE:
		return print_timeline(talk);
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
	struct talk talk = {
		.heap = heap, .options = options, .file = file, .base = &heap->view.totals};
	struct limpet_view_calls *calls = NULL;
	int result = 0;

	/* Before the first byte: the function may not be there. */
	if (options->kind == LIMPET_VIEW_CALLERS)
		result = limpet_view_calls_new(&heap->view, options->function, &calls);
	if (result < 0 && calls)
		limpet_view_explain(&heap->view, options->function, calls, result, err);
	if (!result)
		result = print_head(&talk);
	if (!result)
		result = calls ? print_calls(&talk, calls) : print_body(&talk);
	limpet_view_calls_free(calls);
	if (!result)
		fputs("}\n", file);
	return result;
}
