#include "analyzer/views/diff_verdict.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/views/culprit.h"
#include "analyzer/views/resident_parts.h"
#include "common/array.h"
#include "common/units.h"

/* Rates that differ by less are the same: a minute is no exact measure. */
#define SAME_SHARE 0.15
/* Of live bytes: a smaller difference has no culprit. */
#define LEAST_SHARE 0.05
#define LEAST_BYTES (64u << 10)

enum { OLD, NEW, SIDES };

struct side {
	const struct limpet_analysis *heap;
	const struct limpet_verdict *verdict; /* NULL: it does not say what grows */
	bool grows, rose;
	double per_minute;
	const char *name; /* of the function or the part */
	char *where;      /* "under load_tile (x.cc:9)", "in thread stacks" */
};

static char *format_where(const struct limpet_verdict *verdict)
{
	const struct limpet_culprit *culprit = &verdict->about.culprit;
	LIMPET_FREE char *who = limpet_culprit_words(culprit, false);
	char *text;
	int code;

	if (!who)
		return NULL;
	if (!verdict->part)
		code = asprintf(&text, "under %s", who);
	else
		code = asprintf(&text, "in %s%s%s%s", verdict->part,
				verdict->about.kind == LIMPET_HEAP_FREE ? ", which is free" : "",
				culprit->node ? ", mapped by " : "", culprit->node ? who : "");
	return code < 0 ? NULL : text;
}

static int judge(struct side *side)
{
	const struct limpet_verdict *verdict = side->verdict;
	const struct limpet_model *model = side->heap->model;
	const double minutes = (double)(model->to_ns - model->from_ns) / 60e9;

	if (!verdict || !verdict->judged) {
		side->verdict = NULL;
		return 0;
	}
	side->rose = verdict->changed && verdict->about.kind == LIMPET_HEAP_RISE;
	side->grows = verdict->changed && !side->rose;
	side->per_minute = minutes > 0 ? (double)verdict->about.bytes / minutes : 0;
	side->name = verdict->part ?: verdict->about.culprit.function ?: "";
	side->where = format_where(verdict);
	return side->where ? 0 : -ENOMEM;
}

/* "60.0 MiB a minute". */
static const char *format_rate(char ret[2 * LIMPET_UNITS_TEXT], const struct side *side)
{
	char bytes[LIMPET_UNITS_TEXT];

	limpet_units_format_bytes(bytes, (uint64_t)side->per_minute);
	snprintf(ret, 2 * LIMPET_UNITS_TEXT, "%s a minute", bytes);
	return ret;
}

static const char *compare_rates(const struct side *old, const struct side *new)
{
	const double change = new->per_minute - old->per_minute;

	if (fabs(change) <= SAME_SHARE * fmax(new->per_minute, old->per_minute))
		return "as before";
	return change > 0 ? "faster than before" : "more slowly than before";
}

/* What the old one did, as the rest of a sentence; malloc'ed. */
static char *format_before(const struct side *old)
{
	char text[2 * LIMPET_UNITS_TEXT];
	char *said;
	int code;

	if (old->grows)
		code = asprintf(&said, "before, by %s %s", format_rate(text, old), old->where);
	else if (old->rose)
		code = asprintf(&said, "before, it rose once, by %s, %s",
				limpet_units_format_bytes(text, old->verdict->about.bytes),
				old->where);
	else
		code = asprintf(&said, "before, it did not grow");
	return code < 0 ? NULL : said;
}

static char *format_growth(const struct side *old, const struct side *new)
{
	char rate[2 * LIMPET_UNITS_TEXT], other[2 * LIMPET_UNITS_TEXT];
	LIMPET_FREE char *before = format_before(old);
	char *text;
	int code;

	if (!before)
		return NULL;
	format_rate(rate, new);
	format_rate(other, old);
	if (new->grows && old->grows && !strcmp(new->name, old->name))
		code = asprintf(&text, "Memory grows by %s %s, %s (%s).", rate, new->where,
				compare_rates(old, new), other);
	else if (new->grows)
		code = asprintf(&text, "Memory grows by %s %s; %s.", rate, new->where, before);
	else if (new->rose)
		code = asprintf(&text, "Memory rose once, by %s, %s; %s.",
				limpet_units_format_bytes(rate, new->verdict->about.bytes),
				new->where, before);
	else if (old->grows)
		code = asprintf(&text, "Memory grows no more; before, it grew by %s %s.", other,
				old->where);
	else
		code = asprintf(&text, "Memory does not grow; %s.", before);
	return code < 0 ? NULL : text;
}

/* ------------------------------------------------------------------ figures of one moment */

struct level {
	double old, new;
	const char *words; /* "live at the end" */
};

static struct level level_of(const struct limpet_diff *diff)
{
	const struct limpet_model *models[SIDES] = {diff->old_heap->model, diff->new_heap->model};
	const struct limpet_model_site *old = &diff->totals.old_figures,
				       *new = &diff->totals.new_figures;

	if (models[OLD]->target->mode == LIMPET_MODE_RUN &&
	    models[NEW]->target->mode == LIMPET_MODE_RUN && !models[OLD]->windowed &&
	    !models[NEW]->windowed)
		return (struct level){(double)old->peak_bytes, (double)new->peak_bytes,
				      "live at the peak"};
	return (struct level){(double)old->live_bytes, (double)new->live_bytes,
			      models[NEW]->target->pages ? "resident of new pages"
							 : "live at the end"};
}

/* Under which function most of the difference is; *ret stays as it is: under none. */
static int find_culprit(const struct limpet_diff *diff, bool of_peak, int side,
			struct limpet_culprit *ret)
{
	const struct limpet_analysis *heap = side == NEW ? diff->new_heap : diff->old_heap;
	LIMPET_FREE struct limpet_culprit_stack *stacks =
		calloc(diff->row_count + 1, sizeof(*stacks));
	size_t count = 0;

	if (!stacks)
		return -ENOMEM;
	for (size_t i = 0; i < diff->row_count; i++) {
		const struct limpet_diff_row *row = &diff->rows[i];
		const struct limpet_model_site *figures[SIDES] = {&row->old_figures,
								  &row->new_figures};
		const struct limpet_model_site *more = figures[side], *less = figures[!side];
		const double weight = of_peak ? (double)more->peak_bytes - (double)less->peak_bytes
					      : (double)more->live_bytes - (double)less->live_bytes;

		if (row->nodes[side] && weight > 0)
			stacks[count++] = (struct limpet_culprit_stack){row->nodes[side], weight,
									more->allocations};
	}
	return limpet_culprit_find(heap->view.locations, stacks, count, ret);
}

/* ", most of the difference under load_tile"; malloc'ed. */
static char *format_difference(const struct limpet_diff *diff, const struct level *level,
			       bool of_peak)
{
	const double change = level->new - level->old;
	struct limpet_culprit culprit = {0};
	LIMPET_FREE char *who = NULL;
	char *text = NULL;

	if (fabs(change) < fmax(LEAST_BYTES, LEAST_SHARE * fmax(level->old, level->new)))
		return strdup("");
	if (find_culprit(diff, of_peak, change > 0 ? NEW : OLD, &culprit) < 0)
		return NULL;
	who = culprit.node && culprit.share >= 0.5 ? limpet_culprit_words(&culprit, false) : NULL;
	if (!who)
		text = strdup("");
	else if (asprintf(&text, ", most of the difference under %s", who) < 0)
		text = NULL;
	limpet_culprit_done(&culprit);
	return text;
}

static char *format_levels(const struct limpet_diff *diff, const char *first)
{
	const struct level level = level_of(diff);
	LIMPET_FREE char *difference =
		format_difference(diff, &level, !strcmp(level.words, "live at the peak"));
	char old[LIMPET_UNITS_TEXT], new[LIMPET_UNITS_TEXT];
	char *text;

	if (!difference)
		return NULL;
	return asprintf(&text, "%s%s %s, and %s before%s.", first,
			limpet_units_format_bytes(new, (uint64_t)level.new), level.words,
			limpet_units_format_bytes(old, (uint64_t)level.old), difference) < 0
		       ? NULL
		       : text;
}

int limpet_diff_resident(const struct limpet_diff *diff, struct limpet_parts *ret_parts)
{
	const struct limpet_model *old_model = diff->old_heap->model,
				  *new_model = diff->new_heap->model;

	if (old_model->windowed || new_model->windowed || !old_model->end->account.known ||
	    !new_model->end->account.known)
		return -ENODATA;
	limpet_parts_between(&old_model->end->account, &new_model->end->account, ret_parts);
	return 0;
}

/* Where nothing grows: the levels of resident memory, if they are known, or of live bytes. */
static char *format_calm(const struct limpet_diff *diff)
{
	const struct limpet_part *most = NULL;
	char old[LIMPET_UNITS_TEXT], new[LIMPET_UNITS_TEXT], change[LIMPET_UNITS_TEXT];
	struct limpet_parts parts;
	double difference;
	char *text;
	int code;

	if (limpet_diff_resident(diff, &parts) < 0)
		return format_levels(diff, "Memory grows in neither: ");
	for (size_t i = 0; i < parts.count; i++)
		if (!most ||
		    llabs(limpet_part_change(&parts.list[i])) > llabs(limpet_part_change(most)))
			most = &parts.list[i];
	difference = fabs((double)parts.bytes - (double)parts.before_bytes);
	limpet_units_format_bytes(old, parts.before_bytes);
	limpet_units_format_bytes(new, parts.bytes);
	if (most && difference >= LEAST_SHARE * (double)parts.bytes)
		code = asprintf(&text,
				"Memory grows in neither: %s resident, and %s before; what differs "
				"most is %s (%s).",
				new, old, most->words,
				limpet_units_format_bytes_change(change, limpet_part_change(most)));
	else
		code = asprintf(&text, "Memory grows in neither: %s resident, and %s before.", new,
				old);
	return code < 0 ? NULL : text;
}

int limpet_diff_judge(const struct limpet_diff *diff,
		      const struct limpet_verdict *const verdicts[2], char **ret_sentence)
{
	struct side old = {.heap = diff->old_heap, .verdict = verdicts[OLD]};
	struct side new = {.heap = diff->new_heap, .verdict = verdicts[NEW]};
	char *text = NULL;

	if (judge(&old) == 0 && judge(&new) == 0) {
		if (!old.verdict || !new.verdict)
			text = format_levels(diff, "");
		else if (old.grows || old.rose || new.grows || new.rose)
			text = format_growth(&old, &new);
		else
			text = format_calm(diff);
	}
	free(old.where);
	free(new.where);
	if (!text)
		return -ENOMEM;
	*ret_sentence = text;
	return 0;
}
