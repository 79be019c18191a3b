#include "analyzer/views/verdict.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/views/findings_groups.h"
#include "common/array.h"
#include "common/units.h"

#define NONE SIZE_MAX
/* From this share of resident memory on, what is not followed is said first. */
#define UNFOLLOWED_SHARE 0.5

/* The first finding of this kind. */
static size_t first_of(const struct limpet_findings *findings, enum limpet_findings_kind kind)
{
	for (size_t i = 0; i < findings->count; i++)
		if (findings->list[i].kind == kind)
			return i;
	return NONE;
}

/* Bytes by which something grew in the second half; of other kinds these are something else. */
static uint64_t grown_bytes(const struct limpet_findings_entry *finding)
{
	switch (finding->kind) {
	case LIMPET_FINDINGS_GROWS:
	case LIMPET_FINDINGS_TOUCHES:
	case LIMPET_FINDINGS_TURNOVER:
	case LIMPET_FINDINGS_MAPS:
		return finding->bytes;
	case LIMPET_FINDINGS_RESIDENT:
		/* What an allocator holds comes before pages that others may share. */
		return finding->of_files ? 0 : finding->bytes;
	case LIMPET_FINDINGS_ROSE:
		return finding->unclear ? 0 : finding->bytes;
	case LIMPET_FINDINGS_NEVER_FREED:
		return finding->grown_bytes;
	default:
		return 0;
	}
}

/* What grows most, or else what comes nearest to that. */
static size_t find_growth(const struct limpet_findings *findings, bool pages)
{
	static const enum limpet_findings_kind others[] = {
		LIMPET_FINDINGS_NEVER_FREED, LIMPET_FINDINGS_ROSE,     LIMPET_FINDINGS_RESIDENT,
		LIMPET_FINDINGS_THREADS,     LIMPET_FINDINGS_RETAINED, LIMPET_FINDINGS_STEP};
	const size_t unfollowed = first_of(findings, LIMPET_FINDINGS_UNFOLLOWED);
	size_t most = NONE;

	/* Of pages RSS includes all others, and a stack says more. */
	if (pages && first_of(findings, LIMPET_FINDINGS_TOUCHES) != NONE)
		return first_of(findings, LIMPET_FINDINGS_TOUCHES);
	for (size_t i = 0; i < findings->count; i++)
		if (grown_bytes(&findings->list[i]) >
		    (most == NONE ? 0 : grown_bytes(&findings->list[most])))
			most = i;
	if (most != NONE)
		return most;
	if (unfollowed != NONE && findings->list[unfollowed].share >= UNFOLLOWED_SHARE)
		return unfollowed;
	for (size_t i = 0; i < LIMPET_COUNT_OF(others); i++)
		if (first_of(findings, others[i]) != NONE)
			return first_of(findings, others[i]);
	return NONE;
}

/* Why there is no growth to speak of. */
static size_t find_calm(const struct limpet_findings *findings)
{
	static const enum limpet_findings_kind kinds[] = {
		LIMPET_FINDINGS_STEADY, LIMPET_FINDINGS_IDLE, LIMPET_FINDINGS_UNJUDGED};

	for (size_t i = 0; i < LIMPET_COUNT_OF(kinds); i++)
		if (first_of(findings, kinds[i]) != NONE)
			return first_of(findings, kinds[i]);
	return NONE;
}

static size_t find_holder(const struct limpet_findings *findings)
{
	static const enum limpet_findings_kind kinds[] = {
		LIMPET_FINDINGS_HOLDS, LIMPET_FINDINGS_TOUCHED, LIMPET_FINDINGS_MAPPED,
		LIMPET_FINDINGS_CHURNS};

	for (size_t i = 0; i < LIMPET_COUNT_OF(kinds); i++)
		if (first_of(findings, kinds[i]) != NONE)
			return first_of(findings, kinds[i]);
	return NONE;
}

/* ------------------------------------------------------------------ sentences */

/* Of a rise: one function made most of it. */
static bool is_mostly_of_one(const struct limpet_findings_entry *finding)
{
	return !finding->unclear && finding->share >= 0.5;
}

/* `half`: as the findings call it. */
static void say_rise(FILE *file, const struct limpet_findings_entry *finding, const char *name,
		     const char *half)
{
	char bytes[LIMPET_UNITS_TEXT], since[LIMPET_UNITS_TEXT];

	if (finding->unclear) {
		fputs("Live bytes go up and down: too little was seen to tell whether they grow",
		      file);
		return;
	}
	if (finding->bytes)
		fprintf(file, "Live bytes rose by %s",
			limpet_units_format_bytes(bytes, finding->bytes));
	else
		fputs("The number of live blocks rose", file);
	limpet_units_format_duration(since, finding->from_ns);
	if (finding->at_once)
		fprintf(file, " at %s", since);
	else if (finding->to_ns)
		fprintf(file, " since %s", since);
	else
		fprintf(file, " %s", half);
	if (name && is_mostly_of_one(finding))
		fprintf(file, ", mostly by %s", name);
}

static void say_growth(FILE *file, const struct limpet_findings_entry *finding, const char *name,
		       const char *half)
{
	char bytes[LIMPET_UNITS_TEXT], rate[LIMPET_UNITS_TEXT], when[LIMPET_UNITS_TEXT];

	limpet_units_format_bytes(bytes, finding->bytes);
	limpet_units_format_bytes(rate,
				  finding->per_second > 0 ? (uint64_t)finding->per_second : 0);
	switch (finding->kind) {
	case LIMPET_FINDINGS_GROWS:
	case LIMPET_FINDINGS_TOUCHES:
		fprintf(file, "Growing by %s/s: %s", rate, name ? name : "many functions");
		break;
	case LIMPET_FINDINGS_NEVER_FREED:
		fprintf(file, "Blocks that are not freed keep coming, %s/s: those of %s%s", rate,
			finding->of_stacks ? "some stacks of " : "",
			name ? name : "many functions");
		break;
	case LIMPET_FINDINGS_TURNOVER:
		fputs("Live bytes grow, but may only replace older blocks", file);
		break;
	case LIMPET_FINDINGS_ROSE:
		say_rise(file, finding, name, half);
		break;
	case LIMPET_FINDINGS_STEP:
		fprintf(file, "%s rose by %s at %s, and most of that stayed",
			name ? name : "A function", bytes,
			limpet_units_format_duration(when, finding->from_ns));
		break;
	case LIMPET_FINDINGS_MAPS:
		fprintf(file, "Mapped bytes rose by %s %s", bytes, half);
		break;
	case LIMPET_FINDINGS_RESIDENT:
		if (finding->of_files)
			fprintf(file, "RSS grew by %s, in pages of files and shared memory", bytes);
		else if (finding->bytes)
			fprintf(file, "RSS grew by %s beyond live bytes and mappings", bytes);
		else
			fputs("RSS rose with live bytes, and stayed", file);
		break;
	case LIMPET_FINDINGS_THREADS:
		fputs("The number of threads rose", file);
		break;
	case LIMPET_FINDINGS_RETAINED:
		fprintf(file, "%s stayed resident when live bytes fell", bytes);
		break;
	case LIMPET_FINDINGS_UNFOLLOWED:
		fprintf(file, "%.0f %% of the resident memory cannot be followed",
			100 * finding->share);
		break;
	default:
		break;
	}
}

/* What could not be judged comes after what is known. */
static bool is_said_first(const struct limpet_findings_entry *calm)
{
	return calm->kind == LIMPET_FINDINGS_STEADY;
}

/* `who`: its name, or "which" after a sentence that named it. */
static void say_holder(FILE *file, const struct limpet_findings_entry *finding, const char *who,
		       bool run)
{
	const double percent = 100 * finding->share;
	char bytes[LIMPET_UNITS_TEXT];

	switch (finding->kind) {
	case LIMPET_FINDINGS_HOLDS:
		fprintf(file, "%s %s %.0f %% of what %s.", who, run ? "held" : "holds", percent,
			run ? "was live at the peak" : "is live");
		break;
	case LIMPET_FINDINGS_TOUCHED:
		fprintf(file, "%s first touched %.0f %% of the new pages that are resident.", who,
			percent);
		break;
	case LIMPET_FINDINGS_MAPPED:
		fprintf(file, "%s are mapped by mmap and not unmapped.",
			limpet_units_format_bytes(bytes, finding->bytes));
		break;
	default:
		fprintf(file, "%s makes %.0f %% of all allocations, and frees nearly all.", who,
			percent);
	}
}

/* *ret_name stays NULL if the finding is about the whole. */
static int name_of(const struct limpet_view *view, const struct limpet_findings_entry *finding,
		   char **ret_name)
{
	const struct limpet_function *function, *caller;

	return finding && finding->node ? limpet_findings_label(view->locations, finding->node,
								ret_name, &function, &caller)
					: 0;
}

/* Whether one sentence can say both of the same function. */
static bool is_same(const struct limpet_findings_entry *growth, const char *grows,
		    const struct limpet_findings_entry *holder, const char *holds)
{
	return grows && holds && !strcmp(grows, holds) && holder->kind != LIMPET_FINDINGS_CHURNS &&
	       (growth->kind == LIMPET_FINDINGS_GROWS || growth->kind == LIMPET_FINDINGS_TOUCHES ||
		growth->kind == LIMPET_FINDINGS_NEVER_FREED ||
		growth->kind == LIMPET_FINDINGS_STEP ||
		(growth->kind == LIMPET_FINDINGS_ROSE && is_mostly_of_one(growth)));
}

/* A step by more than what grew, which the growth does not tell. */
static void say_step(FILE *file, const struct limpet_findings_entry *step, const char *name,
		     bool is_named)
{
	char bytes[LIMPET_UNITS_TEXT], when[LIMPET_UNITS_TEXT];

	limpet_units_format_bytes(bytes, step->bytes);
	limpet_units_format_duration(when, step->from_ns);
	if (is_named)
		fprintf(file, " It rose by %s at %s.", bytes, when);
	else
		fprintf(file, " %s rose by %s at %s.", name ? name : "A function", bytes, when);
}

/* What a verdict is made of; each may be NULL. */
struct parts {
	const struct limpet_findings_entry *growth, *calm, *holder, *step;
	bool is_steady; /* the growth was a step, and nothing grows */
};

static int tell(FILE *file, const struct limpet_view *view, const struct parts *parts)
{
	const bool run = view->locations->model->target->mode == LIMPET_MODE_RUN;
	const struct limpet_findings_entry *growth = parts->growth, *holder = parts->holder;
	const struct limpet_findings_entry *calm = parts->calm;
	LIMPET_FREE char *grows = NULL, *holds = NULL, *stepped = NULL;
	bool same;
	int code = name_of(view, growth, &grows);

	if (code == 0)
		code = name_of(view, holder, &holds);
	if (code == 0)
		code = name_of(view, parts->step, &stepped);
	if (code < 0)
		return code;
	same = holder && growth && is_same(growth, grows, holder, holds);
	if ((calm && is_said_first(calm)) || parts->is_steady) {
		fputs("Nothing grows clearly.", file);
		fputs(growth || holder ? " " : "", file);
	}
	if (growth) {
		say_growth(file, growth, grows,
			   view->locations->model->windowed ? "in the second half of the window"
							    : "in the second half");
		fputs(same ? ", " : holder ? ". " : ".", file);
	}
	if (holder)
		say_holder(file, holder, same ? "which" : holds ? holds : "", run);
	if (parts->step)
		say_step(file, parts->step, stepped,
			 stepped && (same || holds) && !strcmp(stepped, same ? grows : holds));
	if (calm && !is_said_first(calm))
		fprintf(file, "%s%s", holder ? " " : "", calm->text);
	if (!growth && !calm && !holder)
		fputs("Nothing stands out.", file);
	return 0;
}

/* The largest step, if that is more than what grew. */
static size_t find_step(const struct limpet_findings *findings, size_t growth)
{
	const struct limpet_findings_entry *list = findings->list;
	size_t most = NONE;

	if (growth == NONE || list[growth].kind == LIMPET_FINDINGS_STEP ||
	    (list[growth].kind == LIMPET_FINDINGS_ROSE && list[growth].at_once))
		return NONE;
	for (size_t i = 0; i < findings->count; i++)
		if (list[i].kind == LIMPET_FINDINGS_STEP &&
		    list[i].bytes >= grown_bytes(&list[growth]) &&
		    (most == NONE || list[i].bytes > list[most].bytes))
			most = i;
	return most;
}

int limpet_verdict_new(const struct limpet_findings *findings, const struct limpet_view *view,
		       struct limpet_verdict *ret_verdict)
{
	const size_t growth = find_growth(findings, view->locations->model->target->pages);
	const size_t calm = growth == NONE ? find_calm(findings) : NONE;
	const size_t holder = find_holder(findings);
	const size_t named[] = {growth, calm, holder, find_step(findings, growth)};
	const struct limpet_findings_entry *of[LIMPET_COUNT_OF(named)] = {NULL};
	struct limpet_verdict verdict = {0};
	size_t bytes;
	FILE *file = open_memstream(&verdict.text, &bytes);
	int code;

	if (!file)
		return -ENOMEM;
	for (size_t i = 0; i < LIMPET_COUNT_OF(named); i++) {
		if (named[i] == NONE)
			continue;
		of[i] = &findings->list[named[i]];
		verdict.findings[verdict.count++] = named[i];
	}
	code = tell(file, view,
		    &(struct parts){of[0], of[1], of[2], of[3],
				    of[0] && of[0]->kind == LIMPET_FINDINGS_STEP &&
					    first_of(findings, LIMPET_FINDINGS_STEADY) != NONE});
	if (fclose(file) && code == 0)
		code = -ENOMEM;
	if (code < 0) {
		free(verdict.text);
		return code;
	}
	*ret_verdict = verdict;
	return 0;
}

void limpet_verdict_done(struct limpet_verdict *verdict)
{
	free(verdict->text);
	*verdict = (struct limpet_verdict){0};
}
