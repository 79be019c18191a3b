#include "analyzer/view_text.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/demangle.h"
#include "analyzer/report_pen.h"
#include "common/plain_text.h"

const char *const limpet_view_words[LIMPET_VIEW_COUNT + 1] = {
	"sites",   "bottom-up", "top-down",  "functions", "callers", "threads",
	"modules", "sizes",     "lifetimes", "timeline",  NULL};

static const char *const titles[LIMPET_REPORT_SORT_COUNT] = {
	"held at the peak", "live", "allocations", "allocated", "temporary", "growth"};

struct talk {
	struct limpet_pen pen;
	struct limpet_heap *heap;
	const struct limpet_view_options *options;
	uint64_t whole; /* what shares are parts of; 0: there is none */
	uint64_t base;  /* what --min is a part of: the whole, or all of one function */
};

bool limpet_view_needs_replay(enum limpet_view_kind kind)
{
	return kind == LIMPET_VIEW_THREADS || kind == LIMPET_VIEW_SIZES ||
	       kind == LIMPET_VIEW_LIFETIMES || kind == LIMPET_VIEW_TIMELINE;
}

static const char *base_name(const char *path)
{
	const char *slash = path ? strrchr(path, '/') : NULL;

	return slash ? slash + 1 : path;
}

/* ------------------------------------------------------------------ figures */

/* Then nobody knows which allocations are temporary. */
static bool is_sampled(const struct talk *talk)
{
	return talk->heap->model->sample_bytes != 0;
}

static bool is_unknown(const struct talk *talk)
{
	return is_sampled(talk) && talk->heap->view.sort == LIMPET_REPORT_TEMPORARY;
}

static bool counts(const struct talk *talk)
{
	return talk->heap->view.sort == LIMPET_REPORT_ALLOCATIONS ||
	       talk->heap->view.sort == LIMPET_REPORT_TEMPORARY;
}

static const char *amount(struct talk *talk, const struct limpet_model_site *figures)
{
	int64_t figure = limpet_report_figure(figures, talk->heap->view.sort);

	if (is_unknown(talk))
		return "-";
	if (talk->heap->view.sort == LIMPET_REPORT_GROWTH)
		return limpet_pen_bytes_change(&talk->pen, figure);
	return counts(talk) ? limpet_pen_count(&talk->pen, (uint64_t)figure)
			    : limpet_pen_bytes(&talk->pen, (uint64_t)figure);
}

static const char *share(struct talk *talk, const struct limpet_model_site *figures)
{
	int64_t figure = limpet_report_figure(figures, talk->heap->view.sort);

	return figure <= 0 ? "" : limpet_pen_share(&talk->pen, (uint64_t)figure, talk->whole);
}

static bool is_shown(const struct talk *talk, const struct limpet_model_site *figures)
{
	int64_t figure = limpet_report_figure(figures, talk->heap->view.sort);

	if (talk->heap->view.sort == LIMPET_REPORT_GROWTH)
		return figure != 0;
	return figure > 0 && (double)figure >= talk->options->least_share * (double)talk->base;
}

/* `before`, the name, `after` it and the place, within the width: of the name the end is kept. */
static int print_named(struct talk *talk, const char *style, const char *before, const char *name,
		       const char *place)
{
	const unsigned width = talk->pen.options->width;
	LIMPET_FREE char *cut = strdup(name);
	LIMPET_FREE char *where = strdup(place ? place : "");
	size_t used = limpet_plain_text_columns(before), room;

	if (!cut || !where)
		return -ENOMEM;
	limpet_plain_text_clean(where);
	room = width > used + 8 ? width - used : 8;
	if (width) {
		size_t name_columns = limpet_plain_text_columns(cut);

		if (name_columns > room)
			limpet_pen_cut(cut, room, true);
		/* Where it is matters less than what it is. */
		name_columns = limpet_plain_text_columns(cut);
		if (name_columns + 2 + 8 > room)
			where[0] = '\0';
		else
			limpet_pen_cut(where, room - name_columns - 2, true);
	}
	return where[0] ? limpet_pen_line(&talk->pen, style, "%s%s  %s", before, cut, where)
			: limpet_pen_line(&talk->pen, style, "%s%s", before, cut);
}

/* Of a function: its file, or its module unless that is the program. */
static const char *function_place(const struct talk *talk, const struct limpet_function *function)
{
	if (function->file)
		return base_name(function->file);
	if (function->named && function->module &&
	    strcmp(function->module, talk->heap->model->target->executable) != 0)
		return base_name(function->module);
	return "";
}

static int print_function(struct talk *talk, const char *style, const char *before, uint32_t number)
{
	const struct limpet_function *function = &talk->heap->places->functions[number];
	LIMPET_FREE char *name = limpet_function_name(function, talk->pen.options->full);

	return name ? print_named(talk, style, before, name, function_place(talk, function))
		    : -ENOMEM;
}

static int print_more(struct talk *talk, const char *before, size_t rest)
{
	return rest ? limpet_pen_line(&talk->pen, talk->pen.options->dim, "%s... %zu more", before,
				      rest)
		    : 0;
}

/* ------------------------------------------------------------------ title */

static int print_title(struct talk *talk, const char *what)
{
	const struct limpet_model *model = talk->heap->model;
	const struct limpet_view *view = &talk->heap->view;
	struct limpet_pen *pen = &talk->pen;
	int result;

	result =
		limpet_pen_line(pen, pen->options->bold, "%s of %s (pid %u) by %s: %s%s", what,
				model->target->known ? model->target->comm : "?",
				model->target->pid, titles[view->sort], amount(talk, &view->totals),
				model->sample_bytes ? ", estimated" : "");
	if (!result && (model->windowed || model->widened))
		result = limpet_pen_line(
			pen, "", "window    %s to %s%s", limpet_pen_duration(pen, model->from_ns),
			limpet_pen_duration(pen, model->to_ns),
			talk->heap->narrowed ? ": of all before, sums alone are kept" : "");
	if (!result && !talk->heap->filtered && limpet_pen_is_empty(model))
		result = limpet_pen_say_empty(pen, model);
	if (!result && talk->heap->filtered)
		result = limpet_pen_line(pen, "", "filtered  %s hidden in %s allocation%s",
					 amount(talk, &talk->heap->hidden),
					 limpet_pen_count(pen, talk->heap->hidden.allocations),
					 limpet_pen_plural(talk->heap->hidden.allocations));
	if (!result && (limpet_model_lacks_events(model) ||
			(model->end->end != LIMPET_END_RUNNING &&
			 (model->losses & LIMPET_LOSSES_OF_A_READER ||
			  (talk->heap->replay && talk->heap->replay->losses)))))
		result = limpet_pen_line(pen, pen->options->warn,
					 "losses    the trace is not complete: limpet report says "
					 "what is missing");
	return result;
}

/* ------------------------------------------------------------------ trees */

/* Deeper than stacks are walked; a crafted trace must not exhaust ours. */
#define DEPTH_MAX 2000u

struct branch {
	char indent[128];
	size_t columns;
	unsigned depth;
};

static int print_children(struct talk *talk, const struct limpet_view_tree *tree, uint32_t parent,
			  const struct branch *branch);

/* All of its parent's: it stands below it, not beside, so that chains do not wander to the right.
 */
static bool is_alone(const struct talk *talk, const struct limpet_view_tree *tree, uint32_t number)
{
	enum limpet_report_sort sort = talk->heap->view.sort;
	const struct limpet_view_node *node = &tree->nodes[number];

	return limpet_report_figure(&node->figures, sort) ==
	       limpet_report_figure(&tree->nodes[node->parent].figures, sort);
}

static int print_node(struct talk *talk, const struct limpet_view_tree *tree, uint32_t number,
		      const struct branch *branch, bool alone, bool last)
{
	const struct limpet_view_node *node = &tree->nodes[number];
	struct branch below = *branch;
	char before[200];
	int result;

	/* Along a chain the figures stay what they were. */
	snprintf(before, sizeof(before), "%10s %5s  %s%s",
		 alone ? "" : amount(talk, &node->figures),
		 alone ? "" : share(talk, &node->figures), branch->indent,
		 alone || !branch->depth ? ""
		 : last                  ? "`-"
					 : "|-");
	result = print_function(talk, "", before, node->function);
	below.depth++;
	if (!alone && branch->depth && below.columns + 2 < sizeof(below.indent) &&
	    below.columns + 2 <= (talk->pen.options->width ? talk->pen.options->width / 3 : 100)) {
		strcpy(below.indent + below.columns, last ? "  " : "| ");
		below.columns += 2;
	}
	return result ? result : print_children(talk, tree, number, &below);
}

static int print_children(struct talk *talk, const struct limpet_view_tree *tree, uint32_t parent,
			  const struct branch *branch)
{
	size_t shown = 0, all = 0, limit;
	char before[200];
	int result = 0;

	for (uint32_t at = tree->nodes[parent].first_child; at; at = tree->nodes[at].next)
		all += is_shown(talk, &tree->nodes[at].figures);
	if (branch->depth >= DEPTH_MAX ||
	    (talk->options->depth && branch->depth >= talk->options->depth))
		return 0;
	limit = all < talk->options->limit ? all : talk->options->limit;
	for (uint32_t at = tree->nodes[parent].first_child; at && shown < limit && !result;
	     at = tree->nodes[at].next) {
		if (!is_shown(talk, &tree->nodes[at].figures))
			continue;
		shown++;
		result = print_node(talk, tree, at, branch,
				    all == 1 && branch->depth && is_alone(talk, tree, at),
				    shown == all);
		if (ferror(talk->pen.file))
			return 0;
	}
	snprintf(before, sizeof(before), "%10s %5s  %s", "", "", branch->indent);
	return result ? result : print_more(talk, before, all - shown);
}

static int print_tree(struct talk *talk, bool bottom_up)
{
	struct limpet_view_tree *tree;
	struct branch branch = {0};
	int result = limpet_view_tree_new(&talk->heap->view, bottom_up, &tree);

	if (result < 0)
		return result;
	result = print_title(talk, bottom_up ? "Allocating functions and their callers"
					     : "Calls from the top down");
	limpet_pen_blank(&talk->pen);
	if (!result)
		result = print_children(talk, tree, 0, &branch);
	limpet_view_tree_free(tree);
	return result;
}

/* ------------------------------------------------------------------ tables */

static int print_rows(struct talk *talk, const struct limpet_view_rows *rows, bool self)
{
	size_t shown = 0, all = 0;
	int result = 0;

	for (size_t i = 0; i < rows->count; i++) {
		const struct limpet_view_row *row = &rows->rows[i];
		char before[120];

		if (!is_shown(talk, &row->total))
			continue;
		if (all++ >= talk->options->limit || result)
			continue;
		shown++;
		if (self)
			snprintf(before, sizeof(before), "%10s %5s  %10s %5s  ",
				 amount(talk, &row->total), share(talk, &row->total),
				 amount(talk, &row->self), share(talk, &row->self));
		else
			snprintf(before, sizeof(before), "%10s %5s  ", amount(talk, &row->total),
				 share(talk, &row->total));
		result = print_function(talk, "", before, row->function);
	}
	return result ? result : print_more(talk, "  ", all - shown);
}

static int print_functions(struct talk *talk)
{
	struct limpet_view_rows rows;
	int result = limpet_view_functions(&talk->heap->view, &rows);

	if (result < 0)
		return result;
	result = print_title(talk, "Functions");
	limpet_pen_blank(&talk->pen);
	if (!result)
		result = limpet_pen_line(&talk->pen, talk->pen.options->dim,
					 "%10s %5s  %10s %5s  %s", "with calls", "", "itself", "",
					 "function");
	if (!result)
		result = print_rows(talk, &rows, true);
	limpet_view_rows_done(&rows);
	return result;
}

static int print_modules(struct talk *talk)
{
	struct limpet_view_rows rows;
	int result = limpet_view_modules(&talk->heap->view, &rows);

	if (result < 0)
		return result;
	result = print_title(talk, "Modules");
	limpet_pen_blank(&talk->pen);
	if (!result)
		result = limpet_pen_line(&talk->pen, talk->pen.options->dim,
					 "%10s %5s  %10s %5s  %s", "itself", "", "with calls", "",
					 "module");
	for (size_t i = 0; i < rows.count && i < talk->options->limit && !result; i++) {
		const struct limpet_view_row *row = &rows.rows[i];
		LIMPET_FREE char *name = strdup(row->name ? row->name : "(no module)");
		char before[120];

		snprintf(before, sizeof(before), "%10s %5s  %10s %5s  ", amount(talk, &row->self),
			 share(talk, &row->self), amount(talk, &row->total),
			 share(talk, &row->total));
		result = name ? print_named(talk, "", before, limpet_plain_text_clean(name), NULL)
			      : -ENOMEM;
	}
	if (!result && rows.count > talk->options->limit)
		result = print_more(talk, "  ", rows.count - talk->options->limit);
	limpet_view_rows_done(&rows);
	return result;
}

/* ------------------------------------------------------------------ callers and callees */

int limpet_view_explain(const struct limpet_view *view, const char *name,
			const struct limpet_view_calls *calls, int code, struct limpet_err *err)
{
	const struct limpet_function *functions = view->places->functions;
	char text[256] = "";

	if (code == -ENOENT) {
		limpet_err_set(err, code, "no function on these stacks is called '%s'", name);
		limpet_err_hint(err, "--view functions lists them");
		return code;
	}
	if (code != -ENOTUNIQ)
		return limpet_err_set(err, code, "cannot find '%s': %s", name, strerror(-code));
	for (size_t i = 0; i < calls->chosen_count && i < 4; i++) {
		size_t used = strlen(text);

		snprintf(text + used, sizeof(text) - used, "%s%.60s", i ? ", " : "",
			 functions[calls->chosen[i]].name);
	}
	limpet_err_set(err, code, "'%s' is part of %zu names", name, calls->chosen_count);
	limpet_err_hint(err, "one of %s%s", text, calls->chosen_count > 4 ? "..." : "");
	return code;
}

/* Without debug information there are none. */
static bool has_lines(const struct talk *talk, const struct limpet_view_rows *rows)
{
	for (size_t i = 0; i < rows->count; i++)
		if (talk->heap->places->places[rows->rows[i].function].file)
			return true;
	return false;
}

static int print_lines(struct talk *talk, const struct limpet_view_rows *rows)
{
	size_t shown = 0, all = 0;
	int result = 0;

	for (size_t i = 0; i < rows->count; i++) {
		const struct limpet_place *place =
			&talk->heap->places->places[rows->rows[i].function];
		LIMPET_FREE char *text = NULL;
		char before[120];

		if (!is_shown(talk, &rows->rows[i].total) || !place->file)
			continue;
		if (all++ >= talk->options->limit || result)
			continue;
		shown++;
		snprintf(before, sizeof(before), "%10s %5s  ", amount(talk, &rows->rows[i].total),
			 share(talk, &rows->rows[i].total));
		if (asprintf(&text, "%s:%u", place->file, place->line) < 0) {
			text = NULL;
			return -ENOMEM;
		}
		result = print_named(talk, "", before, limpet_plain_text_clean(text), NULL);
	}
	return result ? result : print_more(talk, "  ", all - shown);
}

static int print_part(struct talk *talk, const char *heading, const struct limpet_view_rows *rows,
		      int (*print)(struct talk *, const struct limpet_view_rows *))
{
	int result;

	if (!rows->count)
		return 0;
	limpet_pen_blank(&talk->pen);
	result = limpet_pen_line(&talk->pen, talk->pen.options->bold, "%s", heading);
	return result ? result : print(talk, rows);
}

static int print_plain_rows(struct talk *talk, const struct limpet_view_rows *rows)
{
	return print_rows(talk, rows, false);
}

/* "4.0 KiB, 12 %" */
static void say_figure(struct talk *talk, const struct limpet_model_site *figures,
		       char ret_text[80])
{
	const char *part = share(talk, figures);

	snprintf(ret_text, 80, "%s%s%s", amount(talk, figures), part[0] ? ", " : "", part);
}

static int print_calls(struct talk *talk, struct limpet_err *err)
{
	struct limpet_view_calls *calls = NULL;
	const char *name = talk->options->function;
	char all[80], self[80];
	int64_t figure;
	int result = limpet_view_calls_new(&talk->heap->view, name, &calls);

	if (result < 0) {
		if (calls)
			result = limpet_view_explain(&talk->heap->view, name, calls, result, err);
		limpet_view_calls_free(calls);
		return result;
	}
	figure = limpet_report_figure(&calls->total, talk->heap->view.sort);
	talk->base = figure > 0 ? (uint64_t)figure : 0;
	result = print_title(talk, "Callers and callees");
	limpet_pen_blank(&talk->pen);
	for (size_t i = 0; i < calls->chosen_count && !result; i++)
		result = print_function(talk, talk->pen.options->bold, "", calls->chosen[i]);
	say_figure(talk, &calls->total, all);
	say_figure(talk, &calls->self, self);
	if (!result)
		result = limpet_pen_line(&talk->pen, "", "with what it calls %s; itself %s", all,
					 self);
	if (!result)
		result = print_part(talk, "called by", &calls->callers, print_plain_rows);
	if (!result)
		result = print_part(talk, "calls", &calls->callees, print_plain_rows);
	if (!result && has_lines(talk, &calls->lines))
		result = print_part(talk, "from its lines", &calls->lines, print_lines);
	limpet_view_calls_free(calls);
	return result;
}

/* ------------------------------------------------------------------ threads */

static int print_threads(struct talk *talk)
{
	const struct limpet_replay *replay = talk->heap->replay;
	struct limpet_pen *pen = &talk->pen;
	int result = print_title(talk, "Threads");

	limpet_pen_blank(pen);
	if (!result)
		result = limpet_pen_line(pen, pen->options->dim, "%8s %10s %10s %8s %10s %8s %8s",
					 "thread", "live", "at peak", "allocs", "allocated", "temp",
					 "frees");
	for (size_t i = 0; i < replay->thread_count && i < talk->options->limit && !result; i++) {
		const struct limpet_replay_thread *thread = &replay->threads[i];
		const struct limpet_model_site *figures = &thread->figures;

		result = limpet_pen_line(
			pen, "", "%8u %10s %10s %8s %10s %8s %8s", thread->tid,
			limpet_pen_bytes(pen, figures->live_bytes),
			limpet_pen_bytes(pen, figures->peak_bytes),
			limpet_pen_count(pen, figures->allocations),
			limpet_pen_bytes(pen, figures->allocated_bytes),
			is_sampled(talk) ? "-"
					 : limpet_pen_count(pen, figures->temporary_allocations),
			limpet_pen_count(pen, thread->own_frees));
	}
	if (!result && replay->thread_count > talk->options->limit)
		result = print_more(talk, "  ", replay->thread_count - talk->options->limit);
	return result;
}

/* ------------------------------------------------------------------ sizes and lifetimes */

/* "innermost < caller < caller", as much as fits. */
static int print_chain(struct talk *talk, const char *before, const struct limpet_view_tree *tree,
		       uint32_t leaf)
{
	const size_t width = talk->pen.options->width ? talk->pen.options->width : 400;
	const size_t used = strlen(before);
	LIMPET_FREE char *text = strdup("");

	for (uint32_t at = leaf; text && at; at = tree->nodes[at].parent) {
		LIMPET_FREE char *name = limpet_function_name(
			&talk->heap->places->functions[tree->nodes[at].function], false);
		LIMPET_FREE char *old = LIMPET_TAKE(text);

		/* Of the function itself the end says more: scopes go first. */
		if (name && at == leaf && width > used)
			limpet_pen_cut(name, width - used, true);
		if (!name || asprintf(&text, "%s%s%s", old, at == leaf ? "" : " < ", name) < 0)
			text = NULL;
		/* What would be cut off right behind the function is not begun. */
		if (text && used + limpet_plain_text_columns(text) + 8 > width)
			break;
	}
	return text ? limpet_pen_line(&talk->pen, "", "%s%s", before, text) : -ENOMEM;
}

static int print_size_buckets(struct talk *talk)
{
	const struct limpet_replay *replay = talk->heap->replay;
	struct limpet_pen *pen = &talk->pen;
	uint64_t calls = talk->heap->view.totals.allocations;
	int result = limpet_pen_line(pen, pen->options->dim, "%10s %10s %9s %5s %10s %10s", "from",
				     "below", "allocs", "", "total", "average");

	for (size_t i = 0; i < replay->size_count && !result; i++) {
		const struct limpet_model_size *size = &replay->sizes[i];

		result = limpet_pen_line(
			pen, "", "%10s %10s %9s %5s %10s %10s",
			limpet_pen_bytes(pen, size->from_bytes),
			limpet_pen_bytes(pen, size->to_bytes < UINT64_MAX ? size->to_bytes + 1
									  : UINT64_MAX),
			limpet_pen_count(pen, size->allocations),
			limpet_pen_share(pen, size->allocations, calls),
			limpet_pen_bytes(pen, size->allocated_bytes),
			limpet_pen_bytes(pen, size->allocated_bytes / size->allocations));
	}
	return result;
}

static int print_size_rows(struct talk *talk, const struct limpet_view_tree *tree,
			   const struct limpet_view_lives *lives)
{
	struct limpet_pen *pen = &talk->pen;
	size_t all = 0;
	int result = limpet_pen_line(pen, pen->options->dim, "%9s %10s %10s %10s %10s  %s",
				     "allocs", "total", "average", "smallest", "largest", "site");

	for (size_t i = 0; i < lives->count && !result; i++) {
		const struct limpet_replay_site *life = &lives->rows[i].life;
		char before[120];

		if (!life->figures.allocations || all++ >= talk->options->limit)
			continue;
		snprintf(before, sizeof(before), "%9s %10s %10s %10s %10s  ",
			 limpet_pen_count(pen, life->figures.allocations),
			 limpet_pen_bytes(pen, life->figures.allocated_bytes),
			 limpet_pen_bytes(pen, life->figures.allocated_bytes /
						       life->figures.allocations),
			 limpet_pen_bytes(pen, life->smallest_bytes),
			 limpet_pen_bytes(pen, life->largest_bytes));
		result = print_chain(talk, before, tree, lives->rows[i].leaf);
	}
	if (!result && all > talk->options->limit)
		result = print_more(talk, "  ", all - talk->options->limit);
	return result;
}

/* The limit below which that share of the blocks stayed; "" of none. */
static const char *within(struct talk *talk, const struct limpet_replay_ages *ages, double part)
{
	uint64_t all = 0, sum = 0;

	for (unsigned i = 0; i < LIMPET_REPLAY_AGES; i++)
		all += ages->blocks[i];
	if (!all)
		return "";
	for (unsigned i = 0; i < LIMPET_REPLAY_AGES - 1; i++) {
		sum += ages->blocks[i];
		if ((double)sum >= part * (double)all)
			return limpet_pen_duration(&talk->pen, limpet_replay_age_limits_ns[i]);
	}
	return "longer";
}

static int print_age_buckets(struct talk *talk, const struct limpet_view_lives *lives)
{
	const struct limpet_replay_ages *freed = &lives->all.freed, *alive = &lives->all.alive;
	struct limpet_pen *pen = &talk->pen;
	int result = limpet_pen_line(pen, pen->options->dim, "%11s %9s %10s   %9s %10s", "lived",
				     "freed", "bytes", "alive", "bytes");

	for (unsigned i = 0; i < LIMPET_REPLAY_AGES && !result; i++) {
		char below[48];

		if (!freed->blocks[i] && !alive->blocks[i])
			continue;
		if (i < LIMPET_REPLAY_AGES - 1)
			snprintf(below, sizeof(below), "below %s",
				 limpet_pen_duration(pen, limpet_replay_age_limits_ns[i]));
		else
			snprintf(below, sizeof(below), "longer");
		result = limpet_pen_line(pen, "", "%11s %9s %10s   %9s %10s", below,
					 limpet_pen_count(pen, freed->blocks[i]),
					 limpet_pen_bytes(pen, freed->bytes[i]),
					 limpet_pen_count(pen, alive->blocks[i]),
					 limpet_pen_bytes(pen, alive->bytes[i]));
	}
	return result;
}

static int print_age_rows(struct talk *talk, const struct limpet_view_tree *tree,
			  const struct limpet_view_lives *lives)
{
	struct limpet_pen *pen = &talk->pen;
	int result =
		limpet_pen_line(pen, pen->options->dim, "%8s %6s %6s  %8s %10s %7s  %s", "freed",
				"half <", "90% <", "alive", "bytes", "oldest", "site");

	for (size_t i = 0; i < lives->count && i < talk->options->limit && !result; i++) {
		const struct limpet_replay_site *life = &lives->rows[i].life;
		char before[120];

		snprintf(before, sizeof(before), "%8s %6s %6s  %8s %10s %7s  ",
			 limpet_pen_count(pen, life->figures.frees),
			 within(talk, &life->freed, 0.5), within(talk, &life->freed, 0.9),
			 limpet_pen_count(pen, life->figures.live_allocations),
			 limpet_pen_bytes(pen, life->figures.live_bytes),
			 life->oldest_ns ? limpet_pen_duration(pen, life->oldest_ns) : "");
		result = print_chain(talk, before, tree, lives->rows[i].leaf);
	}
	if (!result && lives->count > talk->options->limit)
		result = print_more(talk, "  ", lives->count - talk->options->limit);
	return result;
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
		result = print_title(talk, sizes ? "Sizes" : "Lifetimes");
	limpet_pen_blank(&talk->pen);
	if (!result)
		result = sizes ? print_size_buckets(talk) : print_age_buckets(talk, &lives);
	limpet_pen_blank(&talk->pen);
	if (!result)
		result = sizes ? print_size_rows(talk, tree, &lives)
			       : print_age_rows(talk, tree, &lives);
	limpet_view_lives_done(&lives);
	limpet_view_tree_free(tree);
	return result;
}

/* ------------------------------------------------------------------ timeline */

#define BAR_COLUMNS 16u

/* Memory as the kernel counted it last before that time. */
static const struct limpet_model_point *point_at(const struct limpet_model *model, uint64_t time_ns)
{
	const struct limpet_model_point *found = NULL;

	for (size_t i = 0; i < model->timeline_count && model->timeline[i].time_ns <= time_ns; i++)
		found = &model->timeline[i];
	return found;
}

static int print_timeline(struct talk *talk)
{
	const struct limpet_replay *replay = talk->heap->replay;
	struct limpet_pen *pen = &talk->pen;
	uint64_t most = 1;
	bool has_rss = false;
	int result = print_title(talk, "Timeline");

	for (size_t i = 0; i < replay->moment_count; i++)
		if (replay->moments[i].live_bytes > most)
			most = replay->moments[i].live_bytes;
	limpet_pen_blank(pen);
	if (!result)
		result = limpet_pen_line(pen, pen->options->dim, "%7s %10s %-*s %10s %9s %10s %10s",
					 "until", "live", (int)BAR_COLUMNS, "", "allocs",
					 "temporary", "RSS", "mapped");
	for (size_t i = 0; i < replay->moment_count && !result; i++) {
		const struct limpet_replay_moment *moment = &replay->moments[i];
		const struct limpet_model_point *point = point_at(talk->heap->model, moment->to_ns);
		uint64_t length = moment->to_ns - moment->from_ns;
		unsigned columns =
			(unsigned)((double)BAR_COLUMNS * (double)moment->live_bytes / (double)most +
				   0.5);
		char bar[BAR_COLUMNS + 1] = "";

		memset(bar, '#', columns < BAR_COLUMNS ? columns : BAR_COLUMNS);
		has_rss |= point && point->rss_bytes;
		result = limpet_pen_line(
			pen, "", "%7s %10s %-*s %10s %9s %10s %10s",
			limpet_pen_duration(pen, moment->to_ns),
			limpet_pen_bytes(pen, moment->live_bytes), (int)BAR_COLUMNS, bar,
			limpet_pen_rate(pen, moment->allocations, length),
			is_sampled(talk) ? "-"
					 : limpet_pen_share(pen, moment->temporary_allocations,
							    moment->allocations),
			point && limpet_model_point_rss(point)
				? limpet_pen_bytes(pen, limpet_model_point_rss(point))
				: "",
			point && point->mapped_bytes ? limpet_pen_bytes(pen, point->mapped_bytes)
						     : "");
	}
	if (!result && has_rss && !limpet_model_has_own_part(talk->heap->model))
		result = limpet_pen_wrap(pen, "", 0,
					 "The RSS is with limpet's own part: how much that was is "
					 "not known of each time.");
	return result;
}

static int print_unknown(struct talk *talk)
{
	int result = print_title(talk, "Stacks");

	limpet_pen_blank(&talk->pen);
	return result ? result
		      : limpet_pen_line(&talk->pen, talk->pen.options->bold, "%s",
					limpet_report_not_temporary);
}

int limpet_view_text_print(struct limpet_heap *heap, const struct limpet_view_options *options,
			   const struct limpet_report_text_options *text, FILE *file,
			   struct limpet_err *err)
{
	struct talk talk = {
		.pen = {.file = file, .options = text}, .heap = heap, .options = options};
	int64_t whole = limpet_report_figure(&heap->view.totals, heap->view.sort);

	if (heap->view.sort != LIMPET_REPORT_GROWTH && whole > 0)
		talk.whole = (uint64_t)whole;
	talk.base = talk.whole;
	/* The views of single events are not made of that figure alone. */
	if (is_unknown(&talk) && !limpet_view_needs_replay(options->kind))
		return print_unknown(&talk);
	switch (options->kind) {
	case LIMPET_VIEW_BOTTOM_UP:
	case LIMPET_VIEW_TOP_DOWN:
		return print_tree(&talk, options->kind == LIMPET_VIEW_BOTTOM_UP);
	case LIMPET_VIEW_FUNCTIONS:
		return print_functions(&talk);
	case LIMPET_VIEW_CALLERS:
		return print_calls(&talk, err);
	case LIMPET_VIEW_THREADS:
		return print_threads(&talk);
	case LIMPET_VIEW_MODULES:
		return print_modules(&talk);
	case LIMPET_VIEW_SIZES:
	case LIMPET_VIEW_LIFETIMES:
		return print_lives(&talk);
	case LIMPET_VIEW_TIMELINE:
		return print_timeline(&talk);
	case LIMPET_VIEW_SITES:
	case LIMPET_VIEW_COUNT:
		break;
	}
	return -EINVAL;
}
