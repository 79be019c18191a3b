#include "analyzer/text/view_json.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#include "analyzer/text/json_printer.h"
#include "analyzer/views/kept_pages.h"

struct context {
	struct limpet_analysis *analysis;
	const struct limpet_view_options *options;
	struct limpet_json_printer printer;
};

static json_t *figures_object(const struct context *context,
			      const struct limpet_model_site *figures)
{
	return limpet_json_figures(figures, context->analysis->model);
}

/* Moves the members of `more` into `object`, behind its own. */
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
	const struct limpet_function *function = &context->analysis->locations->functions[number];

	return json_pack("{s:o,s:o,s:o,s:b}", "function", limpet_json_text(function->name),
			 "module", limpet_json_text(function->module), "file",
			 limpet_json_text(function->file), "noise",
			 function->kind != LIMPET_FRAME_PROGRAM);
}

/* ------------------------------------------------------------------ trees */

/* In depth-first order: each node comes after its parent. */
static void print_tree(struct context *context)
{
	struct limpet_view_tree *tree;
	uint32_t at = 0;
	unsigned depth = 0;

	if (!limpet_json_check(&context->printer,
			       limpet_view_tree_new(&context->analysis->view,
						    context->options->kind == LIMPET_VIEW_BOTTOM_UP,
						    &tree)))
		return;
	limpet_json_begin_list(&context->printer, "nodes");
	for (;;) {
		const struct limpet_view_node *node = &tree->nodes[at];

		if (at)
			limpet_json_item(&context->printer,
					 join(json_pack("{s:I,s:I,s:I}", "id", (json_int_t)at,
							"parent", (json_int_t)node->parent, "depth",
							(json_int_t)depth),
					      join(function_object(context, node->function),
						   figures_object(context, &node->figures))));
		if (context->printer.error || ferror(context->printer.file))
			break;
		if (node->first_child) {
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
	limpet_json_end_list(&context->printer);
	limpet_view_tree_free(tree);
}

/* ------------------------------------------------------------------ tables */

static json_t *row_object(struct context *context, const struct limpet_view_row *row, bool self)
{
	json_t *object =
		join(function_object(context, row->function), figures_object(context, &row->total));

	return self ? limpet_json_set(object, "self", figures_object(context, &row->self)) : object;
}

static void print_rows(struct context *context, const char *key,
		       const struct limpet_view_rows *rows, bool self)
{
	limpet_json_begin_list(&context->printer, key);
	for (size_t i = 0; i < rows->count && i < context->options->limit; i++)
		limpet_json_item(&context->printer, row_object(context, &rows->rows[i], self));
	limpet_json_end_list(&context->printer);
}

static void print_functions(struct context *context)
{
	struct limpet_view_rows rows;

	if (!limpet_json_check(&context->printer,
			       limpet_view_functions(&context->analysis->view, &rows)))
		return;
	print_rows(context, "functions", &rows, true);
	limpet_view_rows_done(&rows);
}

static void print_modules(struct context *context)
{
	struct limpet_view_rows rows;

	if (!limpet_json_check(&context->printer,
			       limpet_view_modules(&context->analysis->view, &rows)))
		return;
	limpet_json_begin_list(&context->printer, "modules");
	for (size_t i = 0; i < rows.count && i < context->options->limit; i++) {
		const struct limpet_view_row *row = &rows.rows[i];
		json_t *object = join(json_pack("{s:o,s:o}", "module", limpet_json_text(row->name),
						"self", figures_object(context, &row->self)),
				      figures_object(context, &row->total));

		limpet_json_item(&context->printer, object);
	}
	limpet_json_end_list(&context->printer);
	limpet_view_rows_done(&rows);
}

static void print_calls(struct context *context, struct limpet_view_calls *calls)
{
	limpet_json_begin_list(&context->printer, "functions");
	for (size_t i = 0; i < calls->chosen_count; i++)
		limpet_json_item(&context->printer, function_object(context, calls->chosen[i]));
	limpet_json_end_list(&context->printer);
	limpet_json_member(&context->printer, "total", figures_object(context, &calls->total));
	limpet_json_member(&context->printer, "self", figures_object(context, &calls->self));
	print_rows(context, "callers", &calls->callers, false);
	print_rows(context, "callees", &calls->callees, false);
	limpet_json_begin_list(&context->printer, "lines");
	for (size_t i = 0; i < calls->lines.count; i++) {
		const struct limpet_view_row *row = &calls->lines.rows[i];
		const struct limpet_location *place =
			&context->analysis->locations->locations[row->function];

		limpet_json_item(
			&context->printer,
			join(json_pack("{s:o,s:o}", "file", limpet_json_text(place->file), "line",
				       place->line ? limpet_json_number(place->line) : json_null()),
			     figures_object(context, &row->total)));
	}
	limpet_json_end_list(&context->printer);
}

/* ------------------------------------------------------------------ figures of a replay */

static void print_threads(struct context *context)
{
	const struct limpet_replay *replay = context->analysis->replay;

	limpet_json_begin_list(&context->printer, "threads");
	for (size_t i = 0; i < replay->thread_count && i < context->options->limit; i++) {
		const struct limpet_replay_thread *thread = &replay->threads[i];

		limpet_json_item(&context->printer,
				 join(json_pack("{s:o,s:o,s:o,s:o}", "thread",
						limpet_json_number(thread->tid), "name",
						limpet_json_text(limpet_trace_reader_thread_name(
							context->analysis->reader, thread->tid)),
						"own_frees", limpet_json_number(thread->own_frees),
						"own_freed_bytes",
						limpet_json_number(thread->own_freed_bytes)),
				      figures_object(context, &thread->figures)));
	}
	limpet_json_end_list(&context->printer);
}

static json_t *ages_array(const struct limpet_view_replayed *life)
{
	json_t *array = json_array();

	for (unsigned i = 0; array && i < LIMPET_REPLAY_AGES; i++) {
		json_t *below = i < LIMPET_REPLAY_AGES - 1
					? limpet_json_seconds(limpet_replay_age_limits_ns[i])
					: json_null();

		array = limpet_json_append(
			array, json_pack("{s:o,s:o,s:o,s:o,s:o}", "below_seconds", below, "freed",
					 limpet_json_number(life->freed.blocks[i]), "freed_bytes",
					 limpet_json_number(life->freed.bytes[i]), "alive",
					 limpet_json_number(life->alive.blocks[i]), "alive_bytes",
					 limpet_json_number(life->alive.bytes[i])));
	}
	return array;
}

/* Innermost first. */
static json_t *stack_array(const struct context *context, const struct limpet_view_tree *tree,
			   uint32_t leaf)
{
	json_t *stack = json_array();

	for (uint32_t at = leaf; stack && at; at = tree->nodes[at].parent)
		stack = limpet_json_append(
			stack, limpet_json_text(context->analysis->locations
							->functions[tree->nodes[at].function]
							.name));
	return stack;
}

static json_t *life_object(struct context *context, const struct limpet_view_tree *tree,
			   const struct limpet_view_life *row)
{
	const bool sizes = context->options->kind == LIMPET_VIEW_SIZES;
	const struct limpet_view_replayed *life = &row->life;
	json_t *stack = stack_array(context, tree, row->leaf), *object;

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

static void print_lives(struct context *context)
{
	const struct limpet_replay *replay = context->analysis->replay;
	struct limpet_json_printer *printer = &context->printer;
	struct limpet_view *view = &context->analysis->view;
	struct limpet_view_lives lives = {0};
	struct limpet_view_tree *tree;

	if (!limpet_json_check(printer, limpet_view_tree_new(view, false, &tree)))
		return;
	limpet_json_check(printer, limpet_view_lives(view, tree, replay, &lives));
	if (context->options->kind == LIMPET_VIEW_SIZES)
		limpet_json_member(printer, "sizes",
				   limpet_json_sizes(replay->sizes, replay->size_count, true));
	else
		limpet_json_member(printer, "ages", ages_array(&lives.all));
	limpet_json_begin_list(printer, "sites");
	for (size_t i = 0; i < lives.count && i < context->options->limit; i++)
		limpet_json_item(printer, life_object(context, tree, &lives.rows[i]));
	limpet_json_end_list(printer);
	limpet_view_lives_done(&lives);
	limpet_view_tree_free(tree);
}

static void print_timeline(struct context *context)
{
	const struct limpet_replay *replay = context->analysis->replay;
	const struct limpet_model *model = context->analysis->model;
	size_t at = 0;

	limpet_json_begin_list(&context->printer, "timeline");
	for (size_t i = 0; i < replay->moment_count; i++) {
		const struct limpet_replay_moment *moment = &replay->moments[i];
		const struct limpet_model_point *point;

		while (at < model->timeline_count && model->timeline[at].time_ns <= moment->to_ns)
			at++;
		point = at ? &model->timeline[at - 1] : NULL;
		limpet_json_item(
			&context->printer,
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
	limpet_json_end_list(&context->printer);
}

/* ------------------------------------------------------------------ pages */

static json_t *share_object(const struct limpet_page_share *share)
{
	return json_pack("{s:o,s:o,s:o,s:o,s:o}", "blocks", limpet_json_number(share->blocks),
			 "live_bytes", limpet_json_number(share->live_bytes), "resident_live_bytes",
			 limpet_json_number(share->resident_live_bytes), "held_bytes",
			 limpet_json_number(share->held_bytes), "alone_bytes",
			 limpet_json_number(share->alone_bytes));
}

static void print_pages(struct context *context)
{
	struct limpet_json_printer *printer = &context->printer;
	const struct limpet_model *model = context->analysis->model;
	struct limpet_kept_pages *pages = NULL;
	struct limpet_view_tree *tree;
	int code;

	if (!limpet_json_check(printer,
			       limpet_view_tree_new(&context->analysis->view, false, &tree)))
		return;
	code = limpet_kept_pages_new(&context->analysis->view, tree, context->analysis->reader,
				     &pages);
	if (code < 0 && code != -ENODATA)
		limpet_json_check(printer, code);
	limpet_json_member(printer, "unknown_because",
			   pages ? json_null()
				 : limpet_json_text(limpet_page_shares_unknown(model)));
	limpet_json_member(
		printer, "pages",
		pages ? join(json_pack("{s:o,s:o,s:o,s:o,s:o}", "page_bytes",
				       limpet_json_number(pages->page_bytes), "rss_bytes",
				       limpet_json_known(pages->rss_bytes), "unexamined_blocks",
				       limpet_json_number(pages->unexamined_blocks),
				       "unexamined_bytes",
				       limpet_json_number(pages->unexamined_bytes), "hidden",
				       share_object(&pages->hidden)),
			     share_object(&pages->all))
		      : json_null());
	limpet_json_begin_list(printer, "sites");
	for (size_t i = 0; pages && i < pages->count && i < context->options->limit; i++)
		limpet_json_item(printer,
				 limpet_json_set(share_object(&pages->rows[i].share), "stack",
						 stack_array(context, tree, pages->rows[i].leaf)));
	limpet_json_end_list(printer);
	limpet_kept_pages_free(pages);
	limpet_view_tree_free(tree);
}

/* ------------------------------------------------------------------ the whole */

static void print_head(struct context *context)
{
	const struct limpet_analysis *analysis = context->analysis;
	const struct limpet_model *model = analysis->model;

	fprintf(context->printer.file, "{\"format\":\"limpet-view\",\"version\":1,\"view\":\"%s\"",
		limpet_view_words[context->options->kind]);
	limpet_json_member(
		&context->printer, "capture",
		json_pack("{s:o,s:o,s:b,s:b,s:b,s:o}", "pid", limpet_json_known(model->target->pid),
			  "comm", limpet_json_text(model->target->comm), "complete",
			  model->complete, "exact",
			  limpet_losses_exact(model->losses |
					      (analysis->replay ? analysis->replay->losses : 0)),
			  "estimated", model->sample_bytes != 0, "names",
			  limpet_json_names(model)));
	limpet_json_members_of_time(&context->printer, model);
	limpet_json_member(&context->printer, "sort",
			   json_string(limpet_report_sort_words[analysis->view.sort]));
	limpet_json_member(&context->printer, "totals",
			   figures_object(context, &analysis->view.totals));
	if (analysis->filtered)
		limpet_json_member(&context->printer, "hidden",
				   figures_object(context, &analysis->hidden));
}

int limpet_view_json_print(struct limpet_analysis *analysis,
			   const struct limpet_view_options *options, FILE *file,
			   struct limpet_err *err)
{
#define PRINT(kind, word, text, json, needs) json,
	static void (*const prints[])(struct context *) = {LIMPET_VIEWS(PRINT)};
	struct context context = {
		.analysis = analysis, .options = options, .printer = {.file = file}};
	struct limpet_view_calls *calls = NULL;
	int result = 0;

	/* Before the first byte: the function may not exist. */
	if (options->kind == LIMPET_VIEW_CALLERS)
		result = limpet_view_calls_new(&analysis->view, options->function, &calls);
	if (result < 0 && calls)
		limpet_view_explain(&analysis->view, options->function, calls, result, err);
	if (!result) {
		print_head(&context);
		if (calls)
			print_calls(&context, calls);
		else if (prints[options->kind])
			prints[options->kind](&context);
		else
			limpet_json_check(&context.printer, -EINVAL);
		fputs("}\n", file);
		result = context.printer.error;
	}
	limpet_view_calls_free(calls);
	return result;
}
