/* Functions that grew at one moment and stayed so: an import, a burst of requests, a table that was
 * made anew. They do not grow, and yet they are what the memory of a program is used for. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/views/findings_work.h"
#include "common/units.h"

#define PARTS LIMPET_FINDINGS_PARTS
#define LEAST_BYTES LIMPET_FINDINGS_LEAST_BYTES
#define SHOWN 3u
/* Of all live bytes, at least. */
#define NOTABLE_SHARE 0.1
/* So many times as much as the parts beside it: what fills up grows less and less, and what speeds
 * up more and more. */
#define SUDDEN 3
/* Of the step: what it rises above all that was there before, and what is left of it at the end. */
#define NEW 0.8
#define LEFT 0.5
/* A part of the step that may have come before it, or may be missing after it. */
#define EDGE 0.1
/* What is as short as that is a moment. */
#define MOMENT_SHARE 0.02

struct step {
	uint32_t group;
	unsigned from, to; /* parts */
	double bytes;      /* without what the function grows all the time */
	double left;       /* of these, at the end */
	uint32_t node;     /* the stack that grew most */
};

static int compare_doubles(const void *a, const void *b)
{
	const double *x = a, *y = b;

	return *x < *y ? -1 : *x > *y;
}

/* What it grows by in an ordinary part. */
static double usual_growth(const double *growth)
{
	double sorted[PARTS];

	memcpy(sorted, growth, sizeof(sorted));
	qsort(sorted, PARTS, sizeof(sorted[0]), compare_doubles);
	return fmax(0, (sorted[PARTS / 2 - 1] + sorted[PARTS / 2]) / 2);
}

/* The one or two parts in which it grew most. What was there in the first part of a capture may
 * have filled up only; what came in the last may not stay. */
static struct step largest_step(const struct limpet_findings_work *work, uint32_t group)
{
	const double *growth = work->groups[group].growth, usual = usual_growth(growth);
	struct step step = {.group = group};

	for (unsigned i = work->model->windowed ? 0 : 1; i + 1 < PARTS; i++) {
		const double next = i + 2 < PARTS && growth[i + 1] > usual ? growth[i + 1] : 0;
		const unsigned to = i + 1 + (next > 0);
		const double bytes = growth[i] + next - usual * (to - i);

		if (bytes > step.bytes)
			step = (struct step){.group = group, .from = i, .to = to, .bytes = bytes};
	}
	return step;
}

/* Whether it is above all that was there before, and what is left of it. */
static bool is_new(const double *growth, struct step *step)
{
	double level = 0, highest = 0, after;

	for (unsigned i = 0; i < step->from; i++) {
		level += growth[i];
		highest = fmax(highest, level);
	}
	after = level + limpet_findings_sum(growth, step->from, step->to);
	step->left =
		fmin(step->bytes, after - highest + limpet_findings_sum(growth, step->to, PARTS));
	return after - highest >= NEW * step->bytes;
}

static bool is_notable(const struct limpet_findings_work *work, struct step *step)
{
	const struct limpet_findings_group *group = &work->groups[step->group];
	const double *growth = group->growth;
	const double most = fmax(growth[step->from], growth[step->to - 1]);
	const double before = step->from ? growth[step->from - 1] : 0;
	const double after = step->to < PARTS ? growth[step->to] : 0;

	return !group->told_once && step->bytes >= LEAST_BYTES &&
	       step->bytes >= NOTABLE_SHARE * (double)work->model->totals.live_bytes &&
	       most >= SUDDEN * before && most >= SUDDEN * after && is_new(growth, step) &&
	       step->left >= LEFT * step->bytes;
}

static int compare_steps(const void *a, const void *b)
{
	const struct step *x = a, *y = b;

	return x->bytes > y->bytes ? -1 : x->bytes < y->bytes;
}

static bool is_within(const struct limpet_findings_work *work, const struct step *step, size_t at)
{
	const unsigned part = limpet_findings_part_of_step(work, (uint32_t)at);

	return part >= step->from && part < step->to;
}

/* Bytes by which the group's stacks grew in each step of the history; finds the stack that grew
 * most within the step. NULL: no memory. */
static double *growth_of(const struct limpet_findings_work *work, struct step *found)
{
	double *growth = calloc(work->history->step_count + 1, sizeof(*growth)), most = 0;

	for (size_t i = 0; i < work->view->site_count && growth; i++) {
		const struct limpet_history_site *site =
			work->group_of[i] == found->group
				? limpet_history_site_of(work->history, work->view->sites[i].node)
				: NULL;
		struct limpet_cursor cursor;
		struct limpet_history_step step;
		double own = 0;

		if (!site)
			continue;
		cursor = limpet_history_steps(work->history, site);
		while (limpet_history_next(&cursor, &step)) {
			const double grew = (double)step.counts.allocated_bytes -
					    (double)step.counts.freed_bytes;

			growth[step.step] += grew;
			own += is_within(work, found, step.step) ? grew : 0;
		}
		if (own > most) {
			most = own;
			found->node = work->view->sites[i].node;
		}
	}
	return growth;
}

/* When the step began and ended, as finely as the history has it. */
static void find_moment(const struct limpet_findings_work *work, const struct step *step,
			const double *growth, uint64_t *ret_from_ns, uint64_t *ret_to_ns)
{
	const struct limpet_model *model = work->model;
	const uint64_t *edges = work->history->edges_ns;
	const double part_ns = (double)(model->to_ns - model->from_ns) / PARTS;
	double grew = 0;

	*ret_from_ns = model->from_ns + (uint64_t)(step->from * part_ns);
	*ret_to_ns = model->from_ns + (uint64_t)(step->to * part_ns);
	for (size_t i = 0; i < work->history->step_count; i++) {
		if (!is_within(work, step, i))
			continue;
		if (grew <= EDGE * step->bytes)
			*ret_from_ns = edges[i];
		grew += growth[i];
		if (grew >= (1 - EDGE) * step->bytes) {
			*ret_to_ns = edges[i + 1];
			break;
		}
	}
}

/* What falls back and comes again, as for each request of a kind, has not stayed, even if it is
 * there at the end. */
static bool has_stayed(const struct limpet_findings_work *work, const struct step *step,
		       const double *growth)
{
	double level = 0, before = 0, lowest = INFINITY;

	for (size_t i = 0; i < work->history->step_count; i++) {
		const unsigned part = limpet_findings_part_of_step(work, (uint32_t)i);

		if (part == PARTS)
			continue;
		level += growth[i];
		if (part < step->from)
			before = level;
		else if (part >= step->to)
			lowest = fmin(lowest, level);
	}
	return lowest - before >= LEFT * step->bytes;
}

static void tell_time(const struct limpet_findings_work *work,
		      const struct limpet_findings_entry *finding, char *ret, size_t room)
{
	char from[LIMPET_UNITS_TEXT], to[LIMPET_UNITS_TEXT];

	limpet_units_format_duration(from, finding->from_ns);
	limpet_units_format_duration(to, finding->to_ns);
	if (!strcmp(from, to) ||
	    (double)(finding->to_ns - finding->from_ns) <= MOMENT_SHARE * 1e9 * work->seconds)
		snprintf(ret, room, "at %s", from);
	else
		snprintf(ret, room, "between %s and %s", from, to);
}

/* 1: it is said; 0: it has not stayed. */
static int say_step(struct limpet_findings_work *work, struct step *step)
{
	struct limpet_findings_entry finding = {.kind = LIMPET_FINDINGS_STEP,
						.bytes = (uint64_t)step->bytes,
						.share = -1,
						.per_second = -1};
	char by[LIMPET_UNITS_TEXT], left[LIMPET_UNITS_TEXT], when[2 * LIMPET_UNITS_TEXT + 16];
	LIMPET_FREE char *name = NULL;
	LIMPET_FREE double *growth = growth_of(work, step);
	int code;

	if (!growth)
		return -ENOMEM;
	if (!has_stayed(work, step, growth))
		return 0;
	code = limpet_findings_name(work, step->node, &finding, &name);
	if (code < 0)
		return code;
	find_moment(work, step, growth, &finding.from_ns, &finding.to_ns);
	tell_time(work, &finding, when, sizeof(when));
	limpet_findings_bytes(by, step->bytes);
	if (step->left >= (1 - EDGE) * step->bytes)
		code = limpet_findings_add(work, &finding, "%s rose by %s %s, and that stayed.",
					   name, by, when);
	else
		code = limpet_findings_add(work, &finding,
					   "%s rose by %s %s; %s of that is left at the end.", name,
					   by, when, limpet_findings_bytes(left, step->left));
	if (code < 0)
		limpet_findings_forget_names(&finding);
	return code < 0 ? code : 1;
}

int limpet_findings_find_steps(struct limpet_findings_work *work)
{
	LIMPET_FREE struct step *steps = calloc(work->count + 1, sizeof(*steps));
	size_t count = 0;
	unsigned said = 0;
	int code = 0;

	if (!steps)
		return -ENOMEM;
	for (uint32_t i = 0; i < work->count; i++) {
		steps[count] = largest_step(work, i);
		count += is_notable(work, &steps[count]);
	}
	qsort(steps, count, sizeof(*steps), compare_steps);
	for (size_t i = 0; i < count && said < SHOWN && code >= 0; i++) {
		code = say_step(work, &steps[i]);
		said += code > 0;
	}
	return code < 0 ? code : 0;
}
