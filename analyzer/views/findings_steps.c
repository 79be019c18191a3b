/* Functions that grew at one moment and stayed so: an import, a burst of requests, a table that was
 * made anew. They do not grow, and yet they are what the memory of a program is used for. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "analyzer/views/findings_work.h"
#include "common/units.h"

#define PARTS LIMPET_FINDINGS_PARTS
#define LEAST_BYTES LIMPET_FINDINGS_LEAST_BYTES
#define SHOWN 3u
/* Of all live bytes, at least. */
#define NOTABLE_SHARE 0.1
/* Of what the function grew in all, at least. */
#define MOST 0.8
/* A part of the step that may have come before it, or may be missing after it. */
#define EDGE 0.1
/* What is as short as that is a moment. */
#define MOMENT_SHARE 0.02

struct step {
	uint32_t group;
	unsigned from, to; /* parts */
	double bytes;
};

/* The one or two parts in which it grew most. What was there in the first part of a capture may
 * have filled up only. */
static struct step largest_step(const struct limpet_findings_work *work, uint32_t group)
{
	const double *growth = work->groups[group].growth;
	struct step step = {.group = group};

	for (unsigned i = work->model->windowed ? 0 : 1; i < PARTS; i++) {
		const double next = i + 1 < PARTS && growth[i + 1] > 0 ? growth[i + 1] : 0;

		if (growth[i] + next > step.bytes)
			step = (struct step){group, i, i + 1 + (next > 0), growth[i] + next};
	}
	return step;
}

static bool is_notable(const struct limpet_findings_work *work, const struct step *step)
{
	const struct limpet_findings_group *group = &work->groups[step->group];
	double rises = 0;

	for (unsigned i = work->model->windowed ? 0 : 1; i < PARTS; i++)
		rises += group->growth[i] > 0 ? group->growth[i] : 0;
	return !group->told && step->bytes >= LEAST_BYTES &&
	       step->bytes >= NOTABLE_SHARE * (double)work->model->totals.live_bytes &&
	       step->bytes >= MOST * rises &&
	       limpet_findings_sum(group->growth, step->to, PARTS) >= -EDGE * step->bytes;
}

static int compare_steps(const void *a, const void *b)
{
	const struct step *x = a, *y = b;

	return x->bytes > y->bytes ? -1 : x->bytes < y->bytes;
}

/* Bytes by which the group's stacks grew in each step of the history. */
static double *growth_of(const struct limpet_findings_work *work, uint32_t group)
{
	double *growth = calloc(work->history->step_count + 1, sizeof(*growth));

	for (size_t i = 0; i < work->view->site_count && growth; i++) {
		const struct limpet_history_site *site =
			work->group_of[i] == group
				? limpet_findings_steps_of(work, work->view->sites[i].node)
				: NULL;
		struct limpet_cursor cursor;
		struct limpet_history_step step;

		if (!site)
			continue;
		cursor = limpet_history_steps(work->history, site);
		while (limpet_history_next(&cursor, &step))
			growth[step.step] += (double)step.counts.allocated_bytes -
					     (double)step.counts.freed_bytes;
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
	const double from_ns = (double)model->from_ns + step->from * part_ns;
	const double to_ns = (double)model->from_ns + step->to * part_ns;
	double grew = 0;

	*ret_from_ns = (uint64_t)from_ns;
	*ret_to_ns = (uint64_t)to_ns;
	for (size_t i = 0; i < work->history->step_count; i++) {
		const double middle = ((double)edges[i] + (double)edges[i + 1]) / 2;

		if (middle < from_ns || middle > to_ns)
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

static int say_step(struct limpet_findings_work *work, const struct step *step)
{
	const struct limpet_findings_group *group = &work->groups[step->group];
	struct limpet_findings_entry finding = {.kind = LIMPET_FINDINGS_STEP,
						.bytes = (uint64_t)step->bytes,
						.share = -1,
						.per_second = -1};
	char by[LIMPET_UNITS_TEXT], now[LIMPET_UNITS_TEXT], freed[128];
	char from[LIMPET_UNITS_TEXT], to[LIMPET_UNITS_TEXT], when[2 * LIMPET_UNITS_TEXT + 16];
	LIMPET_FREE char *name = NULL;
	LIMPET_FREE double *growth = growth_of(work, step->group);
	int code =
		growth ? limpet_findings_name(work, group->figures.node, &finding, &name) : -ENOMEM;

	if (code < 0)
		return code;
	find_moment(work, step, growth, &finding.from_ns, &finding.to_ns);
	limpet_units_format_duration(from, finding.from_ns);
	limpet_units_format_duration(to, finding.to_ns);
	if ((double)(finding.to_ns - finding.from_ns) <= MOMENT_SHARE * 1e9 * work->seconds)
		snprintf(when, sizeof(when), "at %s", from);
	else
		snprintf(when, sizeof(when), "between %s and %s", from, to);
	limpet_findings_tell_freed(work, group, freed, sizeof(freed));
	code = limpet_findings_add(work, &finding, "%s rose by %s %s, and stayed at %s: %s.", name,
				   limpet_findings_bytes(by, step->bytes), when,
				   limpet_findings_bytes(now, (double)group->figures.live_bytes),
				   freed);
	if (code < 0)
		limpet_findings_forget_names(&finding);
	return code;
}

int limpet_findings_find_steps(struct limpet_findings_work *work)
{
	LIMPET_FREE struct step *steps = calloc(work->count + 1, sizeof(*steps));
	size_t count = 0;
	int code = 0;

	if (!steps)
		return -ENOMEM;
	for (uint32_t i = 0; i < work->count; i++) {
		steps[count] = largest_step(work, i);
		count += is_notable(work, &steps[count]);
	}
	qsort(steps, count, sizeof(*steps), compare_steps);
	for (size_t i = 0; i < count && i < SHOWN && code == 0; i++)
		code = say_step(work, &steps[i]);
	return code;
}
