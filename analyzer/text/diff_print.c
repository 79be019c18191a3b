/* A diff as text and as JSON; also limpet_diff_json_side() of analyzer/views/diff.h. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/symbols/demangle.h"
#include "analyzer/text/chain_text.h"
#include "analyzer/text/diff_print.h"
#include "analyzer/text/json_printer.h"
#include "analyzer/text/losses_json.h"
#include "analyzer/text/report_printer.h"
#include "common/plain_text.h"

/* ------------------------------------------------------------------ text */

static const char *change_text(struct limpet_printer *printer, enum limpet_report_sort sort,
			       int64_t change, char ret[LIMPET_UNITS_TEXT + 1])
{
	if (sort != LIMPET_REPORT_ALLOCATIONS && sort != LIMPET_REPORT_TEMPORARY)
		return limpet_printer_bytes_change(printer, change);
	snprintf(ret, LIMPET_UNITS_TEXT + 1, "%s%s",
		 change > 0   ? "+"
		 : change < 0 ? "-"
			      : "",
		 limpet_printer_count(printer, (uint64_t)llabs(change)));
	return ret;
}

/* One reason and its punctuation. */
#define SENTENCE (LIMPET_LOSS_WORDS + 4)

static uint64_t last_rss(const struct limpet_model *model)
{
	for (size_t i = model->timeline_count; i-- > 0;)
		if (limpet_model_point_rss(&model->timeline[i]))
			return limpet_model_point_rss(&model->timeline[i]);
	return 0;
}

/* The bounds of a whole heap's live bytes; "": unknown, or exact. */
static const char *say_bounds(char ret[SENTENCE], struct limpet_printer *printer,
			      const struct limpet_analysis *analysis)
{
	const struct limpet_model_bound *live = &analysis->model->bounds.live_bytes;

	ret[0] = '\0';
	if (analysis->filtered || (live->has_min && live->has_max && live->min == live->max))
		return ret;
	if (live->has_min && live->has_max)
		snprintf(ret, SENTENCE, ": %s to %s %s", limpet_printer_bytes(printer, live->min),
			 limpet_printer_bytes(printer, live->max),
			 limpet_model_live_word(analysis->model));
	else if (live->has_min || live->has_max)
		snprintf(ret, SENTENCE, ": at %s %s %s", live->has_min ? "least" : "most",
			 limpet_printer_bytes(printer, live->has_min ? live->min : live->max),
			 limpet_model_live_word(analysis->model));
	return ret;
}

/* Why the side's figures are not complete or not exact. */
static void print_losses(struct limpet_printer *printer, const char *word,
			 const struct limpet_analysis *analysis)
{
	struct limpet_model_loss losses[LIMPET_LOSS_COUNT];
	const size_t count = limpet_printer_losses(analysis->model, losses);
	char why[LIMPET_LOSS_COUNT * SENTENCE] = "", bounds[SENTENCE];
	bool incomplete = false, inexact = false;
	size_t used = 0;

	for (size_t i = 0; i < count; i++) {
		incomplete |= losses[i].incomplete;
		inexact |= losses[i].inexact;
		used += (size_t)snprintf(why + used, sizeof(why) - used, "%s%s", used ? "; " : "",
					 losses[i].words);
	}
	if (!used)
		return;
	limpet_printer_row(printer, printer->options->warn, "", "the %s one is %s%s (%s)", word,
			   incomplete && inexact ? "neither complete nor exact"
			   : incomplete          ? "not complete"
						 : "not exact",
			   say_bounds(bounds, printer, analysis), why);
}

static void print_heap(struct limpet_printer *printer, const char *word, const char *name,
		       const struct limpet_analysis *analysis)
{
	const struct limpet_model *model = analysis->model;
	char names[LIMPET_PRINTER_NAMES];

	limpet_printer_row(printer, "", word, "%s: %s, %s to %s, %s %s, %s %s%s", name,
			   model->target->known ? model->target->comm : "?",
			   limpet_printer_time(printer, model->from_ns),
			   limpet_printer_time(printer, model->to_ns),
			   limpet_printer_bytes(printer, analysis->view.totals.live_bytes),
			   limpet_model_live_word(model),
			   limpet_printer_count(printer, analysis->view.totals.allocations),
			   model->target->pages ? "new page" : "allocation",
			   limpet_printer_plural(analysis->view.totals.allocations));
	/* The difference does not cover mappings. */
	if (model->totals.mapped_bytes || limpet_printer_is_empty(model))
		limpet_printer_line(printer, "", "%-9s %s mapped by mmap beside these%s%s", "",
				    limpet_printer_bytes(printer, model->totals.mapped_bytes),
				    last_rss(model) ? ", RSS " : "",
				    last_rss(model) ? limpet_printer_bytes(printer, last_rss(model))
						    : "");
	if (model->widened)
		limpet_printer_line(printer, "", "%-9s widened to whole minutes: no less is kept",
				    "");
	if (model->sample_bytes)
		limpet_printer_line(printer, "", "%-9s is estimated", "");
	if (limpet_printer_say_names(model, names))
		limpet_printer_row(printer, "", "", "names are %s", names);
	print_losses(printer, word, analysis);
}

/* Columns of a row before the site. */
#define BEFORE_SITE 39u

static char *whole_name(const void *context, uint32_t name)
{
	const struct limpet_diff *diff = context;

	return strdup(diff->names[name]);
}

static char *short_name(const void *context, uint32_t name)
{
	const struct limpet_diff *diff = context;

	return limpet_demangle_shorten(diff->names[name]);
}

/* malloc'ed; NULL: out of memory. */
static char *chain_of(const struct limpet_printer *printer, const struct limpet_diff *diff,
		      uint32_t node)
{
	struct limpet_chain chain = {
		.name = printer->options->full ? whole_name : short_name,
		.context = diff,
		.full = printer->options->full,
		.width = printer->options->width,
		.used = BEFORE_SITE,
	};
	LIMPET_FREE uint32_t *names = NULL;
	size_t depth = 0;

	for (uint32_t at = node; at; at = diff->nodes[at].parent)
		depth++;
	names = calloc(depth + 1, sizeof(*names));
	if (!names)
		return NULL;
	for (uint32_t at = node; at; at = diff->nodes[at].parent)
		names[chain.count++] = diff->nodes[at].name;
	chain.functions = names;
	return limpet_chain_text(&chain);
}

static void print_row(struct limpet_printer *printer, const struct limpet_diff *diff,
		      const struct limpet_diff_row *row)
{
	const char *mark = row->state == LIMPET_DIFF_APPEARED   ? "new"
			   : row->state == LIMPET_DIFF_VANISHED ? "gone"
								: "";
	LIMPET_FREE char *chain = chain_of(printer, diff, row->node);
	char buffer[LIMPET_UNITS_TEXT + 1];

	if (!limpet_printer_check(printer, chain ? 0 : -ENOMEM))
		return;
	limpet_printer_line(printer, "", "%11s %10s %10s %-4s %s",
			    change_text(printer, diff->sort, row->change, buffer),
			    limpet_printer_figure(printer, diff->sort, row->old_figure),
			    limpet_printer_figure(printer, diff->sort, row->new_figure), mark,
			    chain);
}

/* A smaller growth is no decrease. */
static void print_still_grows(struct limpet_printer *printer, const struct limpet_diff *diff)
{
	const struct limpet_diff_row *totals = &diff->totals;

	if (diff->sort == LIMPET_REPORT_GROWTH && totals->new_figure > 0 && totals->change < 0)
		limpet_printer_line(printer, "",
				    "The new one grew, too: by %s less than the old one.",
				    limpet_printer_bytes(printer, (uint64_t)-totals->change));
}

static void print_programs(struct limpet_printer *printer, const struct limpet_diff *diff)
{
	bool old = false, new = false, both = false;

	for (size_t i = 0; i < diff->row_count && !both; i++) {
		const bool is_old = limpet_diff_has_figure(&diff->rows[i].old_figures);
		const bool is_new = limpet_diff_has_figure(&diff->rows[i].new_figures);

		old |= is_old;
		new |= is_new;
		both = is_old && is_new;
	}
	if (old && new && !both)
		limpet_printer_row(printer, printer->options->warn, "",
				   "No stack is in both: these may be different programs, or their "
				   "functions have other names.");
}

/* Where one side is so many times as long as the other, scaled figures are a guess. */
#define FAR 3

/* What figures over time stand for, if the sides are of different lengths. */
static void print_scale(struct limpet_printer *printer, const struct limpet_diff *diff)
{
	const struct limpet_model *old_model = diff->old_heap->model,
				  *new_model = diff->new_heap->model;
	const char *old_length =
			   limpet_printer_duration(printer, old_model->to_ns - old_model->from_ns),
		   *new_length =
			   limpet_printer_duration(printer, new_model->to_ns - new_model->from_ns);

	if (diff->unscaled && strcmp(old_length, new_length))
		limpet_printer_row(printer, "", "unscaled",
				   "figures as they are: the old one's of %s, the new one's of %s",
				   old_length, new_length);
	if (diff->scale > 1.001 || diff->scale < 0.999)
		limpet_printer_row(
			printer, "", "scaled",
			"the old one's figures by %.3g, as if it had lasted %s and not %s",
			diff->scale, new_length, old_length);
	if (diff->scale > FAR || diff->scale < 1.0 / FAR)
		limpet_printer_row(
			printer, printer->options->warn, "",
			"So short a time says little of a longer one, and a single burst in it "
			"counts several times: take times of about one length, or --no-scale.");
}

int limpet_diff_text_print(const struct limpet_diff *diff, const char *old_name,
			   const char *new_name, size_t limit,
			   const struct limpet_report_text_options *text, FILE *file)
{
	struct limpet_printer printer = {.file = file, .options = text};
	char buffer[LIMPET_UNITS_TEXT + 1];
	size_t changed = 0;

	print_heap(&printer, "old", old_name, diff->old_heap);
	print_heap(&printer, "new", new_name, diff->new_heap);
	print_programs(&printer, diff);
	print_scale(&printer, diff);
	if (diff->new_heap->filtered)
		limpet_printer_line(&printer, "", "filtered");
	if (diff->new_heap->model->target->pages)
		limpet_printer_row(&printer, "", "stacks", "%s", limpet_printer_first_touch);
	limpet_printer_blank(&printer);
	limpet_printer_line(&printer, text->bold, "%s: %s, from %s to %s",
			    limpet_printer_title(diff->new_heap->model, diff->sort),
			    change_text(&printer, diff->sort, diff->totals.change, buffer),
			    limpet_printer_figure(&printer, diff->sort, diff->totals.old_figure),
			    limpet_printer_figure(&printer, diff->sort, diff->totals.new_figure));
	print_still_grows(&printer, diff);
	while (changed < diff->row_count && diff->rows[changed].change)
		changed++;
	if (!changed) {
		limpet_printer_line(&printer, "", "No stack has changed.");
		return printer.error;
	}
	limpet_printer_blank(&printer);
	limpet_printer_line(&printer, text->dim, "%11s %10s %10s %-4s %s", "change", "old", "new",
			    "", "site");
	for (size_t i = 0; i < changed && i < limit && !printer.error && !ferror(file); i++)
		print_row(&printer, diff, &diff->rows[i]);
	if (changed > limit)
		limpet_printer_line(&printer, text->dim, "  ... %zu more", changed - limit);
	return printer.error;
}

/* ------------------------------------------------------------------ JSON */

json_t *limpet_diff_json_side(const char *name, const struct limpet_analysis *analysis)
{
	const struct limpet_model *model = analysis->model;
	const struct limpet_model_bound *live = &model->bounds.live_bytes;
	const bool has_min = live->has_min && !analysis->filtered,
		   has_max = live->has_max && !analysis->filtered;

	return json_pack("{s:o,s:o,s:o,s:o,s:o,s:b,s:b,s:o,s:o,s:o,s:o,s:o,s:o,s:o}", "file",
			 limpet_json_text(name), "comm", limpet_json_text(model->target->comm),
			 "pid", limpet_json_number(model->target->pid), "from_seconds",
			 limpet_json_seconds(model->from_ns), "to_seconds",
			 limpet_json_seconds(model->to_ns), "complete", model->complete, "exact",
			 model->exact, "incomplete_reasons", limpet_losses_json_keys(model, true),
			 "inexact_reasons", limpet_losses_json_keys(model, false), "losses",
			 limpet_losses_json(model), "live_bytes_min",
			 has_min ? limpet_json_number(live->min) : json_null(), "live_bytes_max",
			 has_max ? limpet_json_number(live->max) : json_null(), "totals",
			 limpet_json_figures(&analysis->view.totals, model->sample_bytes), "names",
			 limpet_json_names(model));
}

static json_t *row_object(const struct limpet_diff *diff, const struct limpet_diff_row *row)
{
	json_t *stack = json_array();

	for (uint32_t at = row->node; stack && at; at = diff->nodes[at].parent)
		stack = limpet_json_append(stack,
					   limpet_json_text(diff->names[diff->nodes[at].name]));
	if (!stack)
		return NULL;
	return json_pack(
		"{s:s,s:I,s:I,s:I,s:o,s:o,s:o}", "state", limpet_diff_state_words[row->state],
		"change", (json_int_t)row->change, "old_scaled", (json_int_t)row->old_figure,
		"new_value", (json_int_t)row->new_figure, "old",
		limpet_json_figures(&row->old_figures, diff->old_heap->model->sample_bytes), "new",
		limpet_json_figures(&row->new_figures, diff->new_heap->model->sample_bytes),
		"stack", stack);
}

int limpet_diff_json_print(const struct limpet_diff *diff, const char *old_name,
			   const char *new_name, size_t limit, FILE *file)
{
	struct limpet_json_printer printer = {.file = file};

	fprintf(file, "{\"format\":\"limpet-diff\",\"version\":1,\"sort\":\"%s\"",
		limpet_report_sort_words[diff->sort]);
	limpet_json_member(&printer, "old", limpet_diff_json_side(old_name, diff->old_heap));
	limpet_json_member(&printer, "new", limpet_diff_json_side(new_name, diff->new_heap));
	limpet_json_member(&printer, "scale", json_real(diff->scale));
	limpet_json_member(&printer, "change", json_integer((json_int_t)diff->totals.change));
	limpet_json_begin_list(&printer, "sites");
	for (size_t i = 0; i < diff->row_count && i < limit && !printer.error && !ferror(file); i++)
		limpet_json_item(&printer, row_object(diff, &diff->rows[i]));
	limpet_json_end_list(&printer);
	fputs("}\n", file);
	return printer.error;
}
