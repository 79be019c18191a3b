/* Growth of sites, and of what is measured of the whole. "Nothing grows" is said only if nothing
 * that was measured did. */
#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/views/findings_groups.h"
#include "analyzer/views/findings_work.h"
#include "analyzer/views/trend.h"
#include "common/units.h"

#define PARTS LIMPET_FINDINGS_PARTS
#define HALF 4u
#define LEAST_BYTES LIMPET_FINDINGS_LEAST_BYTES
#define LEAST_NS 4000000000ull
#define GROWING_SHOWN 3u
/* After a burst: the share of the second half's growth that comes in its second quarter. */
#define STEADY 0.45
/* For blocks that are hardly ever freed: fewer or younger ones are no evidence. */
#define LEAST_KEPT_BLOCKS 8u
#define LEAST_KEPT_NS 10000000000ull
#define KEPT_PARTS 6u
#define KEPT_SHOWN 3u
#define MANY_BLOCKS 16.0
#define SURE_BLOCKS 64u
/* The kernel updates its count of resident memory in batches, per processor or thread. */
#define LEAST_RESIDENT (1u << 20)
#define LEAST_BLOCKS 64u
#define LEAST_THREADS 0.5
#define PHRASE 320
/* A rise of less than this part of what counts as growth is none at all. */
#define NOTABLE 8

_Static_assert(2 * HALF == PARTS, "a half");

enum measure { LIVE, BLOCKS, MAPPED, RESIDENT, FILES, THREADS, MEASURES };

struct growth {
	struct limpet_findings_work *work;
	struct limpet_trend trends[MEASURES];
	const char *half; /* words */
	bool doubtful;    /* too much of what is new may replace older blocks */
	bool any;         /* something was said to grow */
	double all;       /* bytes of growth of all sites */
	double named;     /* of those that were named */
};

/* ------------------------------------------------------------------ what was measured */

static bool value_of(const struct limpet_model_point *point, enum measure measure, double *ret)
{
	switch (measure) {
	case LIVE:
		*ret = (double)point->live_bytes;
		return true;
	case BLOCKS:
		*ret = (double)point->live_allocations;
		return point->live_allocations != UINT64_MAX;
	case MAPPED:
		*ret = (double)point->mapped_bytes;
		return true;
	case RESIDENT:
		*ret = (double)limpet_model_point_rss(point);
		return point->rss_bytes != 0;
	case FILES:
		*ret = (double)point->file_bytes;
		return point->file_bytes != 0;
	case THREADS:
		*ret = (double)point->threads;
		return point->threads != 0;
	case MEASURES:
		break;
	}
	return false;
}

static double least_of(const struct limpet_model *model, enum measure measure)
{
	static const double least[MEASURES] = {
		[LIVE] = LEAST_BYTES,        [BLOCKS] = LEAST_BLOCKS,  [MAPPED] = LEAST_BYTES,
		[RESIDENT] = LEAST_RESIDENT, [FILES] = LEAST_RESIDENT, [THREADS] = LEAST_THREADS};

	if (measure == RESIDENT && !limpet_model_has_own_part(model))
		return least[measure] + (double)model->end->agent_memory_bytes;
	return least[measure];
}

/* What the model's sums say of the window's end. */
static bool total_of(const struct limpet_model *model, enum measure measure, double *ret)
{
	const struct limpet_model_totals *totals = &model->totals;

	*ret = (double)(measure == LIVE     ? totals->live_bytes
			: measure == BLOCKS ? totals->live_allocations
					    : totals->mapped_bytes);
	return measure <= MAPPED;
}

static int judge(struct growth *growth, enum measure measure)
{
	const struct limpet_model *model = growth->work->model;
	LIMPET_FREE struct limpet_trend_point *points =
		calloc(model->timeline_count + 2, sizeof(*points));
	double at_end;
	size_t count = 0;

	if (!points)
		return -ENOMEM;
	/* Figures that are counted from the capture's start were 0 then. */
	if (!model->from_ns && measure <= MAPPED)
		points[count++] = (struct limpet_trend_point){0};
	for (size_t i = 0; i < model->timeline_count; i++) {
		if (model->windowed && model->timeline[i].time_ns > model->to_ns)
			break;
		points[count].time_ns = model->timeline[i].time_ns;
		count += value_of(&model->timeline[i], measure, &points[count].value);
	}
	/* The timeline has a point each half second: the window may end in between. */
	if (model->windowed && !model->sample_bytes && total_of(model, measure, &at_end))
		points[count++] =
			(struct limpet_trend_point){.time_ns = model->to_ns, .value = at_end};
	if (model->to_ns - model->from_ns >= LEAST_NS)
		limpet_trend_judge(points, count, model->from_ns, model->to_ns,
				   least_of(model, measure), &growth->trends[measure]);
	return 0;
}

static bool rises(const struct growth *growth, enum measure measure)
{
	return growth->trends[measure].shape > LIMPET_TREND_FLAT;
}

/* ------------------------------------------------------------------ sentences */

static const char *amount(char *ret, enum measure measure, double value)
{
	if (measure == BLOCKS || measure == THREADS)
		return limpet_units_format_count(ret, value > 0 ? (uint64_t)value : 0);
	return limpet_findings_bytes(ret, value);
}

static bool is_of_pages(const struct growth *growth)
{
	return growth->work->model->target->pages;
}

static const char *name_of(const struct growth *growth, enum measure measure)
{
	static const char *const names[MEASURES] = {[LIVE] = "Live bytes",
						    [BLOCKS] = "Live blocks",
						    [MAPPED] = "Mapped bytes",
						    [RESIDENT] = "RSS",
						    [FILES] = "Pages of files and shared memory",
						    [THREADS] = "Threads"};

	return measure == LIVE && is_of_pages(growth) ? "New pages that are resident"
						      : names[measure];
}

static void tell_steady(const struct growth *growth, enum measure measure, char ret[PHRASE])
{
	const struct limpet_trend *trend = &growth->trends[measure];
	const double per_second = 2 * trend->grew / growth->work->seconds;
	char by[LIMPET_UNITS_TEXT], hour[LIMPET_UNITS_TEXT], to[LIMPET_UNITS_TEXT];

	amount(to, measure, trend->last);
	if (measure == THREADS || measure == BLOCKS)
		snprintf(ret, PHRASE, "%s grow all the time, by %s %s, to %s",
			 name_of(growth, measure), amount(by, measure, trend->grew), growth->half,
			 to);
	else
		snprintf(ret, PHRASE, "%s grow%s all the time, by %s/s (%s an hour) %s, to %s",
			 name_of(growth, measure), measure == RESIDENT ? "s" : "",
			 amount(by, measure, per_second), amount(hour, measure, 3600 * per_second),
			 growth->half, to);
}

static void tell_once(const struct growth *growth, enum measure measure, char ret[PHRASE])
{
	const struct limpet_trend *trend = &growth->trends[measure];
	const char *name = name_of(growth, measure);
	char by[LIMPET_UNITS_TEXT], to[LIMPET_UNITS_TEXT], swing[LIMPET_UNITS_TEXT];
	char at[LIMPET_UNITS_TEXT];

	amount(by, measure, trend->grew);
	amount(to, measure, trend->last);
	limpet_units_format_duration(at, trend->at_ns);
	if (trend->swing > trend->grew / 2)
		snprintf(ret, PHRASE,
			 "%s swing%s by up to %s, and %s lowest points rose by %s at %s, to %s",
			 name, measure == RESIDENT ? "s" : "", amount(swing, measure, trend->swing),
			 measure == RESIDENT ? "its" : "their", by, at, to);
	else if (trend->jump > 1.1 * trend->grew)
		snprintf(ret, PHRASE, "%s rose by %s at %s, and fell by %s since, to %s", name,
			 amount(by, measure, trend->jump), at,
			 amount(swing, measure, trend->jump - trend->grew), to);
	else
		snprintf(ret, PHRASE, "%s rose by %s at %s, to %s", name, by, at, to);
}

/* Describes the trend, without a full stop. */
static void tell(const struct growth *growth, enum measure measure, char ret[PHRASE])
{
	const struct limpet_trend *trend = &growth->trends[measure];
	const char *s = measure == RESIDENT ? "s" : "", *name = name_of(growth, measure);
	const char *their = measure == RESIDENT ? "its" : "their";
	char by[LIMPET_UNITS_TEXT], to[LIMPET_UNITS_TEXT], first[LIMPET_UNITS_TEXT];
	char swing[LIMPET_UNITS_TEXT], at[LIMPET_UNITS_TEXT];

	amount(by, measure, trend->grew);
	amount(to, measure, trend->last);
	amount(swing, measure, trend->swing);
	limpet_units_format_duration(at, trend->at_ns);
	switch (trend->shape) {
	case LIMPET_TREND_STEADY:
		tell_steady(growth, measure, ret);
		break;
	case LIMPET_TREND_SLOWING:
		snprintf(ret, PHRASE, "%s rose by %s %s, to %s, after %s in the first", name, by,
			 growth->half, to, amount(first, measure, trend->middle - trend->first));
		break;
	case LIMPET_TREND_LATE:
		snprintf(ret, PHRASE, "%s grow%s since %s, by %s, to %s", name, s, at, by, to);
		break;
	case LIMPET_TREND_ENDED:
		snprintf(ret, PHRASE, "%s rose by %s %s, until %s, and stayed at %s", name, by,
			 growth->half, at, to);
		break;
	case LIMPET_TREND_ONCE:
		tell_once(growth, measure, ret);
		break;
	case LIMPET_TREND_STEPS:
		snprintf(ret, PHRASE, "%s rose in steps, by %s %s, to %s", name, by, growth->half,
			 to);
		break;
	case LIMPET_TREND_SWINGS:
		snprintf(ret, PHRASE,
			 "%s swing%s by up to %s, and %s lowest points rose by %s %s, to %s", name,
			 s, swing, their, by, growth->half, to);
		break;
	case LIMPET_TREND_HIGHER:
		snprintf(ret, PHRASE,
			 "%s swing%s by up to %s, and ended %s above the highest before, at %s",
			 name, s, swing, by, to);
		break;
	case LIMPET_TREND_UNCLEAR:
		snprintf(ret, PHRASE,
			 "%s swing%s by up to %s, and rose by %s %s, to %s (a longer capture would "
			 "tell whether %s grow%s)",
			 name, s, swing, by, growth->half, to, measure == RESIDENT ? "it" : "they",
			 s);
		break;
	case LIMPET_TREND_FLAT:
	case LIMPET_TREND_UNKNOWN:
		snprintf(ret, PHRASE, "%s did not grow", name);
		break;
	}
}

static struct limpet_findings_entry whole(const struct growth *growth,
					  enum limpet_findings_kind kind, enum measure measure)
{
	const struct limpet_trend *trend = &growth->trends[measure];
	struct limpet_findings_entry finding = {
		.kind = kind,
		.bytes = trend->grew > 0 ? (uint64_t)trend->grew : 0,
		.share = -1,
		.per_second = 2 * trend->grew / growth->work->seconds};

	finding.at_once = trend->shape == LIMPET_TREND_ONCE;
	if (trend->shape == LIMPET_TREND_LATE || trend->shape == LIMPET_TREND_ONCE) {
		finding.from_ns = trend->at_ns;
		finding.to_ns = growth->work->model->to_ns;
	}
	return finding;
}

/* ------------------------------------------------------------------ sites that grow all the time
 */

static uint64_t age_of(const struct limpet_findings_work *work, uint64_t first_ns)
{
	return first_ns < work->model->to_ns ? work->model->to_ns - first_ns : 0;
}

double limpet_findings_late_growth(const double *growth)
{
	return limpet_findings_sum(growth, HALF, PARTS);
}

static double late_growth(const struct limpet_findings_group *group)
{
	return limpet_findings_late_growth(group->growth);
}

/* The same as a rate, without what came in a single part, if that is most. */
static double late_rate(const struct limpet_findings_work *work, const double *growth)
{
	const double late = limpet_findings_late_growth(growth);
	double most = 0;

	for (unsigned i = HALF; i < PARTS; i++)
		most = fmax(most, growth[i]);
	if (most > 0.6 * late)
		return (late - most) * PARTS / (HALF - 1) / work->seconds;
	return 2 * late / work->seconds;
}

/* What is left of the first half's growth if a burst is taken out of it: two parts, as one that is
 * short may fall into both. */
static double without_burst(const double *growth)
{
	double burst = 0;

	for (unsigned i = 0; i + 1 < HALF; i++)
		burst = fmax(burst, growth[i] + growth[i + 1]);
	return limpet_findings_sum(growth, 0, HALF) - burst;
}

/* If it grew far more in the first half, that was a burst, and growth has not slowed down since: of
 * what fills up, each quarter's growth is less than the one before. `up`: parts of the second half
 * in which it grew. */
static bool has_slowed_down(const double *growth, unsigned up)
{
	const double first = limpet_findings_sum(growth, 0, HALF);
	const double second = limpet_findings_sum(growth, HALF, PARTS);
	const double last = limpet_findings_sum(growth, PARTS - PARTS / 4, PARTS);

	return second < first / 2 &&
	       (second < without_burst(growth) / 2 || up < HALF || last < STEADY * second);
}

/* Keeps growing: not only while it filled up, nor once, nor until it is emptied again, as before.
 */
static bool grows(const double *growth)
{
	const double second = limpet_findings_sum(growth, HALF, PARTS);
	const double last = limpet_findings_sum(growth, PARTS - PARTS / 4, PARTS);
	unsigned up = 0;

	for (unsigned i = 0; i < HALF; i++)
		if (growth[i] < -second / 4)
			return false;
	for (unsigned i = HALF; i < PARTS; i++)
		up += growth[i] > second / PARTS / 4;
	return !has_slowed_down(growth, up) && second >= LEAST_BYTES && up >= HALF - 1 &&
	       last >= second / 4 && growth[PARTS - 1] > second / PARTS;
}

static int compare_growth(const void *a, const void *b)
{
	const struct limpet_findings_group *const *x = a, *const *y = b;
	const double p = late_growth(*x), q = late_growth(*y);

	return p > q ? -1 : p < q;
}

/* Blocks that were freed, or lost from sight: one for which the collector had no room counts as
 * neither freed nor live. */
static uint64_t gone_of(const struct limpet_findings_work *work,
			const struct limpet_model_site *figures)
{
	if (work->model->windowed)
		return figures->frees;
	return figures->allocations > figures->live_allocations
		       ? figures->allocations - figures->live_allocations
		       : 0;
}

/* What is left of the blocks that came in the window. At least, as some that were freed in it may
 * have been older. */
static uint64_t kept_blocks(const struct limpet_findings_work *work,
			    const struct limpet_model_site *figures)
{
	if (!work->model->windowed)
		return figures->live_allocations;
	return figures->allocations > figures->frees ? figures->allocations - figures->frees : 0;
}

/* Where frees were lost it is no lower bound either. */
static const char *roughly(const struct limpet_findings_work *work,
			   const struct limpet_model_site *figures)
{
	if (!work->model->windowed || !figures->frees)
		return "";
	return work->model->exact ? "at least " : "about ";
}

static uint64_t kept_bytes(const struct limpet_findings_work *work,
			   const struct limpet_model_site *figures)
{
	if (!work->model->windowed)
		return figures->live_bytes;
	return figures->growth_bytes > 0 ? (uint64_t)figures->growth_bytes : 0;
}

/* How many of its blocks were freed, as part of a sentence. */
static void tell_freed(const struct limpet_findings_work *work,
		       const struct limpet_findings_group *group, char *ret, size_t room)
{
	const struct limpet_model_site *figures = &group->figures;
	char blocks[LIMPET_UNITS_TEXT];

	if (work->model->windowed)
		snprintf(ret, room, "%s of its blocks are live",
			 limpet_units_format_count(blocks, figures->live_allocations));
	else if (figures->frees < gone_of(work, figures))
		snprintf(ret, room, "%s of its blocks are known to be live",
			 limpet_units_format_count(blocks, figures->live_allocations));
	else if (figures->frees && figures->frees < figures->allocations / 1000)
		snprintf(ret, room, "hardly any of its %s blocks were freed",
			 limpet_units_format_count(blocks, figures->allocations));
	else if (figures->frees)
		snprintf(ret, room, "%.1f %% of its %s blocks were freed",
			 100.0 * (double)figures->frees / (double)figures->allocations,
			 limpet_units_format_count(blocks, figures->allocations));
	else
		snprintf(ret, room, "none of its %s blocks was ever freed",
			 limpet_units_format_count(blocks, figures->allocations));
}

/* Of pages: what grows is those that it touched first, whatever uses them now. */
static int add_touches(const struct growth *growth, const struct limpet_findings_group *group,
		       const struct limpet_findings_entry *finding, const char *name)
{
	char rate[LIMPET_UNITS_TEXT], hour[LIMPET_UNITS_TEXT], now[LIMPET_UNITS_TEXT];

	return limpet_findings_add(
		growth->work, finding,
		"%s touches new pages all the time: those that are resident grow by %s/s (%s an "
		"hour) %s, to %s.",
		name, limpet_findings_bytes(rate, finding->per_second),
		limpet_findings_bytes(hour, 3600 * finding->per_second), growth->half,
		limpet_findings_bytes(now, (double)group->figures.live_bytes));
}

static int add_grows(const struct growth *growth, const struct limpet_findings_group *group,
		     const struct limpet_findings_entry *finding, const char *name)
{
	char rate[LIMPET_UNITS_TEXT], hour[LIMPET_UNITS_TEXT], now[LIMPET_UNITS_TEXT], freed[128];

	tell_freed(growth->work, group, freed, sizeof(freed));
	return limpet_findings_add(
		growth->work, finding,
		"%s grows all the time, by %s/s (%s an hour) %s, to %s: %s%s.", name,
		limpet_findings_bytes(rate, finding->per_second),
		limpet_findings_bytes(hour, 3600 * finding->per_second), growth->half,
		limpet_findings_bytes(now, (double)group->figures.live_bytes), freed,
		growth->doubtful ? ", and they may replace older ones that were"
		: growth->trends[LIVE].shape == LIMPET_TREND_FLAT
			? "; live bytes as a whole do not grow"
			: "");
}

/* Of its stacks the one that grows. */
static uint32_t late_node(const struct limpet_findings_group *group)
{
	return group->late_node ? group->late_node : group->figures.node;
}

static int say_growing(struct growth *growth, const struct limpet_findings_group *group)
{
	struct limpet_findings_work *work = growth->work;
	const bool pages = is_of_pages(growth);
	const double bytes = late_growth(group), all = growth->all;
	struct limpet_findings_entry finding = {.kind = pages ? LIMPET_FINDINGS_TOUCHES
							      : LIMPET_FINDINGS_GROWS,
						.bytes = (uint64_t)bytes,
						.share = -1,
						.per_second = 2 * bytes / work->seconds};
	LIMPET_FREE char *name = NULL;
	int code = limpet_findings_name(work, late_node(group), &finding, &name);

	if (code < 0)
		return code;
	if (all > 0)
		finding.share = bytes / all < 1 ? bytes / all : 1;
	if (age_of(work, group->first_ns)) {
		finding.from_ns = group->first_ns;
		finding.to_ns = work->model->to_ns;
	}
	code = pages ? add_touches(growth, group, &finding, name)
		     : add_grows(growth, group, &finding, name);
	if (code < 0)
		limpet_findings_forget_names(&finding);
	growth->named += bytes;
	growth->any = true;
	return code;
}

/* The growing functions that are not named. */
static int say_others(struct growth *growth, const struct limpet_findings_group *const *list,
		      size_t count)
{
	const bool pages = is_of_pages(growth);
	struct limpet_findings_entry finding = {
		.kind = pages ? LIMPET_FINDINGS_TOUCHES : LIMPET_FINDINGS_GROWS, .share = -1};
	char rate[LIMPET_UNITS_TEXT];
	double bytes = 0;

	for (size_t i = 0; i < count; i++)
		bytes += late_growth(list[i]);
	growth->named += bytes;
	finding.bytes = (uint64_t)bytes;
	finding.per_second = 2 * bytes / growth->work->seconds;
	if (pages)
		return limpet_findings_add(
			growth->work, &finding,
			"%zu more function%s touch%s new pages all the time: those that are "
			"resident grow by %s/s %s.",
			count, count == 1 ? "" : "s", count == 1 ? "es" : "",
			limpet_findings_bytes(rate, finding.per_second), growth->half);
	return limpet_findings_add(growth->work, &finding,
				   "%zu more function%s grow%s all the time, by %s/s%s %s.", count,
				   count == 1 ? "" : "s", count == 1 ? "s" : "",
				   limpet_findings_bytes(rate, finding.per_second),
				   count == 1 ? "" : " together", growth->half);
}

static bool is_growing(const struct limpet_findings_group *group)
{
	return group->figures.allocations >= LEAST_KEPT_BLOCKS && grows(group->growth);
}

static int find_sites(struct growth *growth)
{
	struct limpet_findings_work *work = growth->work;
	LIMPET_FREE const struct limpet_findings_group **list =
		calloc(work->count + 1, sizeof(*list));
	size_t count = 0;
	int code = 0;

	if (!list)
		return -ENOMEM;
	for (size_t i = 0; i < work->count; i++) {
		struct limpet_findings_group *group = &work->groups[i];

		growth->all += late_growth(group);
		if (is_growing(group))
			list[count++] = group;
	}
	qsort(list, count, sizeof(*list), compare_growth);
	for (size_t i = 0; i < count && i < GROWING_SHOWN && code == 0; i++)
		code = say_growing(growth, list[i]);
	if (code == 0 && count > GROWING_SHOWN)
		code = say_others(growth, list + GROWING_SHOWN, count - GROWING_SHOWN);
	return code;
}

/* ------------------------------------------------------------------ blocks that are not freed */

/* They came until the end, as far as so few of them tell. */
static bool keep_coming(const double *blocks)
{
	const double second = limpet_findings_sum(blocks, HALF, PARTS);

	return second >= MANY_BLOCKS ? blocks[PARTS - 1] > second / PARTS / 2
				     : blocks[PARTS - 1] > 0 || blocks[PARTS - 2] > 0;
}

bool limpet_findings_is_kept(const struct limpet_findings_work *work,
			     const struct limpet_findings_group *group)
{
	const struct limpet_model_site *figures = &group->figures;
	unsigned parts = 0, late = 0;

	if (figures->allocations < LEAST_KEPT_BLOCKS ||
	    gone_of(work, figures) > figures->allocations / 10 ||
	    kept_blocks(work, figures) < LEAST_KEPT_BLOCKS ||
	    age_of(work, group->first_ns) < LEAST_KEPT_NS)
		return false;
	for (unsigned i = 0; i < PARTS; i++) {
		parts += group->blocks[i] > 0;
		late += i >= HALF && group->blocks[i] > 0;
	}
	return parts >= KEPT_PARTS && late >= HALF - 1 && keep_coming(group->blocks) &&
	       !has_slowed_down(group->blocks, late);
}

bool limpet_findings_is_surely_kept(const struct limpet_findings_work *work,
				    const struct limpet_findings_group *group)
{
	if (!limpet_findings_is_kept(work, group) || gone_of(work, &group->figures) ||
	    group->figures.allocations < SURE_BLOCKS)
		return false;
	for (unsigned i = 0; i < PARTS; i++)
		if (group->blocks[i] <= 0)
			return false;
	return true;
}

/* One stack of many that are freed is weak evidence: a collector of garbage may not have come to
 * it yet. Those alone count then of which no block of many was freed. */
static const struct limpet_findings_kept *kept_stacks(const struct limpet_findings_work *work,
						      const struct limpet_findings_group *group)
{
	const struct limpet_model_site *figures = &group->figures;

	if (gone_of(work, figures) > figures->allocations / 2)
		return group->sure.stacks ? &group->sure : NULL;
	return group->kept.stacks ? &group->kept : NULL;
}

static int compare_kept(const void *a, const void *b, void *context)
{
	const struct limpet_findings_group *const *x = a, *const *y = b;
	const uint64_t p = kept_bytes(context, &kept_stacks(context, *x)->figures);
	const uint64_t q = kept_bytes(context, &kept_stacks(context, *y)->figures);

	return p > q ? -1 : p < q;
}

static int say_kept(struct growth *growth, const struct limpet_findings_group *group)
{
	struct limpet_findings_work *work = growth->work;
	const struct limpet_findings_kept *kept = kept_stacks(work, group);
	const struct limpet_model_site *figures = &kept->figures;
	struct limpet_findings_entry finding = {.kind = LIMPET_FINDINGS_NEVER_FREED,
						.bytes = kept_bytes(work, figures),
						.share = -1,
						.per_second = late_rate(work, kept->growth),
						.of_stacks = kept == &group->sure,
						.from_ns = kept->first_ns,
						.to_ns = work->model->to_ns};
	char who[64] = "it";
	char live[LIMPET_UNITS_TEXT], all[LIMPET_UNITS_TEXT], age[LIMPET_UNITS_TEXT];
	char bytes[LIMPET_UNITS_TEXT];
	LIMPET_FREE char *name = NULL;
	int code = limpet_findings_name(work, figures->node, &finding, &name);

	if (code < 0)
		return code;
	finding.grown_bytes = (uint64_t)fmax(0, finding.per_second * work->seconds / 2);
	if (kept->stacks == 1 && group->stacks > 1)
		snprintf(who, sizeof(who), "one of its %zu stacks", group->stacks);
	else if (kept->stacks < group->stacks)
		snprintf(who, sizeof(who), "%zu of its %zu stacks", kept->stacks, group->stacks);
	limpet_units_format_duration(age, age_of(work, kept->first_ns));
	code = limpet_findings_add(
		work, &finding,
		"%s: %s%s of the %s blocks that %s allocated%s are still live, %s. The first one "
		"came %s before the end, and more keep coming%s.",
		name, roughly(work, figures),
		limpet_units_format_count(live, kept_blocks(work, figures)),
		limpet_units_format_count(all, figures->allocations), who,
		work->model->windowed ? " in the window" : "",
		limpet_findings_bytes(bytes, (double)finding.bytes), age,
		growth->doubtful ? "; but older blocks were freed, which they may only replace"
		: kept == &group->sure ? "; most blocks of its other stacks are freed, and a "
					 "collector of garbage may "
					 "come to these later"
				       : "");
	if (code < 0)
		limpet_findings_forget_names(&finding);
	growth->any = true;
	growth->named += limpet_findings_late_growth(kept->growth);
	return code;
}

static int say_others_kept(struct growth *growth, const struct limpet_findings_group *const *list,
			   size_t count)
{
	struct limpet_findings_entry finding = {
		.kind = LIMPET_FINDINGS_NEVER_FREED, .share = -1, .per_second = -1};
	char bytes[LIMPET_UNITS_TEXT], blocks[LIMPET_UNITS_TEXT];
	struct limpet_model_site all = {.frees = 0};
	uint64_t alive = 0;

	for (size_t i = 0; i < count; i++) {
		const struct limpet_findings_kept *kept = kept_stacks(growth->work, list[i]);

		finding.bytes += kept_bytes(growth->work, &kept->figures);
		alive += kept_blocks(growth->work, &kept->figures);
		all.frees += kept->figures.frees;
		growth->named += limpet_findings_late_growth(kept->growth);
	}
	return limpet_findings_add(
		growth->work, &finding,
		"Of %zu more functions hardly any block is freed: %s%s%s are live, %s.", count,
		roughly(growth->work, &all), limpet_units_format_count(blocks, alive),
		growth->work->model->windowed ? " of the window" : "",
		limpet_findings_bytes(bytes, (double)finding.bytes));
}

/* The function as a whole is one. */
static void keep_all(struct limpet_findings_group *group)
{
	group->kept = (struct limpet_findings_kept){
		.figures = group->figures, .stacks = group->stacks, .first_ns = group->first_ns};
	memcpy(group->kept.growth, group->growth, sizeof(group->growth));
}

static int find_kept(struct growth *growth)
{
	struct limpet_findings_work *work = growth->work;
	LIMPET_FREE const struct limpet_findings_group **list =
		calloc(work->count + 1, sizeof(*list));
	size_t count = 0, named;
	int code = 0;

	if (!list)
		return -ENOMEM;
	for (size_t i = 0; i < work->count; i++) {
		struct limpet_findings_group *group = &work->groups[i];

		if (limpet_findings_is_kept(work, group))
			keep_all(group);
		if (kept_stacks(work, group) && (growth->doubtful || !is_growing(group)))
			list[count++] = group;
	}
	qsort_r(list, count, sizeof(*list), compare_kept, work);
	named = count <= KEPT_SHOWN ? count : KEPT_SHOWN - 1;
	for (size_t i = 0; i < named && code == 0; i++)
		code = say_kept(growth, list[i]);
	if (code == 0 && count > named)
		code = say_others_kept(growth, list + named, count - named);
	return code;
}

/* ------------------------------------------------------------------ the heap as a whole */

static int say_turnover(struct growth *growth)
{
	const struct limpet_model_totals *totals = &growth->work->model->totals;
	const struct limpet_findings_entry finding = whole(growth, LIMPET_FINDINGS_TURNOVER, LIVE);
	char live[LIMPET_UNITS_TEXT], older[LIMPET_UNITS_TEXT + 16];

	growth->any = true;
	if (totals->foreign_freed_bytes)
		limpet_findings_bytes(older, (double)totals->foreign_freed_bytes);
	else
		limpet_units_format_count(older, totals->foreign_frees);
	limpet_findings_bytes(live, (double)totals->live_bytes);
	if (is_of_pages(growth))
		return limpet_findings_add(
			growth->work, &finding,
			"New pages that are resident grow, to %s since the capture began, but %s "
			"of older pages were returned meanwhile.",
			live, older);
	return limpet_findings_add(
		growth->work, &finding,
		"Live bytes grow, to %s since the capture began, but %s of older blocks were "
		"freed meanwhile: these may be replaced. A longer capture would tell.",
		live, older);
}

/* Where a rise began: a little earlier than it was seen, if it has a moment, else the second half.
 */
static unsigned first_part(const struct growth *growth, const struct limpet_trend *trend)
{
	const struct limpet_model *model = growth->work->model;
	const double part = ((double)trend->at_ns - (double)model->from_ns) /
			    (double)(model->to_ns - model->from_ns) * PARTS;

	if (trend->shape != LIMPET_TREND_LATE && trend->shape != LIMPET_TREND_ONCE)
		return HALF;
	return part < 1 ? 0 : part - 1 < HALF ? (unsigned)part - 1 : HALF;
}

/* Of the parts from `first` on. */
static struct limpet_findings_group *most_of(const struct growth *growth, bool blocks,
					     unsigned first, double *ret_most, size_t *ret_count)
{
	const struct limpet_findings_work *work = growth->work;
	struct limpet_findings_group *most = NULL;

	*ret_most = 0;
	*ret_count = 0;
	for (size_t i = 0; i < work->count; i++) {
		struct limpet_findings_group *group = &work->groups[i];
		double grew =
			limpet_findings_sum(blocks ? group->blocks : group->growth, first, PARTS);

		*ret_count += grew > 0;
		if (grew <= *ret_most)
			continue;
		*ret_most = grew;
		most = group;
	}
	return most;
}

/* A rise for which no site was named: all at once, at the end, in steps, or under many sites. */
static int say_rose(struct growth *growth, enum measure measure)
{
	struct limpet_findings_work *work = growth->work;
	struct limpet_findings_entry finding = whole(growth, LIMPET_FINDINGS_ROSE, measure);
	const struct limpet_trend *trend = &growth->trends[measure];
	struct limpet_findings_group *most = NULL;
	char phrase[PHRASE], figure[LIMPET_UNITS_TEXT];
	LIMPET_FREE char *name = NULL;
	double grew = 0;
	size_t count = 0;
	int code;

	if (work->in_parts)
		most = most_of(growth, measure == BLOCKS, first_part(growth, trend), &grew, &count);
	/* A rise at the middle may be of the part before. */
	if (work->in_parts && first_part(growth, trend) == HALF && grew < trend->grew / 2)
		most = most_of(growth, measure == BLOCKS, HALF - 1, &grew, &count);
	/* Little of the rise is by sites of these parts: whose it was is not known. */
	if (count == 1 && grew < trend->grew / 2)
		most = NULL;
	if (measure == BLOCKS)
		finding.bytes = 0;
	finding.unclear = trend->shape == LIMPET_TREND_UNCLEAR;
	if (most && trend->grew > 0)
		finding.share = fmin(grew / trend->grew, 1);
	growth->any = true;
	tell(growth, measure, phrase);
	if (!most)
		return limpet_findings_add(work, &finding, "%s.", phrase);
	most->told_once = trend->shape == LIMPET_TREND_ONCE && grew >= trend->grew / 2;
	code = limpet_findings_name(work, late_node(most), &finding, &name);
	if (code < 0)
		return code;
	amount(figure, measure, grew);
	if (is_of_pages(growth))
		code = limpet_findings_add(work, &finding, "%s: %s first touched %s of them.",
					   phrase, name, count == 1 ? "all" : figure);
	else if (count == 1)
		code = limpet_findings_add(work, &finding, "%s: all under %s.", phrase, name);
	else
		code = limpet_findings_add(work, &finding,
					   "%s: of %zu functions that grew, %s grew most, by %s.",
					   phrase, count, name, figure);
	if (code < 0)
		limpet_findings_forget_names(&finding);
	return code;
}

static int find_heap(struct growth *growth)
{
	const bool rose = rises(growth, LIVE);
	int code = 0;

	if (growth->doubtful && rose)
		code = say_turnover(growth);
	else if (growth->work->in_parts)
		code = find_sites(growth);
	if (code == 0 && growth->work->in_parts && !is_of_pages(growth))
		code = find_kept(growth);
	if (code < 0)
		return code;
	if (rose && !growth->doubtful && growth->named < growth->trends[LIVE].grew / 2)
		return say_rose(growth, LIVE);
	if (!rose && !growth->any && rises(growth, BLOCKS))
		return say_rose(growth, BLOCKS);
	return 0;
}

/* ------------------------------------------------------------------ beyond the heap */

/* A stack of the label with the most bytes still mapped; node 0: none. */
static int largest_map(const struct limpet_findings_work *work, uint32_t *ret_node,
		       uint64_t *ret_bytes)
{
	const struct limpet_model *model = work->model;
	LIMPET_FREE struct limpet_model_map_site *sums =
		calloc(model->map_count + 1, sizeof(*sums));
	struct limpet_findings_groups *groups;
	int code = sums ? limpet_findings_groups_new(work->view->locations, &groups) : -ENOMEM;

	*ret_node = 0;
	*ret_bytes = 0;
	if (code < 0)
		return code;
	for (size_t i = 0; i < model->map_count && code == 0; i++) {
		const struct limpet_model_map_site *site = &model->maps[i];
		uint32_t at;

		code = limpet_findings_groups_find(groups, site->node, &at);
		if (code < 0)
			break;
		sums[at].node = sums[at].mmaps ? sums[at].node : site->node;
		sums[at].mmaps += site->mmaps;
		sums[at].mapped_bytes += site->mapped_bytes;
		if (sums[at].mapped_bytes > *ret_bytes) {
			*ret_bytes = sums[at].mapped_bytes;
			*ret_node = sums[at].node;
		}
	}
	limpet_findings_groups_free(groups);
	return code;
}

static int find_mappings(struct growth *growth)
{
	struct limpet_findings_work *work = growth->work;
	struct limpet_findings_entry finding = whole(growth, LIMPET_FINDINGS_MAPS, MAPPED);
	char phrase[PHRASE], bytes[LIMPET_UNITS_TEXT];
	LIMPET_FREE char *name = NULL;
	uint64_t most;
	uint32_t node;
	int code;

	if (!rises(growth, MAPPED))
		return 0;
	growth->any = true;
	tell(growth, MAPPED, phrase);
	code = largest_map(work, &node, &most);
	if (code < 0)
		return code;
	if (!node)
		return limpet_findings_add(work, &finding, "%s, by mmap.", phrase);
	code = limpet_findings_name(work, node, &finding, &name);
	if (code < 0)
		return code;
	code = limpet_findings_add(work, &finding, "%s, by mmap: most of it under %s, %s.", phrase,
				   name, limpet_findings_bytes(bytes, (double)most));
	if (code < 0)
		limpet_findings_forget_names(&finding);
	return code;
}

static double gain(const struct growth *growth, enum measure measure)
{
	const double grew = growth->trends[measure].last - growth->trends[measure].middle;

	return grew > 0 ? grew : 0;
}

/* Of pages: that RSS grows is certain, and said first. */
static int find_resident_pages(struct growth *growth)
{
	struct limpet_findings_work *work = growth->work;
	struct limpet_findings_entry finding = whole(growth, LIMPET_FINDINGS_RESIDENT, RESIDENT);
	const double pages = gain(growth, LIVE);
	const double beyond = growth->trends[RESIDENT].grew - pages;
	char phrase[PHRASE], bytes[LIMPET_UNITS_TEXT], rest[LIMPET_UNITS_TEXT];

	if (!rises(growth, RESIDENT))
		return 0;
	growth->any = work->resident_said = true;
	tell(growth, RESIDENT, phrase);
	if (beyond <= least_of(work->model, RESIDENT) ||
	    beyond <= growth->trends[RESIDENT].grew / 10)
		return limpet_findings_add(work, &finding, "%s.", phrase);
	return limpet_findings_add(
		work, &finding,
		"%s; new pages that are resident grew by %s meanwhile. %s more is pages of files, "
		"and memory that limpet does not know.",
		phrase, limpet_findings_bytes(bytes, pages), limpet_findings_bytes(rest, beyond));
}

/* What it grew by at most until some moment of the second half, or by its lowest points. */
static double most_gain(const struct growth *growth, enum measure measure)
{
	const struct limpet_trend *trend = &growth->trends[measure];
	const double until_highest = trend->highest - trend->middle;

	return fmax(fmax(gain(growth, measure), until_highest),
		    rises(growth, measure) ? trend->grew : 0);
}

static bool is_little(const struct growth *growth, double beyond)
{
	return beyond <= least_of(growth->work->model, RESIDENT) ||
	       beyond <= growth->trends[RESIDENT].grew / 10;
}

static int find_resident(struct growth *growth)
{
	struct limpet_findings_work *work = growth->work;
	const struct limpet_model *model = work->model;
	struct limpet_findings_entry finding = whole(growth, LIMPET_FINDINGS_RESIDENT, RESIDENT);
	const double live = gain(growth, LIVE), mapped = gain(growth, MAPPED);
	const double files = gain(growth, FILES);
	const char *own = limpet_model_has_own_part(model) ? ", without limpet's own" : "";
	char phrase[PHRASE], heap[LIMPET_UNITS_TEXT], maps[LIMPET_UNITS_TEXT];
	char shared[LIMPET_UNITS_TEXT], others[LIMPET_FINDINGS_OTHERS];
	char rest[LIMPET_UNITS_TEXT], least[LIMPET_UNITS_TEXT];
	double beyond, at_most;
	const bool both = mapped > 0 && files > 0;

	if (!rises(growth, RESIDENT))
		return 0;
	/* Mappings may be of files, and count once then, or not. */
	beyond = growth->trends[RESIDENT].grew - live - fmax(mapped, files);
	at_most = most_gain(growth, LIVE) + most_gain(growth, MAPPED);
	/* Its causes have findings of their own. */
	if (growth->any && is_little(growth, growth->trends[RESIDENT].grew - at_most))
		return 0;
	tell(growth, RESIDENT, phrase);
	if (!is_little(growth, beyond) &&
	    is_little(growth, growth->trends[RESIDENT].grew - at_most)) {
		finding.bytes = 0;
		return limpet_findings_add(
			work, &finding,
			"%s%s, as live bytes and mappings did meanwhile, by up to %s: what they "
			"left is kept by the allocator.",
			phrase, own, limpet_findings_bytes(heap, at_most));
	}
	growth->any = work->resident_said = true;
	finding.of_files =
		files >= mapped && !is_little(growth, files) && is_little(growth, beyond);
	if (finding.of_files) {
		finding.bytes = (uint64_t)files;
		return limpet_findings_add(
			work, &finding,
			"%s%s: pages of files and shared memory grew by %s meanwhile, live bytes "
			"by %s, and mappings by %s.",
			phrase, own, limpet_findings_bytes(shared, files),
			limpet_findings_bytes(heap, live), limpet_findings_bytes(maps, mapped));
	}
	finding.bytes = beyond > 0 ? (uint64_t)beyond : 0;
	limpet_findings_bytes(least, fmax(0, beyond - fmin(mapped, files)));
	return limpet_findings_add(
		work, &finding,
		"%s%s; live bytes grew by %s meanwhile%s. That leaves %s%s%s: blocks first "
		"written to after they were allocated, what the allocator rounds sizes up by, "
		"free memory that it keeps, or an allocator that limpet does not follow.",
		phrase, own, limpet_findings_bytes(heap, live),
		limpet_findings_others(others, mapped, files), both ? least : "",
		both ? " to " : "", limpet_findings_bytes(rest, beyond));
}

static int find_threads(struct growth *growth)
{
	const struct limpet_findings_entry finding = {
		.kind = LIMPET_FINDINGS_THREADS,
		.share = -1,
		.per_second = 2 * growth->trends[THREADS].grew / growth->work->seconds};
	char phrase[PHRASE];

	if (!rises(growth, THREADS))
		return 0;
	growth->any = true;
	tell(growth, THREADS, phrase);
	return limpet_findings_add(
		growth->work, &finding,
		"%s: each has a stack, which the program does not allocate itself.", phrase);
}

/* ------------------------------------------------------------------ nothing grows */

static void say_change(FILE *file, const struct growth *growth, enum measure measure,
		       const char *before)
{
	const struct limpet_trend *trend = &growth->trends[measure];
	const double change = trend->last - trend->middle;
	char by[LIMPET_UNITS_TEXT], to[LIMPET_UNITS_TEXT];

	/* What only falls does not go up and down. */
	if (trend->swing > 2 * least_of(growth->work->model, measure) &&
	    trend->swing > fabs(change)) {
		fprintf(file, "%s go%s up and down by up to %s, to %s", before,
			measure == RESIDENT ? "es" : "", amount(by, measure, trend->swing),
			amount(to, measure, trend->last));
		return;
	}
	amount(to, measure, trend->last);
	if (fabs(change) < 1)
		fprintf(file, "%s stayed at %s", before, to);
	else
		fprintf(file, "%s %s by %s, to %s", before, change < 0 ? "fell" : "rose",
			amount(by, measure, fabs(change)), to);
}

/* A program that frees everything before it exits may have grown until then. */
static bool tidied_up(const struct limpet_model *model)
{
	const struct limpet_model_totals *totals = &model->totals;
	const uint64_t before_ns = model->duration_ns / 20 * 19;
	uint64_t before = 0;

	for (size_t i = 0; i < model->timeline_count && model->timeline[i].time_ns <= before_ns;
	     i++)
		before = model->timeline[i].live_bytes;
	return model->end->end == LIMPET_END_TARGET_EXIT && model->to_ns >= model->duration_ns &&
	       before > totals->peak_bytes / 2 && totals->live_bytes < totals->peak_bytes / 2;
}

/* Rises that are too small or too uneven to be called growth. */
static bool any_rose(const struct growth *growth)
{
	static const enum measure said[] = {LIVE, MAPPED, RESIDENT};

	for (size_t i = 0; i < LIMPET_COUNT_OF(said); i++) {
		const struct limpet_trend *trend = &growth->trends[said[i]];

		if (trend->shape &&
		    trend->last - trend->middle >= least_of(growth->work->model, said[i]) / NOTABLE)
			return true;
	}
	return false;
}

static int say_steady(struct growth *growth)
{
	struct limpet_findings_entry finding = whole(growth, LIMPET_FINDINGS_STEADY, LIVE);
	const struct limpet_trend *trends = growth->trends;
	LIMPET_FREE char *text = NULL;
	char count[LIMPET_UNITS_TEXT];
	size_t bytes;
	FILE *file = open_memstream(&text, &bytes);

	if (!file)
		return -ENOMEM;
	finding.bytes = 0;
	fprintf(file, "%s: %s",
		any_rose(growth) ? "No clear growth, only what is too little or too uneven to count"
				 : "Nothing grows",
		growth->half);
	say_change(file, growth, LIVE,
		   is_of_pages(growth) ? " new pages that are resident" : " live bytes");
	if (trends[BLOCKS].shape && !is_of_pages(growth))
		fprintf(file, " in %s block%s",
			limpet_units_format_count(count, (uint64_t)trends[BLOCKS].last),
			trends[BLOCKS].last == 1 ? "" : "s");
	if (growth->work->model->totals.mmaps || trends[MAPPED].last > 0)
		say_change(file, growth, MAPPED, "; mappings");
	if (trends[RESIDENT].shape)
		say_change(file, growth, RESIDENT, "; RSS");
	if (trends[THREADS].shape)
		fprintf(file, "; %s thread%s",
			limpet_units_format_count(count, (uint64_t)trends[THREADS].last),
			trends[THREADS].last == 1 ? "" : "s");
	if (!trends[RESIDENT].shape || !trends[THREADS].shape)
		fprintf(file, "; how %s changed is not known",
			trends[RESIDENT].shape  ? "the number of threads"
			: trends[THREADS].shape ? "RSS"
						: "RSS and the number of threads");
	if (fclose(file))
		return -ENOMEM;
	return limpet_findings_add(growth->work, &finding, "%s.", text);
}

/* What was lost may hide more growth than would be reported. */
static bool hides_growth(const struct limpet_model *model)
{
	const struct limpet_model_missing *missing = &model->missing;
	const uint64_t lost = limpet_findings_lost_calls(model);

	return lost > missing->dropped.frees + LEAST_BLOCKS ||
	       missing->untracked_allocations > LEAST_BLOCKS ||
	       missing->dropped.allocated_bytes + missing->untracked_bytes > LEAST_BYTES;
}

static int say_hidden(struct growth *growth)
{
	const struct limpet_findings_entry finding = {
		.kind = LIMPET_FINDINGS_UNJUDGED, .share = -1, .per_second = -1, .qualified = true};

	return limpet_findings_add(growth->work, &finding,
				   "Nothing that was recorded grows; what was not recorded may.");
}

/* Why the heap is not judged. */
static int say_unjudged(struct growth *growth)
{
	const struct limpet_model *model = growth->work->model;
	const struct limpet_findings_entry finding = {
		.kind = LIMPET_FINDINGS_UNJUDGED, .share = -1, .per_second = -1};
	char length[LIMPET_UNITS_TEXT];

	if (model->to_ns - model->from_ns < LEAST_NS)
		return limpet_findings_add(
			growth->work, &finding,
			"%s is too short to tell what grows: that takes 4s at least.",
			limpet_units_format_duration(length, model->to_ns - model->from_ns));
	if (model->target->compact && !model->sample_bytes && model->timeline_count < PARTS)
		return limpet_findings_add(
			growth->work, &finding,
			"Which sites grow is not known: a compact trace has one sum a minute, here "
			"%zu, and at least %u are needed.",
			model->timeline_count, PARTS);
	if (is_of_pages(growth))
		return limpet_findings_add(
			growth->work, &finding, "%s",
			model->totals.live_bytes
				? "Which stacks touch new pages all the time is not known: the "
				  "trace tells too little about when."
				: "No page that was touched is resident.");
	return limpet_findings_add(
		growth->work, &finding, "%s",
		model->sample_bytes ? "Samples do not tell which sites grow."
		: model->totals.live_bytes || model->totals.mapped_bytes
			? "Which sites grow is not known: the trace tells too little about when."
			: "Nothing is left of what was allocated.");
}

static int say_idle(struct growth *growth)
{
	const struct limpet_model *model = growth->work->model;
	const struct limpet_findings_entry finding = {
		.kind = LIMPET_FINDINGS_IDLE,
		.share = -1,
		.per_second = -1,
		.qualified = limpet_findings_lost_calls(model) != 0};
	char length[LIMPET_UNITS_TEXT], lost[LIMPET_UNITS_TEXT];

	limpet_units_format_duration(length, model->to_ns - model->from_ns);
	if (limpet_findings_lost_calls(model))
		return limpet_findings_add(
			growth->work, &finding,
			"No call was recorded in %s, but %s call%s of the capture %s lost.", length,
			limpet_units_format_count(lost, limpet_findings_lost_calls(model)),
			limpet_findings_lost_calls(model) == 1 ? "" : "s",
			limpet_findings_lost_calls(model) == 1 ? "was" : "were");
	if (model->target->pages)
		return limpet_findings_add(growth->work, &finding, "No new page was touched in %s.",
					   length);
	if (model->end->end == LIMPET_END_TARGET_EXIT)
		return limpet_findings_add(growth->work, &finding,
					   "No call was seen in the %s until the program ended.",
					   length);
	return limpet_findings_add(
		growth->work, &finding,
		"No call was seen in %s: the program was idle, used memory that it had, or has an "
		"allocator that limpet does not follow.",
		length);
}

/* ------------------------------------------------------------------ all */

static bool is_doubtful(const struct limpet_model *model)
{
	const struct limpet_model_totals *totals = &model->totals;
	const struct limpet_model_missing *missing = &model->missing;
	const double grew = totals->growth_bytes > 0 ? (double)totals->growth_bytes : 0;

	/* They may all be of blocks that were allocated during the capture, but not recorded. */
	if (totals->foreign_frees <= missing->dropped.allocations + missing->untracked_allocations)
		return false;
	/* If their sizes are unknown, compare their number. */
	if (totals->foreign_frees && !totals->foreign_freed_bytes)
		return totals->foreign_frees > totals->live_allocations / 2;
	return (double)totals->foreign_freed_bytes > grew / 2;
}

/* Bytes by which it grew in the second half, or in a step. */
static uint64_t weight(const struct limpet_findings_entry *finding)
{
	return finding->kind == LIMPET_FINDINGS_NEVER_FREED ? finding->grown_bytes : finding->bytes;
}

/* The largest first; equal ones as they are. */
static void sort_from(struct limpet_findings_work *work, size_t first)
{
	struct limpet_findings_entry *list = work->findings->list;

	for (size_t i = first + 1; i < work->findings->count; i++) {
		const struct limpet_findings_entry one = list[i];
		size_t at = i;

		for (; at > first && weight(&list[at - 1]) < weight(&one); at--)
			list[at] = list[at - 1];
		list[at] = one;
	}
}

int limpet_findings_find_growing(struct limpet_findings_work *work)
{
	const struct limpet_model *model = work->model;
	size_t first;
	struct growth growth = {.work = work,
				.half = model->windowed ? "in the second half of the window"
							: "in the second half",
				.doubtful = is_doubtful(model)};
	bool heap;
	int code = 0;

	for (unsigned i = 0; i < MEASURES && code == 0; i++)
		code = judge(&growth, (enum measure)i);
	heap = growth.trends[LIVE].shape && !model->sample_bytes;
	if (code == 0 && !model->totals.events)
		code = say_idle(&growth);
	if (code == 0 && model->target->pages)
		code = find_resident_pages(&growth);
	first = work->findings->count;
	if (code == 0 && heap)
		code = find_heap(&growth);
	if (code == 0 && heap && work->in_parts && !growth.doubtful && !is_of_pages(&growth))
		code = limpet_findings_find_steps(work);
	sort_from(work, first);
	if (code == 0)
		code = find_mappings(&growth);
	if (code == 0)
		code = find_threads(&growth);
	if (code == 0 && !model->target->pages)
		code = find_resident(&growth);
	if (code < 0)
		return code;
	if (!heap || !work->in_parts)
		return model->totals.events ? say_unjudged(&growth) : 0;
	if (growth.any || tidied_up(model) || limpet_model_unfollowed(model).grows)
		return 0;
	return hides_growth(model) ? say_hidden(&growth) : say_steady(&growth);
}
