#include "analyzer/views/growth.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "analyzer/views/findings_groups.h"

#define PARTS 64u
#define LAST (PARTS - PARTS / 4) /* the last quarter begins */
/* Fewer steps of the history do not tell what happened when. */
#define LEAST_STEPS 8u
/* Of what a stack holds at the end: it held so much during the whole last quarter. */
#define STAYED_SHARE 0.15
/* A fall by more than this share of the highest point: it goes up and down. */
#define SWING_SHARE 0.5
/* The lowest points are seen once in a part: what they rise by less is not seen. */
#define LOWEST_SHARE 0.4
/* So much of it came in the last quarter: it goes on. A steady growth has 0.25. */
#define GOES_ON_SHARE 0.08
/* No more of a stack's blocks were freed: they are kept. */
#define KEPT_SHARE 0.05

/* Of what some stacks have grown by together. */
#define MOST_SHARE 0.5

/* Live bytes of a stack at the end of each part, since the window began. */
struct limpet_growth_series {
	double bytes[PARTS];
};

static bool is_judged(const struct limpet_model *model, const struct limpet_history *history)
{
	size_t steps = 0;

	for (size_t i = 0; i < history->step_count; i++)
		steps += history->edges_ns[i + 1] > model->from_ns &&
			 history->edges_ns[i] < model->to_ns;
	return steps >= LEAST_STEPS && !history->in_one &&
	       model->to_ns - model->from_ns >= 1000000000ull * LIMPET_GROWTH_LEAST_S;
}

/* PARTS: outside of the window. */
static unsigned part_of(const struct limpet_model *model, const struct limpet_history *history,
			uint32_t step)
{
	const double middle =
		((double)history->edges_ns[step] + (double)history->edges_ns[step + 1]) / 2 -
		(double)model->from_ns;
	const double part = middle / (double)(model->to_ns - model->from_ns) * PARTS;

	return part < 0 ? PARTS : (unsigned)fmin(part, PARTS);
}

static void read_series(const struct limpet_model *model, const struct limpet_history *history,
			const struct limpet_history_site *site, struct limpet_growth_series *ret)
{
	struct limpet_cursor cursor = limpet_history_steps(history, site);
	struct limpet_history_step step;

	*ret = (struct limpet_growth_series){{0}};
	while (limpet_history_next(&cursor, &step)) {
		const unsigned part = part_of(model, history, step.step);

		if (part < PARTS)
			ret->bytes[part] += (double)step.counts.allocated_bytes -
					    (double)step.counts.freed_bytes;
	}
	for (unsigned i = 1; i < PARTS; i++)
		ret->bytes[i] += ret->bytes[i - 1];
}

static double lowest(const struct limpet_growth_series *series, unsigned from, unsigned to)
{
	double low = series->bytes[from];

	for (unsigned i = from; i < to; i++)
		low = fmin(low, series->bytes[i]);
	return low;
}

/* The deepest fall in [from, to), and the height before it. */
static double fall_in(const struct limpet_growth_series *series, unsigned from, unsigned to,
		      double *ret_from)
{
	double high = series->bytes[from], fall = 0;

	for (unsigned i = from; i < to; i++) {
		high = fmax(high, series->bytes[i]);
		if (high - series->bytes[i] <= fall)
			continue;
		fall = high - series->bytes[i];
		*ret_from = high;
	}
	return fall;
}

/* By how much the stack has grown; at most 0: it has not. */
static double grown(const struct limpet_growth_series *series)
{
	const double end = series->bytes[PARTS - 1], stayed = lowest(series, LAST, PARTS);
	double high = 0, early = 0, late = 0;

	early = fall_in(series, 0, PARTS / 2, &high);
	late = fall_in(series, PARTS / 2, PARTS, &high);
	/* Up and down in both halves: by its lowest points; else beyond what it was before. */
	if (early > SWING_SHARE * high && late > SWING_SHARE * high) {
		const double rise = 2 * (lowest(series, PARTS / 2, PARTS) -
					 lowest(series, PARTS / 8, PARTS / 2));

		return rise > LOWEST_SHARE * high ? rise : 0;
	}
	if (fall_in(series, 0, PARTS, &high) > SWING_SHARE * high)
		return stayed - high;
	return stayed >= STAYED_SHARE * end ? end : stayed;
}

static bool goes_on(const struct limpet_growth_series *series)
{
	const double end = series->bytes[PARTS - 1];

	return end - series->bytes[LAST - 1] >= GOES_ON_SHARE * end;
}

static uint64_t time_of(const struct limpet_model *model, unsigned part)
{
	return model->from_ns + (model->to_ns - model->from_ns) / PARTS * part;
}

static void judge_time(const struct limpet_model *model, const struct limpet_growth_series *sum,
		       struct limpet_growth_sum *ret)
{
	const double end = sum->bytes[PARTS - 1];
	unsigned began = 0, ended = 0;

	while (began < PARTS - 1 && sum->bytes[began] < 0.1 * end)
		began++;
	while (ended < PARTS - 1 && sum->bytes[ended] < 0.9 * end)
		ended++;
	ret->began_ns = time_of(model, began);
	ret->ended_ns = time_of(model, ended + 1);
}

static double deepest_fall(const struct limpet_model *model)
{
	double high = 0, fall = 0;

	for (size_t i = 0; i < model->timeline_count; i++) {
		const struct limpet_model_point *point = &model->timeline[i];

		if (point->time_ns < model->from_ns || point->time_ns > model->to_ns)
			continue;
		high = fmax(high, (double)point->live_bytes);
		fall = fmax(fall, high - (double)point->live_bytes);
	}
	return fall;
}

/* Sums up the stacks that have grown. */
struct adding {
	struct limpet_growth_sum sum;
	struct limpet_growth_series series;
};

static void add_site(struct adding *adding, const struct limpet_model_site *site, double bytes,
		     const struct limpet_growth_series *series)
{
	if (bytes <= 0)
		return;
	adding->sum.stack_count++;
	adding->sum.bytes += bytes;
	adding->sum.blocks += limpet_model_site_blocks(site);
	adding->sum.freed_blocks += limpet_model_site_ended(site);
	adding->sum.live_blocks += site->live_allocations;
	adding->sum.reallocations += site->reallocations;
	for (unsigned i = 0; series && i < PARTS; i++)
		adding->series.bytes[i] += series->bytes[i];
}

static bool is_kept(const struct limpet_model_site *site)
{
	const uint64_t blocks = limpet_model_site_blocks(site);

	return (double)limpet_model_site_ended(site) <= KEPT_SHARE * (double)blocks &&
	       (site->reallocations <= blocks || blocks >= LIMPET_GROWTH_KEPT_BLOCKS);
}

/* Reads what each site of a view holds over time, and adds it up by the label of its group: the
 * stacks of code that moves are many, and none of them grows for long. */
static int read_sites(const struct limpet_view *view, const struct limpet_history *history,
		      struct limpet_growth_series *sites, uint32_t *group_of,
		      struct limpet_growth_series *groups)
{
	struct limpet_findings_groups *labels;
	int code = limpet_findings_groups_new(view->locations, &labels);

	if (code < 0)
		return code;
	for (size_t i = 0; i < view->site_count && code == 0; i++) {
		const struct limpet_history_site *steps =
			limpet_history_site_of(history, view->sites[i].node);

		code = limpet_findings_groups_find(labels, view->sites[i].node, &group_of[i]);
		if (code < 0 || !steps)
			continue;
		read_series(view->locations->model, history, steps, &sites[i]);
		for (unsigned k = 0; k < PARTS; k++)
			groups[group_of[i]].bytes[k] += sites[i].bytes[k];
	}
	limpet_findings_groups_free(labels);
	return code;
}

static void judge_site(struct limpet_growth *growth, const struct limpet_model_site *site, size_t i,
		       const struct limpet_growth_series *group)
{
	const struct limpet_growth_series *own = &growth->series[i];
	const bool together = grown(group) > 0 && goes_on(group);
	const double bytes = together ? fmax(grown(own), own->bytes[PARTS - 1]) : grown(own);
	const double on = together || goes_on(own) ? bytes : 0;
	const double of[LIMPET_GROWTH_SUMS] = {
		[LIMPET_GROWTH_KEPT] = is_kept(site) ? on : 0,
		[LIMPET_GROWTH_ON] = on,
		[LIMPET_GROWTH_ALL] = bytes,
	};

	for (unsigned k = 0; k < LIMPET_GROWTH_SUMS; k++)
		growth->sums[k].stacks[i] =
			(struct limpet_culprit_stack){site->node, of[k], site->allocations};
}

static int judge_sites(const struct limpet_view *view, const struct limpet_history *history,
		       struct limpet_growth *growth)
{
	LIMPET_FREE uint32_t *group_of = calloc(view->site_count + 1, sizeof(*group_of));
	LIMPET_FREE struct limpet_growth_series *groups =
		calloc(view->site_count + 1, sizeof(*groups));
	int code = group_of && groups ? read_sites(view, history, growth->series, group_of, groups)
				      : -ENOMEM;

	for (size_t i = 0; i < view->site_count && code == 0; i++)
		judge_site(growth, &view->sites[i], i, &groups[group_of[i]]);
	return code;
}

static void sum_up(struct limpet_growth *growth, enum limpet_growth_of of,
		   const struct limpet_view *view, const bool *marks)
{
	struct limpet_growth_sum *sum = &growth->sums[of];
	struct adding adding = {.sum.stacks = sum->stacks};

	for (size_t i = 0; i < view->site_count; i++)
		if (!marks || marks[i])
			add_site(&adding, &view->sites[i], sum->stacks[i].weight,
				 growth->judged ? &growth->series[i] : NULL);
	if (growth->judged)
		judge_time(view->locations->model, &adding.series, &adding.sum);
	*sum = adding.sum;
}

int limpet_growth_find(const struct limpet_view *view, const struct limpet_history *history,
		       struct limpet_growth *ret_growth)
{
	const struct limpet_model *model = view->locations->model;
	struct limpet_growth growth = {
		.judged = is_judged(model, history),
		.swing_bytes = deepest_fall(model),
		.stacks = calloc(LIMPET_GROWTH_SUMS * view->site_count + 1, sizeof(*growth.stacks)),
		.series = calloc(view->site_count + 1, sizeof(*growth.series)),
	};
	int code = growth.stacks && growth.series ? 0 : -ENOMEM;

	for (unsigned i = 0; code == 0 && i < LIMPET_GROWTH_SUMS; i++)
		growth.sums[i].stacks = growth.stacks + i * view->site_count;
	if (code == 0 && growth.judged)
		code = judge_sites(view, history, &growth);
	for (size_t i = 0; code == 0 && !growth.judged && i < view->site_count; i++)
		growth.sums[LIMPET_GROWTH_ALL].stacks[i] = (struct limpet_culprit_stack){
			view->sites[i].node, (double)view->sites[i].growth_bytes,
			view->sites[i].allocations};
	for (unsigned i = 0; i < LIMPET_GROWTH_SUMS && code == 0; i++)
		sum_up(&growth, (enum limpet_growth_of)i, view, NULL);
	if (code < 0)
		limpet_growth_done(&growth);
	else
		*ret_growth = growth;
	return code;
}

int limpet_growth_extract(struct limpet_growth *growth, const struct limpet_view *view,
			  const struct limpet_culprit *culprit,
			  struct limpet_growth_sum *ret_extracted, enum limpet_growth_of *ret_of)
{
	LIMPET_FREE bool *marks = calloc(view->site_count + 1, sizeof(*marks));
	struct limpet_growth extracted = *growth;
	enum limpet_growth_of of = LIMPET_GROWTH_KEPT;
	int code = marks ? limpet_culprit_mark(view->locations, culprit,
					       growth->sums[LIMPET_GROWTH_ALL].stacks,
					       view->site_count, marks)
			 : -ENOMEM;

	if (code < 0)
		return code;
	for (unsigned i = 0; i < LIMPET_GROWTH_SUMS; i++)
		sum_up(&extracted, (enum limpet_growth_of)i, view, marks);
	while (of < LIMPET_GROWTH_ALL &&
	       extracted.sums[of].bytes < MOST_SHARE * extracted.sums[LIMPET_GROWTH_ALL].bytes)
		of++;
	*ret_extracted = extracted.sums[of];
	ret_extracted->stacks = NULL;
	*ret_of = of;
	for (size_t i = 0; i < view->site_count; i++)
		for (unsigned k = 0; marks[i] && k < LIMPET_GROWTH_SUMS; k++)
			growth->sums[k].stacks[i].weight = 0;
	for (unsigned i = 0; i < LIMPET_GROWTH_SUMS; i++)
		sum_up(growth, (enum limpet_growth_of)i, view, NULL);
	return 0;
}

void limpet_growth_done(struct limpet_growth *growth)
{
	free(growth->stacks);
	free(growth->series);
}
