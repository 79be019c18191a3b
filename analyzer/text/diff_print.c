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
#include "analyzer/views/kept_pages.h"
#include "analyzer/views/resident_parts.h"
#include "common/plain_text.h"

/* ------------------------------------------------------------------ text */

/* "12.3 MiB", "1.2 k/s"; a change has its sign. */
#define VALUE_TEXT (LIMPET_UNITS_TEXT + 4)
static const char *value_text(const struct limpet_diff *diff, int64_t value, bool is_change,
			      char ret[VALUE_TEXT])
{
	const char *per = diff->per_second ? "/s" : "";
	char text[LIMPET_UNITS_TEXT];

	if (diff->sort == LIMPET_REPORT_ALLOCATIONS || diff->sort == LIMPET_REPORT_TEMPORARY) {
		limpet_units_format_count(text, (uint64_t)llabs(value));
		snprintf(ret, VALUE_TEXT, "%s%s%s",
			 !is_change || !value ? ""
			 : value > 0          ? "+"
					      : "-",
			 text, per);
		return ret;
	}
	if (is_change || diff->sort == LIMPET_REPORT_GROWTH)
		limpet_units_format_bytes_change(text, value);
	else
		limpet_units_format_bytes(text, (uint64_t)value);
	snprintf(ret, VALUE_TEXT, "%s%s", text, per);
	return ret;
}

/* One reason and its punctuation. */
#define SENTENCE (LIMPET_LOSS_WORDS + 4)

/* The bounds of a whole heap's live bytes; "": unknown, or exact. */
static const char *format_bounds(char ret[SENTENCE], struct limpet_printer *printer,
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
			   format_bounds(bounds, printer, analysis), why);
}

static void print_heap(struct limpet_printer *printer, const char *word, const char *name,
		       const struct limpet_analysis *analysis)
{
	const struct limpet_model *model = analysis->model;
	const uint64_t rss_bytes = limpet_kept_pages_rss(model);
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
				    rss_bytes ? ", RSS " : "",
				    rss_bytes ? limpet_printer_bytes(printer, rss_bytes) : "");
	if (model->widened)
		limpet_printer_line(printer, "", "%-9s widened to whole minutes: no less is kept",
				    "");
	if (model->sample_bytes)
		limpet_printer_line(printer, "", "%-9s is estimated", "");
	if (limpet_printer_format_names(model, names))
		limpet_printer_row(printer, "", "", "names are %s", names);
	print_losses(printer, word, analysis);
}

/* Columns of a row before the site; of rates. */
#define BEFORE_SITE 39u
#define BEFORE_SITE_OF_RATES 45u

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
		      uint32_t node, size_t used)
{
	struct limpet_chain chain = {
		.name = printer->options->full ? whole_name : short_name,
		.context = diff,
		.full = printer->options->full,
		.width = printer->options->width,
		.used = used,
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
	LIMPET_FREE char *chain = chain_of(printer, diff, row->node,
					   diff->per_second ? BEFORE_SITE_OF_RATES : BEFORE_SITE);
	const int wider = diff->per_second ? 2 : 0;
	char change[VALUE_TEXT], old[VALUE_TEXT], new[VALUE_TEXT];

	if (!limpet_printer_check(printer, chain ? 0 : -ENOMEM))
		return;
	limpet_printer_line(printer, "", "%*s %*s %*s %-4s %s", 11 + wider,
			    value_text(diff, row->change, true, change), 10 + wider,
			    value_text(diff, row->old_value, false, old), 10 + wider,
			    value_text(diff, row->new_value, false, new), mark, chain);
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

static void print_resident(struct limpet_printer *printer, const struct limpet_diff *diff)
{
	LIMPET_FREE char *text = NULL;
	struct limpet_parts parts;

	if (limpet_diff_resident(diff, &parts) == 0 &&
	    limpet_printer_check(printer, limpet_parts_sentence(&parts, &text)) && text)
		limpet_printer_row(printer, "", "resident", "%s", text);
}

/* ------------------------------------------------------------------ lost blocks */

/* Sites shown of those that lost more, and the columns before them. */
#define LOSERS_SHOWN 5u
#define BEFORE_LOSER 27u

static uint64_t more_lost(const struct limpet_diff_row *row)
{
	const uint64_t old = row->lost[0].lost.bytes, new = row->lost[1].lost.bytes;

	return new > old ? new - old : 0;
}

static int compare_losers(const void *a, const void *b)
{
	const struct limpet_diff_row *x = *(const struct limpet_diff_row *const *)a;
	const struct limpet_diff_row *y = *(const struct limpet_diff_row *const *)b;

	if (more_lost(x) != more_lost(y))
		return more_lost(x) > more_lost(y) ? -1 : 1;
	return x->node < y->node ? -1 : x->node > y->node;
}

static void print_losers(struct limpet_printer *printer, const struct limpet_diff *diff)
{
	LIMPET_FREE const struct limpet_diff_row **losers =
		calloc(diff->row_count + 1, sizeof(*losers));
	size_t count = 0;

	if (!limpet_printer_check(printer, losers ? 0 : -ENOMEM))
		return;
	for (size_t i = 0; i < diff->row_count; i++)
		if (more_lost(&diff->rows[i]))
			losers[count++] = &diff->rows[i];
	qsort(losers, count, sizeof(*losers), compare_losers);
	for (size_t i = 0; i < count && i < LOSERS_SHOWN; i++) {
		LIMPET_FREE char *chain = chain_of(printer, diff, losers[i]->node, BEFORE_LOSER);

		if (!limpet_printer_check(printer, chain ? 0 : -ENOMEM))
			return;
		limpet_printer_line(printer, "", "%-9s %10s more  %s", "",
				    limpet_printer_bytes(printer, more_lost(losers[i])), chain);
	}
	if (count > LOSERS_SHOWN)
		limpet_printer_line(printer, printer->options->dim, "%-9s ... %zu more", "",
				    count - LOSERS_SHOWN);
}

static void print_lost(struct limpet_printer *printer, const struct limpet_diff *diff)
{
	struct limpet_lost lost[2] = {{0}, {0}};

	for (int i = 0; i < 2; i++)
		if (diff->leaks[i])
			lost[i] = limpet_lost_total(diff->leaks[i]);
	if (diff->leaks[0] && diff->leaks[1]) {
		limpet_printer_row(printer, "", "lost", "%s -> %s%s",
				   limpet_printer_bytes(printer, lost[0].lost.bytes),
				   limpet_printer_bytes(printer, lost[1].lost.bytes),
				   lost[0].is_probable || lost[1].is_probable ? ", probably" : "");
		print_losers(printer, diff);
	} else if (diff->leaks[0] || diff->leaks[1]) {
		const bool is_new = diff->leaks[1];

		limpet_printer_row(printer, "", "lost", "%s%s in the %s one; not known of the %s",
				   lost[is_new].is_probable ? "probably " : "",
				   limpet_printer_bytes(printer, lost[is_new].lost.bytes),
				   is_new ? "new" : "old", is_new ? "old" : "new");
	}
}

/* Growth in the new one that is as much as before has no change, and is no news of nothing. */
static bool is_shown(const struct limpet_diff *diff, const struct limpet_diff_row *row)
{
	return row->change || (diff->sort == LIMPET_REPORT_GROWTH && row->new_value > 0);
}

int limpet_diff_text_print(const struct limpet_diff *diff, const char *old_name,
			   const char *new_name, size_t limit,
			   const struct limpet_report_text_options *text, FILE *file)
{
	struct limpet_printer printer = {.file = file, .options = text};
	char change[VALUE_TEXT], old[VALUE_TEXT], new[VALUE_TEXT];
	const int wider = diff->per_second ? 2 : 0;
	size_t shown = 0;

	limpet_printer_wrap(&printer, text->bold, 0, "%s", diff->verdict);
	limpet_printer_blank(&printer);
	print_heap(&printer, "old", old_name, diff->old_heap);
	print_heap(&printer, "new", new_name, diff->new_heap);
	print_programs(&printer, diff);
	print_resident(&printer, diff);
	print_lost(&printer, diff);
	if (diff->new_heap->filtered)
		limpet_printer_line(&printer, "", "filtered");
	if (diff->new_heap->model->target->pages)
		limpet_printer_row(&printer, "", "stacks", "%s", limpet_printer_first_touch);
	limpet_printer_blank(&printer);
	limpet_printer_line(&printer, text->bold, "%s: %s, from %s to %s",
			    limpet_printer_title(diff->new_heap->model, diff->sort),
			    value_text(diff, diff->totals.change, true, change),
			    value_text(diff, diff->totals.old_value, false, old),
			    value_text(diff, diff->totals.new_value, false, new));
	while (shown < diff->row_count && is_shown(diff, &diff->rows[shown]))
		shown++;
	if (!shown) {
		limpet_printer_line(&printer, "", "No stack has changed.");
		return printer.error;
	}
	limpet_printer_blank(&printer);
	limpet_printer_line(&printer, text->dim, "%*s %*s %*s %-4s %s", 11 + wider, "change",
			    10 + wider, "old", 10 + wider, "new", "", "site");
	for (size_t i = 0; i < shown && i < limit && !printer.error && !ferror(file); i++)
		print_row(&printer, diff, &diff->rows[i]);
	if (shown > limit)
		limpet_printer_line(&printer, text->dim, "  ... %zu more", shown - limit);
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
			 "pid", limpet_json_known(model->target->pid), "from_seconds",
			 limpet_json_seconds(model->from_ns), "to_seconds",
			 limpet_json_seconds(model->to_ns), "complete", model->complete, "exact",
			 model->exact, "incomplete_reasons", limpet_losses_json_keys(model, true),
			 "inexact_reasons", limpet_losses_json_keys(model, false), "losses",
			 limpet_losses_json(model), "live_bytes_min",
			 has_min ? limpet_json_number(live->min) : json_null(), "live_bytes_max",
			 has_max ? limpet_json_number(live->max) : json_null(), "totals",
			 limpet_json_figures(&analysis->view.totals, model), "names",
			 limpet_json_names(model));
}

/* null: known of neither. */
static json_t *lost_object(const struct limpet_diff *diff, const struct limpet_lost lost[2])
{
	if (!diff->leaks[0] && !diff->leaks[1])
		return json_null();
	return json_pack("{s:o,s:o}", "before", limpet_json_lost(lost[0].known, &lost[0].lost),
			 "after", limpet_json_lost(lost[1].known, &lost[1].lost));
}

static json_t *row_object(const struct limpet_diff *diff, const struct limpet_diff_row *row)
{
	json_t *stack = json_array();

	for (uint32_t at = row->node; stack && at; at = diff->nodes[at].parent)
		stack = limpet_json_append(stack,
					   limpet_json_text(diff->names[diff->nodes[at].name]));
	if (!stack)
		return NULL;
	return json_pack("{s:s,s:I,s:I,s:I,s:o,s:o,s:o,s:o}", "state",
			 limpet_diff_state_word(diff, row), "change", (json_int_t)row->change,
			 "old_value", (json_int_t)row->old_value, "new_value",
			 (json_int_t)row->new_value, "old",
			 limpet_json_figures(&row->old_figures, diff->old_heap->model), "new",
			 limpet_json_figures(&row->new_figures, diff->new_heap->model), "lost",
			 lost_object(diff, row->lost), "stack", stack);
}

int limpet_diff_json_print(const struct limpet_diff *diff, const char *old_name,
			   const char *new_name, size_t limit, FILE *file)
{
	struct limpet_json_printer printer = {.file = file};
	struct limpet_lost lost[2] = {{0}, {0}};
	struct limpet_parts parts;

	for (int i = 0; i < 2; i++)
		if (diff->leaks[i])
			lost[i] = limpet_lost_total(diff->leaks[i]);
	fprintf(file, "{\"format\":\"limpet-diff\",\"version\":1,\"sort\":\"%s\"",
		limpet_report_sort_words[diff->sort]);
	limpet_json_member(&printer, "verdict", limpet_json_text(diff->verdict));
	limpet_json_member(&printer, "old", limpet_diff_json_side(old_name, diff->old_heap));
	limpet_json_member(&printer, "new", limpet_diff_json_side(new_name, diff->new_heap));
	limpet_json_member(&printer, "resident",
			   limpet_diff_resident(diff, &parts) == 0 ? limpet_json_resident(&parts)
								   : json_null());
	limpet_json_member(&printer, "lost", lost_object(diff, lost));
	limpet_json_member(&printer, "per_second", json_boolean(diff->per_second));
	limpet_json_member(&printer, "change", json_integer((json_int_t)diff->totals.change));
	limpet_json_begin_list(&printer, "sites");
	for (size_t i = 0; i < diff->row_count && i < limit && !printer.error && !ferror(file); i++)
		limpet_json_item(&printer, row_object(diff, &diff->rows[i]));
	limpet_json_end_list(&printer);
	fputs("}\n", file);
	return printer.error;
}
