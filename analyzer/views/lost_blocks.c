/* What a search for lost blocks adds to verdict and findings: which growth is lost, who holds the
 * rest, and what is lost where nothing grows. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/views/candidates.h"
#include "common/array.h"
#include "common/plain_text.h"
#include "common/units.h"

/* So many words are read at a glance; a sentence that has more goes without its end. */
#define MOST_WORDS 30u
/* A culprit with less of what is meant is named with its share. */
#define MOST_SHARE 0.8

/* ------------------------------------------------------------------ of growth */

/* A holder of less than half of the blocks is one of many. */
static void check_holder(const struct limpet_leak_counts *counts,
			 const struct limpet_culprit_stack *stacks, const bool *marks, size_t count,
			 struct limpet_lost *lost)
{
	uint64_t bytes = 0;

	for (size_t i = 0; lost->held && i < count; i++) {
		const struct limpet_leak_site_counts *site =
			marks[i] ? limpet_lost_of(counts, stacks[i].node) : NULL;

		if (site && !strcmp(site->holder, lost->held->holder))
			bytes += site->amounts.of[LIMPET_LEAK_REACHABLE].bytes;
	}
	if (bytes < lost->judged.bytes / 2)
		lost->held = NULL;
}

int limpet_evidence_lost(const struct limpet_evidence *it, const struct limpet_culprit *culprit,
			 const struct limpet_culprit_stack *stacks, struct limpet_lost *ret)
{
	const struct limpet_leak_counts *counts = limpet_lost_counts(it->model, false);
	const size_t count = it->view->site_count;
	LIMPET_FREE bool *marks = calloc(count + 1, sizeof(*marks));
	struct limpet_lost lost = {0};
	int code = marks ? 0 : -ENOMEM;

	if (code == 0 && counts)
		code = limpet_culprit_mark(it->view->locations, culprit, stacks, count, marks);
	for (size_t i = 0; code == 0 && counts && i < count; i++) {
		/* Of stacks under the culprit those that did not grow are not meant. */
		marks[i] = (marks[i] || !culprit->node) && stacks[i].weight > 0;
		if (marks[i])
			limpet_lost_add(&lost, counts, stacks[i].node);
	}
	if (code < 0)
		return code;
	if (counts)
		check_holder(counts, stacks, marks, count, &lost);
	*ret = lost;
	return 0;
}

static bool is_short(const char *text)
{
	unsigned words = 1;

	for (; *text; text++)
		words += *text == ' ';
	return words <= MOST_WORDS;
}

/* `words`, `more` and, if there is room for it, `end`. NULL: no memory. */
static char *join(const char *words, const char *more, const char *end)
{
	char *text;

	if (asprintf(&text, "%s%s%s.", words, more, end) < 0)
		return NULL;
	if (!is_short(text))
		strcpy(text + strlen(words) + strlen(more), ".");
	return text;
}

char *limpet_evidence_sentence(const struct limpet_culprit *culprit, const char *words,
			       const char *freed, const struct limpet_lost *lost)
{
	char blocks[LIMPET_UNITS_TEXT], all[LIMPET_UNITS_TEXT], held[LIMPET_LEAK_HOLDER_BYTES];
	char more[LIMPET_LEAK_HOLDER_BYTES + 64] = "", end[128];

	snprintf(end, sizeof(end), ": %s", freed);
	if (limpet_lost_is_most(lost)) {
		snprintf(more, sizeof(more), ", and %s of %s %s block%s %s %slost",
			 limpet_units_format_count(blocks, lost->lost.blocks),
			 culprit->node ? "its" : "their",
			 limpet_units_format_count(all, lost->judged.blocks),
			 lost->judged.blocks == 1 ? "" : "s", lost->lost.blocks == 1 ? "is" : "are",
			 lost->is_probable ? "probably " : "");
		return join(words, more,
			    lost->lost.blocks == 1 ? ": nothing points to it"
						   : ": nothing points to them");
	}
	if (lost->held) {
		snprintf(held, sizeof(held), "%s", lost->held->holder);
		snprintf(more, sizeof(more), ", held by %s", limpet_plain_text_clean(held));
	}
	return join(words, more, end);
}

/* ------------------------------------------------------------------ where nothing grows */

static char *format_lost(const struct limpet_lost *lost, const struct limpet_culprit *culprit)
{
	LIMPET_FREE char *who = limpet_culprit_words(culprit, true);
	const bool one = lost->lost.blocks == 1;
	char bytes[LIMPET_UNITS_TEXT], blocks[LIMPET_UNITS_TEXT], share[64] = "";
	char words[128 + 2 * LIMPET_UNITS_TEXT];
	LIMPET_FREE char *under = NULL;

	if (culprit->share < MOST_SHARE)
		snprintf(share, sizeof(share), "%.0f %% of it ", 100 * culprit->share);
	if (!who || asprintf(&under, "; %sallocated under %s", share, who) < 0) {
		under = NULL;
		return NULL;
	}
	snprintf(words, sizeof(words), "%s in %s block%s %s %slost: nothing points to %s",
		 limpet_units_format_bytes(bytes, lost->lost.bytes),
		 limpet_units_format_count(blocks, lost->lost.blocks), one ? "" : "s",
		 one ? "is" : "are", lost->is_probable ? "probably " : "", one ? "it" : "them");
	return join(words, culprit->node ? under : "", "");
}

/* Of each site, what of it is lost. */
static int find_loser(const struct limpet_evidence *it, const struct limpet_leak_counts *counts,
		      struct limpet_culprit *ret)
{
	const struct limpet_view *view = it->view;
	LIMPET_FREE struct limpet_culprit_stack *stacks =
		calloc(view->site_count + 1, sizeof(*stacks));

	if (!stacks)
		return -ENOMEM;
	for (size_t i = 0; i < view->site_count; i++) {
		struct limpet_lost lost = {0};

		limpet_lost_add(&lost, counts, view->sites[i].node);
		stacks[i] = (struct limpet_culprit_stack){
			view->sites[i].node, (double)lost.lost.bytes, view->sites[i].allocations};
	}
	return limpet_culprit_find(view->locations, stacks, view->site_count, ret);
}

int limpet_candidates_find_lost(struct limpet_evidence *it, double least_bytes, double least_share,
				double weight, struct limpet_candidates *candidates)
{
	const struct limpet_leak_counts *counts = limpet_lost_counts(it->model, false);
	const struct limpet_lost lost =
		counts ? limpet_lost_total(counts) : (struct limpet_lost){0};
	const double bytes = (double)lost.lost.bytes, whole = (double)lost.judged.bytes;
	struct limpet_candidate one = {.finding = {.kind = LIMPET_HEAP_LEAK,
						   .bytes = lost.lost.bytes,
						   .share = bytes / whole},
				       .weight = weight * bytes,
				       .is_lost = true};
	int code;

	for (size_t i = 0; i < candidates->count; i++) {
		if (candidates->list[i].is_lost)
			return 0;
		/* Where blocks grow the verdict is about these. */
		if (candidates->list[i].weight > 0 && !candidates->list[i].part)
			one.weight = 0;
	}
	if (!lost.lost.bytes || (bytes < least_bytes && bytes < least_share * whole))
		return 0;
	code = find_loser(it, counts, &one.finding.culprit);
	if (code < 0)
		return code;
	one.finding.text = format_lost(&lost, &one.finding.culprit);
	return limpet_candidates_add(candidates, &one);
}
