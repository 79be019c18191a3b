#include "analyzer/text/view_text.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/symbols/demangle.h"
#include "analyzer/text/chain_text.h"
#include "analyzer/text/report_printer.h"
#include "analyzer/views/kept_pages.h"
#include "common/base_name.h"
#include "common/plain_text.h"

#define WORD(kind, word, text, json, needs) word,
const char *const limpet_view_words[LIMPET_VIEW_COUNT + 1] = {LIMPET_VIEWS(WORD) NULL};

static const char *const titles[LIMPET_REPORT_SORT_COUNT] = {
	"held at the peak", "live", "allocations", "allocated", "temporary", "growth"};
static const char *const titles_of_pages[LIMPET_REPORT_SORT_COUNT] = {
	"resident at the peak", "resident", "new pages", "touched", "temporary", "growth"};

struct context {
	struct limpet_printer printer;
	struct limpet_analysis *analysis;
	const struct limpet_view_options *options;
	struct limpet_err *err;
	uint64_t whole; /* the total for shares; 0: there is none */
	uint64_t base;  /* the total that shares are of: the whole, or all of one function */
};

enum limpet_view_needs limpet_view_needs(enum limpet_view_kind kind)
{
#define NEEDS(kind, word, text, json, needs) LIMPET_VIEW_NEEDS_##needs,
	static const enum limpet_view_needs needs[] = {LIMPET_VIEWS(NEEDS)};

	return needs[kind];
}

/* ------------------------------------------------------------------ figures */

static bool is_of_pages(const struct context *context)
{
	return context->analysis->model->target->pages;
}

/* Samples do not say which allocations are temporary. */
static bool is_sampled(const struct context *context)
{
	return context->analysis->model->sample_bytes != 0;
}

static bool is_unknown(const struct context *context)
{
	return is_sampled(context) && context->analysis->view.sort == LIMPET_REPORT_TEMPORARY;
}

static const char *amount(struct context *context, const struct limpet_model_site *figures)
{
	const enum limpet_report_sort sort = context->analysis->view.sort;

	return is_unknown(context) ? "-"
				   : limpet_printer_figure(&context->printer, sort,
							   limpet_report_figure(figures, sort));
}

static const char *share(struct context *context, const struct limpet_model_site *figures)
{
	int64_t figure = limpet_report_figure(figures, context->analysis->view.sort);

	return figure <= 0
		       ? ""
		       : limpet_printer_share(&context->printer, (uint64_t)figure, context->whole);
}

static bool is_shown(const struct context *context, const struct limpet_model_site *figures)
{
	int64_t figure = limpet_report_figure(figures, context->analysis->view.sort);

	if (context->analysis->view.sort == LIMPET_REPORT_GROWTH)
		return figure != 0;
	return figure > 0 &&
	       (double)figure >= context->options->least_share * (double)context->base;
}

/* `before`, the name and the place, within the width; the name is cut at its start. */
static void print_named(struct context *context, const char *style, const char *before,
			const char *name, const char *place)
{
	const unsigned width = context->printer.options->width;
	LIMPET_FREE char *cut = strdup(name);
	LIMPET_FREE char *where = strdup(place ? place : "");
	size_t used = limpet_plain_text_columns(before), room;

	if (!cut || !where) {
		limpet_printer_check(&context->printer, -ENOMEM);
		return;
	}
	limpet_plain_text_clean(where);
	room = width > used + 8 ? width - used : 8;
	if (width) {
		size_t name_columns = limpet_plain_text_columns(cut);

		if (name_columns > room)
			limpet_printer_cut(cut, room, true);
		/* The place matters less than the name. */
		name_columns = limpet_plain_text_columns(cut);
		if (name_columns + 2 + 8 > room)
			where[0] = '\0';
		else
			limpet_printer_cut(where, room - name_columns - 2, true);
	}
	limpet_printer_line(&context->printer, style, "%s%s%s%s", before, cut, where[0] ? "  " : "",
			    where);
}

/* A function's file, or its module unless that is the program. */
static const char *function_place(const struct context *context,
				  const struct limpet_function *function)
{
	if (function->file)
		return limpet_base_name(function->file);
	if (function->named && function->module &&
	    strcmp(function->module, context->analysis->model->target->executable) != 0)
		return limpet_base_name(function->module);
	return "";
}

static void print_function(struct context *context, const char *style, const char *before,
			   uint32_t number)
{
	const struct limpet_function *function = &context->analysis->locations->functions[number];
	LIMPET_FREE char *name = limpet_function_name(function, context->printer.options->full);

	if (limpet_printer_check(&context->printer, name ? 0 : -ENOMEM))
		print_named(context, style, before, name, function_place(context, function));
}

/* The number of rows, of `all`, that the limit leaves out. */
static void print_more(struct context *context, const char *before, size_t all)
{
	if (all > context->options->limit)
		limpet_printer_line(&context->printer, context->printer.options->dim,
				    "%s... %zu more", before, all - context->options->limit);
}

/* ------------------------------------------------------------------ title */

/* What the figures are of, and whether something is missing. */
static void print_limits(struct context *context)
{
	const struct limpet_model *model = context->analysis->model;
	struct limpet_printer *printer = &context->printer;
	char from[LIMPET_PRINTER_MOMENT], to[LIMPET_PRINTER_MOMENT];

	if (model->windowed || model->widened)
		limpet_printer_line(printer, "", "window    %s to %s%s",
				    limpet_printer_moment(printer, model, model->from_ns, from),
				    limpet_printer_moment(printer, model, model->to_ns, to),
				    context->analysis->narrowed ? ": only sums are kept from before"
								: "");
	if (!context->analysis->filtered && limpet_printer_is_empty(model))
		limpet_printer_print_empty(printer, model);
	limpet_printer_names(printer, model);
	limpet_printer_births(printer, model);
	if (context->analysis->filtered)
		limpet_printer_line(
			printer, "", "filtered  hides %s of %s %s%s",
			amount(context, &context->analysis->hidden),
			limpet_printer_count(printer, context->analysis->hidden.allocations),
			is_of_pages(context) ? "new page" : "allocation",
			limpet_printer_plural(context->analysis->hidden.allocations));
	if (is_of_pages(context) && context->options->kind != LIMPET_VIEW_PAGES)
		limpet_printer_row(printer, "", "stacks", "%s", limpet_printer_first_touch);
	if (limpet_model_lacks_events(model) ||
	    (model->end->end != LIMPET_END_RUNNING &&
	     (model->losses & LIMPET_LOSSES_OF_A_READER ||
	      (context->analysis->replay && context->analysis->replay->losses))))
		limpet_printer_line(printer, printer->options->warn,
				    "losses    the trace is not complete: limpet report says "
				    "what is missing");
}

static void print_title(struct context *context, const char *what)
{
	const struct limpet_model *model = context->analysis->model;
	const struct limpet_view *view = &context->analysis->view;
	struct limpet_printer *printer = &context->printer;

	limpet_printer_line(printer, printer->options->bold, "%s of %s%s by %s: %s%s", what,
			    model->target->known ? model->target->comm : "?",
			    limpet_printer_pid(printer, model),
			    (is_of_pages(context) ? titles_of_pages : titles)[view->sort],
			    amount(context, &view->totals),
			    model->sample_bytes ? ", estimated" : "");
	print_limits(context);
}

/* ------------------------------------------------------------------ trees */

/* Deeper than any stack walk: a crafted trace must not exhaust limpet's own stack. */
#define DEPTH_MAX 2000u

struct branch {
	char indent[128];
	size_t columns;
	unsigned depth;
};

static void print_children(struct context *context, const struct limpet_view_tree *tree,
			   uint32_t parent, const struct branch *branch);

/* The node has all of its parent's figure: it is not indented, so that chains do not drift to the
 * right. */
static bool is_alone(const struct context *context, const struct limpet_view_tree *tree,
		     uint32_t number)
{
	enum limpet_report_sort sort = context->analysis->view.sort;
	const struct limpet_view_node *node = &tree->nodes[number];

	return limpet_report_figure(&node->figures, sort) ==
	       limpet_report_figure(&tree->nodes[node->parent].figures, sort);
}

static void print_node(struct context *context, const struct limpet_view_tree *tree,
		       uint32_t number, const struct branch *branch, bool alone, bool last)
{
	const struct limpet_view_node *node = &tree->nodes[number];
	struct branch below = *branch;
	char before[200];

	/* Along a chain the figures do not change. */
	snprintf(before, sizeof(before), "%10s %5s  %s%s",
		 alone ? "" : amount(context, &node->figures),
		 alone ? "" : share(context, &node->figures), branch->indent,
		 alone || !branch->depth ? ""
		 : last                  ? "`-"
					 : "|-");
	print_function(context, "", before, node->function);
	below.depth++;
	if (!alone && branch->depth && below.columns + 2 < sizeof(below.indent) &&
	    below.columns + 2 <=
		    (context->printer.options->width ? context->printer.options->width / 3 : 100)) {
		strcpy(below.indent + below.columns, last ? "  " : "| ");
		below.columns += 2;
	}
	print_children(context, tree, number, &below);
}

static void print_children(struct context *context, const struct limpet_view_tree *tree,
			   uint32_t parent, const struct branch *branch)
{
	size_t shown = 0, all = 0;
	char before[200];

	for (uint32_t at = tree->nodes[parent].first_child; at; at = tree->nodes[at].next)
		all += is_shown(context, &tree->nodes[at].figures);
	if (branch->depth >= DEPTH_MAX)
		return;
	for (uint32_t at = tree->nodes[parent].first_child; at && shown < context->options->limit;
	     at = tree->nodes[at].next) {
		if (!is_shown(context, &tree->nodes[at].figures))
			continue;
		shown++;
		print_node(context, tree, at, branch,
			   all == 1 && branch->depth && is_alone(context, tree, at), shown == all);
		if (context->printer.error || ferror(context->printer.file))
			return;
	}
	snprintf(before, sizeof(before), "%10s %5s  %s", "", "", branch->indent);
	print_more(context, before, all);
}

static void print_tree(struct context *context)
{
	const bool bottom_up = context->options->kind == LIMPET_VIEW_BOTTOM_UP;
	struct limpet_view_tree *tree;
	struct branch branch = {0};

	if (!limpet_printer_check(&context->printer,
				  limpet_view_tree_new(&context->analysis->view, bottom_up, &tree)))
		return;
	print_title(context, !bottom_up ? "Calls from the top down"
			     : is_of_pages(context)
				     ? "Functions that touched pages first, and their "
				       "callers"
				     : "Allocating functions and their callers");
	limpet_printer_blank(&context->printer);
	print_children(context, tree, 0, &branch);
	limpet_view_tree_free(tree);
}

/* ------------------------------------------------------------------ tables */

static void print_rows(struct context *context, const struct limpet_view_rows *rows, bool self)
{
	size_t all = 0;

	for (size_t i = 0; i < rows->count; i++) {
		const struct limpet_view_row *row = &rows->rows[i];
		char before[120];

		if (!is_shown(context, &row->total))
			continue;
		if (all++ >= context->options->limit)
			continue;
		if (self)
			snprintf(before, sizeof(before), "%10s %5s  %10s %5s  ",
				 amount(context, &row->total), share(context, &row->total),
				 amount(context, &row->self), share(context, &row->self));
		else
			snprintf(before, sizeof(before), "%10s %5s  ", amount(context, &row->total),
				 share(context, &row->total));
		print_function(context, "", before, row->function);
	}
	print_more(context, "  ", all);
}

static void print_functions(struct context *context)
{
	struct limpet_view_rows rows;

	if (!limpet_printer_check(&context->printer,
				  limpet_view_functions(&context->analysis->view, &rows)))
		return;
	print_title(context, "Functions");
	limpet_printer_blank(&context->printer);
	limpet_printer_line(&context->printer, context->printer.options->dim,
			    "%10s %5s  %10s %5s  %s", "with calls", "", "itself", "", "function");
	print_rows(context, &rows, true);
	limpet_view_rows_done(&rows);
}

static void print_modules(struct context *context)
{
	struct limpet_view_rows rows;

	if (!limpet_printer_check(&context->printer,
				  limpet_view_modules(&context->analysis->view, &rows)))
		return;
	print_title(context, "Modules");
	limpet_printer_blank(&context->printer);
	limpet_printer_line(&context->printer, context->printer.options->dim,
			    "%10s %5s  %10s %5s  %s", "itself", "", "with calls", "", "module");
	for (size_t i = 0; i < rows.count && i < context->options->limit; i++) {
		const struct limpet_view_row *row = &rows.rows[i];
		LIMPET_FREE char *name = strdup(row->name ? row->name : "(no module)");
		char before[120];

		snprintf(before, sizeof(before), "%10s %5s  %10s %5s  ",
			 amount(context, &row->self), share(context, &row->self),
			 amount(context, &row->total), share(context, &row->total));
		if (limpet_printer_check(&context->printer, name ? 0 : -ENOMEM))
			print_named(context, "", before, limpet_plain_text_clean(name), NULL);
	}
	print_more(context, "  ", rows.count);
	limpet_view_rows_done(&rows);
}

/* ------------------------------------------------------------------ callers and callees */

int limpet_view_explain(const struct limpet_view *view, const char *name,
			const struct limpet_view_calls *calls, int code, struct limpet_err *err)
{
	const struct limpet_function *functions = view->locations->functions;
	char text[480] = "";
	size_t shown = 0;

	if (code == -ENOENT) {
		limpet_err_set(err, code, "no function on these stacks is called '%s'", name);
		limpet_err_hint(err, "--view functions lists them");
		return code;
	}
	if (code != -ENOTUNIQ)
		return limpet_err_set(err, code, "cannot find '%s': %s", name, strerror(-code));
	limpet_err_set(err, code, "'%s' is part of %zu names", name, calls->chosen_count);
	/* A name that is cut could not be given. */
	for (; shown < calls->chosen_count && shown < 4; shown++) {
		const char *one = functions[calls->chosen[shown]].name;
		const size_t used = strlen(text);

		if (used + strlen(one) + 2 >= sizeof(text))
			break;
		snprintf(text + used, sizeof(text) - used, "%s%s", shown ? ", " : "", one);
	}
	if (shown)
		limpet_err_hint(err, "one of %s%s", text,
				shown < calls->chosen_count ? ", ..." : "");
	else
		limpet_err_hint(err, "--view functions lists them");
	return code;
}

/* Without debug information there are none. */
static bool has_lines(const struct context *context, const struct limpet_view_rows *rows)
{
	for (size_t i = 0; i < rows->count; i++)
		if (context->analysis->locations->locations[rows->rows[i].function].file)
			return true;
	return false;
}

static void print_lines(struct context *context, const struct limpet_view_rows *rows)
{
	size_t all = 0;

	for (size_t i = 0; i < rows->count; i++) {
		const struct limpet_location *place =
			&context->analysis->locations->locations[rows->rows[i].function];
		LIMPET_FREE char *text = NULL;
		char before[120];

		if (!is_shown(context, &rows->rows[i].total) || !place->file)
			continue;
		if (all++ >= context->options->limit)
			continue;
		snprintf(before, sizeof(before), "%10s %5s  ",
			 amount(context, &rows->rows[i].total),
			 share(context, &rows->rows[i].total));
		if (asprintf(&text, "%s:%u", place->file, place->line) < 0) {
			text = NULL;
			limpet_printer_check(&context->printer, -ENOMEM);
			return;
		}
		print_named(context, "", before, limpet_plain_text_clean(text), NULL);
	}
	print_more(context, "  ", all);
}

static void print_part(struct context *context, const char *heading,
		       const struct limpet_view_rows *rows,
		       void (*print)(struct context *, const struct limpet_view_rows *))
{
	if (!rows->count)
		return;
	limpet_printer_blank(&context->printer);
	limpet_printer_line(&context->printer, context->printer.options->bold, "%s", heading);
	print(context, rows);
}

static void print_plain_rows(struct context *context, const struct limpet_view_rows *rows)
{
	print_rows(context, rows, false);
}

/* "4.0 KiB, 12 %" */
static void format_figure(struct context *context, const struct limpet_model_site *figures,
			  char ret_text[80])
{
	const char *part = share(context, figures);

	snprintf(ret_text, 80, "%s%s%s", amount(context, figures), part[0] ? ", " : "", part);
}

static void print_calls(struct context *context)
{
	struct limpet_view_calls *calls = NULL;
	const char *name = context->options->function;
	char all[80], self[80];
	int64_t figure;
	int result = limpet_view_calls_new(&context->analysis->view, name, &calls);

	if (result < 0) {
		if (calls)
			limpet_view_explain(&context->analysis->view, name, calls, result,
					    context->err);
		limpet_view_calls_free(calls);
		limpet_printer_check(&context->printer, result);
		return;
	}
	figure = limpet_report_figure(&calls->total, context->analysis->view.sort);
	context->base = figure > 0 ? (uint64_t)figure : 0;
	print_title(context, "Callers and callees");
	limpet_printer_blank(&context->printer);
	for (size_t i = 0; i < calls->chosen_count; i++)
		print_function(context, context->printer.options->bold, "", calls->chosen[i]);
	format_figure(context, &calls->total, all);
	format_figure(context, &calls->self, self);
	limpet_printer_line(&context->printer, "", "with what it calls %s; itself %s", all, self);
	print_part(context, "called by", &calls->callers, print_plain_rows);
	print_part(context, "calls", &calls->callees, print_plain_rows);
	if (has_lines(context, &calls->lines))
		print_part(context, "from its lines", &calls->lines, print_lines);
	limpet_view_calls_free(calls);
}

/* ------------------------------------------------------------------ threads */

static void print_threads(struct context *context)
{
	const struct limpet_replay *replay = context->analysis->replay;
	struct limpet_printer *printer = &context->printer;

	print_title(context, "Threads");
	limpet_printer_blank(printer);
	limpet_printer_line(printer, printer->options->dim, "%8s %10s %10s %8s %10s %8s %8s  %s",
			    "thread", limpet_model_live_word(context->analysis->model), "at peak",
			    is_of_pages(context) ? "pages" : "allocs",
			    is_of_pages(context) ? "touched" : "allocated", "temp",
			    is_of_pages(context) ? "returned" : "frees", "name");
	for (size_t i = 0; i < replay->thread_count && i < context->options->limit; i++) {
		const struct limpet_replay_thread *thread = &replay->threads[i];
		const struct limpet_model_site *figures = &thread->figures;
		const char *name =
			limpet_trace_reader_thread_name(context->analysis->reader, thread->tid);

		limpet_printer_line(
			printer, "", "%8u %10s %10s %8s %10s %8s %8s%s%s", thread->tid,
			limpet_printer_bytes(printer, figures->live_bytes),
			limpet_printer_bytes(printer, figures->peak_bytes),
			limpet_printer_count(printer, figures->allocations),
			limpet_printer_bytes(printer, figures->allocated_bytes),
			is_sampled(context)
				? "-"
				: limpet_printer_count(printer, figures->temporary_allocations),
			limpet_printer_count(printer, thread->own_frees), name[0] ? "  " : "",
			name);
	}
	print_more(context, "  ", replay->thread_count);
}

/* ------------------------------------------------------------------ sizes and lifetimes */

static char *short_name(const void *context, uint32_t function)
{
	const struct limpet_locations *locations = context;

	return limpet_function_name(&locations->functions[function], false);
}

static void print_chain(struct context *context, const char *before,
			const struct limpet_view_tree *tree, uint32_t leaf)
{
	struct limpet_chain chain = {
		.name = short_name,
		.context = context->analysis->locations,
		.full = context->analysis->view.full,
		.width = context->printer.options->width,
		.used = strlen(before),
	};
	LIMPET_FREE uint32_t *functions = NULL;
	LIMPET_FREE char *text = NULL;
	size_t depth = 0;

	for (uint32_t at = leaf; at; at = tree->nodes[at].parent)
		depth++;
	functions = calloc(depth + 1, sizeof(*functions));
	for (uint32_t at = leaf; functions && at; at = tree->nodes[at].parent)
		functions[chain.count++] = tree->nodes[at].function;
	chain.functions = functions;
	if (functions)
		text = limpet_chain_text(&chain);
	if (limpet_printer_check(&context->printer, text ? 0 : -ENOMEM))
		limpet_printer_line(&context->printer, "", "%s%s", before, text);
}

static void print_size_buckets(struct context *context)
{
	const struct limpet_replay *replay = context->analysis->replay;
	struct limpet_printer *printer = &context->printer;
	uint64_t calls = context->analysis->view.totals.allocations;

	limpet_printer_line(printer, printer->options->dim, "%10s %10s %9s %5s %10s %10s", "from",
			    "below", "allocs", "", "total", "average");
	for (size_t i = 0; i < replay->size_count; i++) {
		const struct limpet_model_size *size = &replay->sizes[i];

		limpet_printer_line(
			printer, "", "%10s %10s %9s %5s %10s %10s",
			limpet_printer_bytes(printer, size->from_bytes),
			limpet_printer_bytes(printer, size->to_bytes < UINT64_MAX
							      ? size->to_bytes + 1
							      : UINT64_MAX),
			limpet_printer_count(printer, size->allocations),
			limpet_printer_share(printer, size->allocations, calls),
			limpet_printer_bytes(printer, size->allocated_bytes),
			limpet_printer_bytes(printer, size->allocated_bytes / size->allocations));
	}
}

static void print_size_rows(struct context *context, const struct limpet_view_tree *tree,
			    const struct limpet_view_lives *lives)
{
	struct limpet_printer *printer = &context->printer;
	size_t all = 0;

	limpet_printer_line(printer, printer->options->dim, "%9s %10s %10s %10s %10s  %s", "allocs",
			    "total", "average", "smallest", "largest", "site");
	for (size_t i = 0; i < lives->count; i++) {
		const struct limpet_view_replayed *life = &lives->rows[i].life;
		char before[120];

		if (!life->figures.allocations || all++ >= context->options->limit)
			continue;
		snprintf(before, sizeof(before), "%9s %10s %10s %10s %10s  ",
			 limpet_printer_count(printer, life->figures.allocations),
			 limpet_printer_bytes(printer, life->figures.allocated_bytes),
			 limpet_printer_bytes(printer, life->figures.allocated_bytes /
							       life->figures.allocations),
			 limpet_printer_bytes(printer, life->smallest_bytes),
			 limpet_printer_bytes(printer, life->largest_bytes));
		print_chain(context, before, tree, lives->rows[i].leaf);
	}
	print_more(context, "  ", all);
}

/* The age limit below which that share of the blocks stayed; "": no blocks. */
static const char *within(struct context *context, const struct limpet_replay_ages *ages,
			  double part)
{
	uint64_t all = 0, sum = 0;

	for (unsigned i = 0; i < LIMPET_REPLAY_AGES; i++)
		all += ages->blocks[i];
	if (!all)
		return "";
	for (unsigned i = 0; i < LIMPET_REPLAY_AGES - 1; i++) {
		sum += ages->blocks[i];
		if ((double)sum >= part * (double)all)
			return limpet_printer_duration(&context->printer,
						       limpet_replay_age_limits_ns[i]);
	}
	return "longer";
}

static void print_age_buckets(struct context *context, const struct limpet_view_lives *lives)
{
	const struct limpet_replay_ages *freed = &lives->all.freed, *alive = &lives->all.alive;
	struct limpet_printer *printer = &context->printer;

	limpet_printer_line(printer, printer->options->dim, "%11s %9s %10s   %9s %10s",
			    is_of_pages(context) ? "resident" : "lived",
			    is_of_pages(context) ? "returned" : "freed", "bytes",
			    is_of_pages(context) ? "now" : "alive", "bytes");
	for (unsigned i = 0; i < LIMPET_REPLAY_AGES; i++) {
		char below[48];

		if (!freed->blocks[i] && !alive->blocks[i])
			continue;
		if (i < LIMPET_REPLAY_AGES - 1)
			snprintf(below, sizeof(below), "below %s",
				 limpet_printer_duration(printer, limpet_replay_age_limits_ns[i]));
		else
			snprintf(below, sizeof(below), "longer");
		limpet_printer_line(printer, "", "%11s %9s %10s   %9s %10s", below,
				    limpet_printer_count(printer, freed->blocks[i]),
				    limpet_printer_bytes(printer, freed->bytes[i]),
				    limpet_printer_count(printer, alive->blocks[i]),
				    limpet_printer_bytes(printer, alive->bytes[i]));
	}
}

static void print_age_rows(struct context *context, const struct limpet_view_tree *tree,
			   const struct limpet_view_lives *lives)
{
	struct limpet_printer *printer = &context->printer;

	limpet_printer_line(printer, printer->options->dim, "%8s %6s %6s  %8s %10s %7s  %s",
			    is_of_pages(context) ? "returned" : "freed", "half <", "90% <",
			    is_of_pages(context) ? "resident" : "alive", "bytes", "oldest", "site");
	for (size_t i = 0; i < lives->count && i < context->options->limit; i++) {
		const struct limpet_view_replayed *life = &lives->rows[i].life;
		char before[120];

		snprintf(before, sizeof(before), "%8s %6s %6s  %8s %10s %7s  ",
			 limpet_printer_count(printer, limpet_model_site_ended(&life->figures)),
			 within(context, &life->freed, 0.5), within(context, &life->freed, 0.9),
			 limpet_printer_count(printer, life->figures.live_allocations),
			 limpet_printer_bytes(printer, life->figures.live_bytes),
			 life->oldest_ns ? limpet_printer_duration(printer, life->oldest_ns) : "");
		print_chain(context, before, tree, lives->rows[i].leaf);
	}
	print_more(context, "  ", lives->count);
}

static void print_lives(struct context *context)
{
	const bool sizes = context->options->kind == LIMPET_VIEW_SIZES;
	struct limpet_printer *printer = &context->printer;
	struct limpet_view *view = &context->analysis->view;
	struct limpet_view_lives lives = {0};
	struct limpet_view_tree *tree;

	if (sizes && is_of_pages(context)) {
		print_title(context, "Sizes");
		limpet_printer_row(printer, "", "sizes", "all are pages of one size");
		return;
	}
	if (!limpet_printer_check(printer, limpet_view_tree_new(view, false, &tree)))
		return;
	limpet_printer_check(printer,
			     limpet_view_lives(view, tree, context->analysis->replay, &lives));
	print_title(context, sizes ? "Sizes" : "Lifetimes");
	limpet_printer_blank(printer);
	if (sizes)
		print_size_buckets(context);
	else
		print_age_buckets(context, &lives);
	limpet_printer_blank(printer);
	if (sizes)
		print_size_rows(context, tree, &lives);
	else
		print_age_rows(context, tree, &lives);
	limpet_view_lives_done(&lives);
	limpet_view_tree_free(tree);
}

/* ------------------------------------------------------------------ timeline */

#define BAR_COLUMNS 16u

/* The kernel's last memory figures before that time. */
static const struct limpet_model_point *point_at(const struct limpet_model *model, uint64_t time_ns)
{
	const struct limpet_model_point *found = NULL;

	for (size_t i = 0; i < model->timeline_count && model->timeline[i].time_ns <= time_ns; i++)
		found = &model->timeline[i];
	return found;
}

static void print_timeline(struct context *context)
{
	const struct limpet_replay *replay = context->analysis->replay;
	struct limpet_printer *printer = &context->printer;
	uint64_t most = 1;
	bool has_rss = false;

	print_title(context, "Timeline");
	for (size_t i = 0; i < replay->moment_count; i++)
		if (replay->moments[i].live_bytes > most)
			most = replay->moments[i].live_bytes;
	limpet_printer_blank(printer);
	limpet_printer_line(printer, printer->options->dim, "%7s %10s %-*s %10s %9s %10s %10s",
			    "until", "highest", (int)BAR_COLUMNS, "",
			    is_of_pages(context) ? "pages" : "allocs", "temporary", "RSS",
			    "mapped");
	for (size_t i = 0; i < replay->moment_count; i++) {
		const struct limpet_replay_moment *moment = &replay->moments[i];
		const struct limpet_model_point *point =
			point_at(context->analysis->model, moment->to_ns);
		uint64_t length = moment->to_ns - moment->from_ns;
		unsigned columns =
			(unsigned)((double)BAR_COLUMNS * (double)moment->live_bytes / (double)most +
				   0.5);
		char bar[BAR_COLUMNS + 1] = "";

		memset(bar, '#', columns < BAR_COLUMNS ? columns : BAR_COLUMNS);
		has_rss |= point && point->rss_bytes;
		limpet_printer_line(
			printer, "", "%7s %10s %-*s %10s %9s %10s %10s",
			limpet_printer_duration(printer, moment->to_ns),
			limpet_printer_bytes(printer, moment->live_bytes), (int)BAR_COLUMNS, bar,
			limpet_printer_rate(printer, moment->allocations, length),
			is_sampled(context)
				? "-"
				: limpet_printer_share(printer, moment->temporary_allocations,
						       moment->allocations),
			point && limpet_model_point_rss(point)
				? limpet_printer_bytes(printer, limpet_model_point_rss(point))
				: "",
			point && point->mapped_bytes
				? limpet_printer_bytes(printer, point->mapped_bytes)
				: "");
	}
	if (has_rss && !is_of_pages(context) &&
	    !limpet_model_has_own_part(context->analysis->model))
		limpet_printer_wrap(printer, "", 0,
				    "RSS includes %s's own part, which is not known for each time.",
				    limpet_model_is_imported(context->analysis->model)
					    ? context->analysis->model->target->recorder
					    : "limpet");
}

/* ------------------------------------------------------------------ pages */

static const char *filled(struct context *context, const struct limpet_page_share *share)
{
	/* Blocks of a damaged trace may overlap. */
	const uint64_t live = share->resident_live_bytes < share->held_bytes
				      ? share->resident_live_bytes
				      : share->held_bytes;

	return limpet_printer_share(&context->printer, live, share->held_bytes);
}

static void print_page_rows(struct context *context, const struct limpet_view_tree *tree,
			    const struct limpet_kept_pages *pages)
{
	struct limpet_printer *printer = &context->printer;

	limpet_printer_line(printer, printer->options->dim, "%10s %10s %7s %10s %8s  %s", "pages",
			    "alone", "filled", "live", "blocks", "site");
	for (size_t i = 0; i < pages->count && i < context->options->limit; i++) {
		const struct limpet_page_share *share = &pages->rows[i].share;
		char before[120];

		snprintf(before, sizeof(before), "%10s %10s %7s %10s %8s  ",
			 limpet_printer_bytes(printer, share->held_bytes),
			 limpet_printer_bytes(printer, share->alone_bytes), filled(context, share),
			 limpet_printer_bytes(printer, share->live_bytes),
			 limpet_printer_count(printer, share->blocks));
		print_chain(context, before, tree, pages->rows[i].leaf);
	}
	print_more(context, "  ", pages->count);
}

static void print_page_notes(struct context *context, const struct limpet_kept_pages *pages)
{
	struct limpet_printer *printer = &context->printer;

	if (context->analysis->filtered)
		limpet_printer_row(printer, "", "hidden", "%s of pages, that other stacks keep",
				   limpet_printer_bytes(printer, pages->hidden.held_bytes));
	if (pages->unexamined_blocks)
		limpet_printer_row(printer, printer->options->warn, "unknown",
				   "whether the pages of %s block%s, %s, were resident: there was "
				   "no time to look at them",
				   limpet_printer_count(printer, pages->unexamined_blocks),
				   limpet_printer_plural(pages->unexamined_blocks),
				   limpet_printer_bytes(printer, pages->unexamined_bytes));
	if (context->analysis->model->target->mode == LIMPET_MODE_ATTACH)
		limpet_printer_row(printer, "", "before",
				   "blocks from before the capture are not known: they may keep "
				   "these pages, too");
}

static void print_pages(struct context *context)
{
	const struct limpet_model *model = context->analysis->model;
	struct limpet_printer *printer = &context->printer;
	struct limpet_kept_pages *pages = NULL;
	struct limpet_view_tree *tree;
	int code;

	if (!limpet_printer_check(printer,
				  limpet_view_tree_new(&context->analysis->view, false, &tree)))
		return;
	code = limpet_kept_pages_new(&context->analysis->view, tree, context->analysis->reader,
				     &pages);
	if (pages)
		limpet_printer_line(
			printer, printer->options->bold,
			"Pages that live blocks keep in %s%s: %s%s%s, %s filled",
			model->target->known ? model->target->comm : "?",
			limpet_printer_pid(printer, model),
			limpet_printer_bytes(printer, pages->all.held_bytes),
			pages->rss_bytes ? " of RSS " : "",
			pages->rss_bytes ? limpet_printer_bytes(printer, pages->rss_bytes) : "",
			pages->all.held_bytes ? filled(context, &pages->all) : "none");
	else
		limpet_printer_line(printer, printer->options->bold,
				    "Pages that live blocks keep in %s%s: not known",
				    model->target->known ? model->target->comm : "?",
				    limpet_printer_pid(printer, model));
	print_limits(context);
	if (pages) {
		print_page_notes(context, pages);
		limpet_printer_blank(printer);
		print_page_rows(context, tree, pages);
	} else if (code == -ENODATA) {
		limpet_printer_row(printer, "", "because", "%s", limpet_page_shares_unknown(model));
	} else {
		limpet_printer_check(printer, code);
	}
	limpet_kept_pages_free(pages);
	limpet_view_tree_free(tree);
}

static void print_unknown(struct context *context)
{
	print_title(context, "Stacks");
	limpet_printer_blank(&context->printer);
	limpet_printer_line(&context->printer, context->printer.options->bold, "%s",
			    limpet_report_not_temporary);
}

int limpet_view_text_print(struct limpet_analysis *analysis,
			   const struct limpet_view_options *options,
			   const struct limpet_report_text_options *text, FILE *file,
			   struct limpet_err *err)
{
#define PRINT(kind, word, text, json, needs) text,
	static void (*const prints[])(struct context *) = {LIMPET_VIEWS(PRINT)};
	struct context context = {.printer = {.file = file, .options = text},
				  .analysis = analysis,
				  .options = options,
				  .err = err};
	int64_t whole = limpet_report_figure(&analysis->view.totals, analysis->view.sort);

	if (analysis->view.sort != LIMPET_REPORT_GROWTH && whole > 0)
		context.whole = (uint64_t)whole;
	context.base = context.whole;
	if (!prints[options->kind])
		return -EINVAL;
	/* The views of single events have other figures, too. */
	if (is_unknown(&context) && !limpet_view_needs(options->kind) &&
	    options->kind != LIMPET_VIEW_PAGES)
		print_unknown(&context);
	else
		prints[options->kind](&context);
	return context.printer.error;
}
