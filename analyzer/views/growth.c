#include "analyzer/views/growth.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "analyzer/views/findings_groups.h"

#define PARTS 64u
#define LAST (PARTS - PARTS / 4) /* the last quarter begins */
/* Fewer steps of the history do not tell what happened when. */
#define LEAST_STEPS 8u
#define LEAST_NS 4000000000ull
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

/* Live bytes of a stack at the end of each part, since the window began. */
struct series {
	double bytes[PARTS];
};

static bool is_judged(const struct limpet_model *model, const struct limpet_history *history)
{
	size_t steps = 0;

	for (size_t i = 0; i < history->step_count; i++)
		steps += history->edges_ns[i + 1] > model->from_ns &&
			 history->edges_ns[i] < model->to_ns;
	return steps >= LEAST_STEPS && !history->in_one &&
	       model->to_ns - model->from_ns >= LEAST_NS;
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
			const struct limpet_history_site *site, struct series *ret)
{
	struct limpet_cursor cursor = limpet_history_steps(history, site);
	struct limpet_history_step step;

	*ret = (struct series){{0}};
	while (limpet_history_next(&cursor, &step)) {
		const unsigned part = part_of(model, history, step.step);

		if (part < PARTS)
			ret->bytes[part] += (double)step.counts.allocated_bytes -
					    (double)step.counts.freed_bytes;
	}
	for (unsigned i = 1; i < PARTS; i++)
		ret->bytes[i] += ret->bytes[i - 1];
}

static double lowest(const struct series *series, unsigned from, unsigned to)
{
	double low = series->bytes[from];

	for (unsigned i = from; i < to; i++)
		low = fmin(low, series->bytes[i]);
	return low;
}

/* The deepest fall in [from, to), and the height before it. */
static double fall_in(const struct series *series, unsigned from, unsigned to, double *ret_from)
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
static double grown(const struct series *series)
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

static bool goes_on(const struct series *series)
{
	const double end = series->bytes[PARTS - 1];

	return end - series->bytes[LAST - 1] >= GOES_ON_SHARE * end;
}

static uint64_t time_of(const struct limpet_model *model, unsigned part)
{
	return model->from_ns + (model->to_ns - model->from_ns) / PARTS * part;
}

static void judge_time(const struct limpet_model *model, const struct series *sum,
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

/* Sums up the stacks that weigh something. */
struct adding {
	struct limpet_growth_sum sum;
	struct series series;
	struct limpet_culprit_stack *stacks; /* of each site of the view */
};

static void add_site(struct adding *adding, const struct limpet_model_site *site, size_t at,
		     double bytes, const struct series *series)
{
	adding->stacks[at] = (struct limpet_culprit_stack){site->node, bytes, site->allocations};
	if (bytes <= 0)
		return;
	adding->sum.bytes += bytes;
	adding->sum.allocations += site->allocations;
	adding->sum.frees += site->frees;
	adding->sum.live_blocks += site->live_allocations;
	for (unsigned i = 0; i < PARTS; i++)
		adding->series.bytes[i] += series->bytes[i];
}

static bool is_kept(const struct limpet_model_site *site)
{
	return (double)site->frees <= KEPT_SHARE * (double)site->allocations;
}

static int finish(struct adding *adding, const struct limpet_view *view, bool judged)
{
	if (judged)
		judge_time(view->locations->model, &adding->series, &adding->sum);
	return limpet_culprit_find(view->locations, adding->stacks, view->site_count,
				   &adding->sum.culprit);
}

/* What the sites of a view have grown by, each and by the label of its group: the stacks of code
 * that moves are many, and none of them grows for long. */
struct grown_site {
	struct series series;
	uint32_t group;
};

static int read_sites(const struct limpet_view *view, const struct limpet_history *history,
		      struct grown_site *sites, struct series *groups)
{
	struct limpet_findings_groups *labels;
	int code = limpet_findings_groups_new(view->locations, &labels);

	if (code < 0)
		return code;
	for (size_t i = 0; i < view->site_count && code == 0; i++) {
		const struct limpet_history_site *steps =
			limpet_history_site_of(history, view->sites[i].node);

		code = limpet_findings_groups_find(labels, view->sites[i].node, &sites[i].group);
		if (code < 0 || !steps)
			continue;
		read_series(view->locations->model, history, steps, &sites[i].series);
		for (unsigned k = 0; k < PARTS; k++)
			groups[sites[i].group].bytes[k] += sites[i].series.bytes[k];
	}
	limpet_findings_groups_free(labels);
	return code;
}

static int add_judged(const struct limpet_view *view, const struct limpet_history *history,
		      struct adding adding[LIMPET_GROWTH_SUMS])
{
	LIMPET_FREE struct grown_site *sites = calloc(view->site_count + 1, sizeof(*sites));
	LIMPET_FREE struct series *groups = calloc(view->site_count + 1, sizeof(*groups));
	int code = sites && groups ? read_sites(view, history, sites, groups) : -ENOMEM;

	for (size_t i = 0; i < view->site_count && code == 0; i++) {
		const struct limpet_model_site *site = &view->sites[i];
		const struct grown_site *it = &sites[i];
		const struct series *group = &groups[it->group];
		const bool together = grown(group) > 0 && goes_on(group);
		const double bytes = together
					     ? fmax(grown(&it->series), it->series.bytes[PARTS - 1])
					     : grown(&it->series);
		const double on = together || goes_on(&it->series) ? bytes : 0;

		add_site(&adding[LIMPET_GROWTH_KEPT], site, i, is_kept(site) ? on : 0, &it->series);
		add_site(&adding[LIMPET_GROWTH_ON], site, i, on, &it->series);
		add_site(&adding[LIMPET_GROWTH_ALL], site, i, bytes, &it->series);
	}
	return code;
}

static void add_unjudged(const struct limpet_view *view, struct adding *all)
{
	static const struct series unknown;

	for (size_t i = 0; i < view->site_count; i++)
		add_site(all, &view->sites[i], i, (double)view->sites[i].growth_bytes, &unknown);
}

int limpet_growth_find(const struct limpet_view *view, const struct limpet_history *history,
		       struct limpet_growth *ret_growth)
{
	const struct limpet_model *model = view->locations->model;
	LIMPET_FREE struct limpet_culprit_stack *stacks =
		calloc(LIMPET_GROWTH_SUMS * view->site_count + 1, sizeof(*stacks));
	struct limpet_growth growth = {.judged = is_judged(model, history),
				       .swing_bytes = deepest_fall(model)};
	struct adding adding[LIMPET_GROWTH_SUMS] = {0};
	int code = 0;

	if (!stacks)
		return -ENOMEM;
	for (unsigned i = 0; i < LIMPET_GROWTH_SUMS; i++)
		adding[i].stacks = stacks + i * view->site_count;
	if (growth.judged)
		code = add_judged(view, history, adding);
	else
		add_unjudged(view, &adding[LIMPET_GROWTH_ALL]);
	for (unsigned i = 0; i < LIMPET_GROWTH_SUMS && code == 0; i++)
		code = finish(&adding[i], view, growth.judged);
	for (unsigned i = 0; i < LIMPET_GROWTH_SUMS; i++)
		growth.sums[i] = adding[i].sum;
	if (code < 0)
		limpet_growth_done(&growth);
	else
		*ret_growth = growth;
	return code;
}

void limpet_growth_done(struct limpet_growth *growth)
{
	for (unsigned i = 0; i < LIMPET_GROWTH_SUMS; i++)
		limpet_culprit_done(&growth->sums[i].culprit);
}
