#include "analyzer/views/trend.h"

#define PARTS 8u
#define HALF 4u
#define LEAST_POINTS PARTS
#define JUMPS 3u
#define ENOUGH_FALLS 3u

_Static_assert(2 * HALF == PARTS, "a half");

/* What is judged: the points of a time. */
struct series {
	const struct limpet_trend_point *points;
	size_t count;
	uint64_t from_ns, to_ns;
};

struct parts {
	double low[PARTS], high[PARTS];
	double end[PARTS + 1]; /* value at the beginning of part n, and at the end of all */
};

/* The value at a moment is that of the last point. */
static void cut_up(const struct limpet_trend_point *points, size_t count, uint64_t from_ns,
		   uint64_t to_ns, struct parts *ret)
{
	const double part_ns = (double)(to_ns - from_ns) / PARTS;
	double value = points[0].value;
	size_t at = 0;

	while (at < count && points[at].time_ns <= from_ns)
		value = points[at++].value;
	for (unsigned part = 0; part < PARTS; part++) {
		const double until_ns = (double)from_ns + (part + 1) * part_ns;

		ret->end[part] = ret->low[part] = ret->high[part] = value;
		for (; at < count && points[at].time_ns <= to_ns &&
		       (part + 1 == PARTS || (double)points[at].time_ns <= until_ns);
		     at++) {
			value = points[at].value;
			if (value < ret->low[part])
				ret->low[part] = value;
			if (value > ret->high[part])
				ret->high[part] = value;
		}
	}
	ret->end[PARTS] = value;
}

static double deepest_fall(const struct limpet_trend_point *points, size_t count, uint64_t from_ns,
			   uint64_t to_ns, double start)
{
	double highest = start, deepest = 0;

	for (size_t i = 0; i < count; i++) {
		if (points[i].time_ns < from_ns || points[i].time_ns > to_ns)
			continue;
		if (points[i].value > highest)
			highest = points[i].value;
		if (highest - points[i].value > deepest)
			deepest = highest - points[i].value;
	}
	return deepest;
}

/* Falls of at least `depth`, each from a height that was reached after the previous fall. */
static unsigned count_falls(const struct limpet_trend_point *points, size_t count, uint64_t from_ns,
			    uint64_t to_ns, double depth)
{
	double highest = -1, lowest = 0;
	bool down = false;
	unsigned falls = 0;

	for (size_t i = 0; i < count; i++) {
		const double value = points[i].value;

		if (points[i].time_ns < from_ns || points[i].time_ns > to_ns)
			continue;
		if (down && value < lowest)
			lowest = value;
		if (down && value - lowest < depth / 2)
			continue;
		if (down || value > highest)
			highest = value;
		down = highest - value >= depth;
		falls += down;
		lowest = value;
	}
	return falls;
}

/* Of parts `from` to `to` - 1. */
static double highest_of(const double *list, unsigned from, unsigned to)
{
	double highest = list[from];

	for (unsigned i = from + 1; i < to; i++)
		if (list[i] > highest)
			highest = list[i];
	return highest;
}

/* By chance, the lowest points of six eighths are in order once in 720 times. */
static bool lows_rise(const struct parts *parts)
{
	for (unsigned i = 3; i < PARTS; i++)
		if (parts->low[i] < parts->low[i - 1])
			return false;
	return true;
}

/* The second half, point by point. */
struct close_look {
	double jumps[JUMPS]; /* the largest rises from one point to the next, the largest first */
	uint64_t jump_ns;    /* time of the first of them */
	uint64_t begin_ns;   /* from here on it is above the middle by a part of the growth */
	uint64_t end_ns;     /* from here on only that part is missing */
	size_t points;
};

static void note_jump(struct close_look *look, double jump, uint64_t time_ns)
{
	if (jump > look->jumps[0])
		look->jump_ns = time_ns;
	for (unsigned i = 0; i < JUMPS; i++) {
		if (jump > look->jumps[i]) {
			const double smaller = look->jumps[i];

			look->jumps[i] = jump;
			jump = smaller;
		}
	}
}

static struct close_look look_closely(const struct limpet_trend_point *points, size_t count,
				      uint64_t middle_ns, uint64_t to_ns,
				      const struct limpet_trend *trend)
{
	struct close_look look = {.jump_ns = to_ns, .begin_ns = to_ns, .end_ns = to_ns};
	double before = trend->middle;
	uint64_t before_ns = middle_ns;

	for (size_t i = 0; i < count; i++) {
		const struct limpet_trend_point *point = &points[i];

		if (point->time_ns <= middle_ns || point->time_ns > to_ns)
			continue;
		note_jump(&look, point->value - before, point->time_ns);
		if (look.begin_ns == to_ns && point->value - trend->middle > trend->grew / 20)
			look.begin_ns = before_ns;
		if (look.end_ns == to_ns && trend->last - point->value <= trend->grew / 50)
			look.end_ns = point->time_ns;
		before = point->value;
		before_ns = point->time_ns;
		look.points++;
	}
	return look;
}

static void judge_rise(const struct limpet_trend_point *points, size_t count,
		       const struct parts *parts, uint64_t from_ns, uint64_t to_ns,
		       struct limpet_trend *trend)
{
	const uint64_t middle_ns = from_ns + (to_ns - from_ns) / 2;
	const uint64_t eighth_ns = (to_ns - from_ns) / PARTS;
	const struct close_look look = look_closely(points, count, middle_ns, to_ns, trend);
	const double jumps = look.jumps[0] + look.jumps[1] + look.jumps[2];
	unsigned up = 0, idle = 0, idle_before = 0;

	for (unsigned i = HALF; i < PARTS; i++) {
		const uint64_t end_ns = from_ns + (i + 1) * eighth_ns;
		const bool rises = parts->end[i + 1] - parts->end[i] > trend->grew / (4.0 * HALF);

		up += rises;
		if (end_ns <= look.begin_ns + eighth_ns)
			continue;
		idle += !rises;
		idle_before += !rises && end_ns <= look.end_ns;
	}
	trend->at_ns = look.begin_ns;
	if (look.jumps[0] >= 0.9 * trend->grew) {
		trend->shape = LIMPET_TREND_ONCE;
		trend->at_ns = look.jump_ns;
		trend->jump = look.jumps[0];
	} else if (jumps >= 0.9 * trend->grew && look.points > 4 * JUMPS) {
		trend->shape = LIMPET_TREND_STEPS;
	} else if (!idle_before && look.end_ns + eighth_ns / 2 < to_ns) {
		trend->shape = LIMPET_TREND_ENDED;
		trend->at_ns = look.end_ns;
	} else if (up >= HALF - 1 && parts->end[PARTS] - parts->end[PARTS - 2] >= trend->grew / 4) {
		trend->shape = trend->grew < (trend->middle - trend->first) / 2
				       ? LIMPET_TREND_SLOWING
				       : LIMPET_TREND_STEADY;
	} else if (!idle && look.begin_ns > middle_ns + eighth_ns / 2) {
		trend->shape = LIMPET_TREND_LATE;
	} else {
		trend->shape = LIMPET_TREND_STEPS;
	}
}

static double lowest_low(const struct parts *parts, unsigned from)
{
	double lowest = parts->low[from];

	for (unsigned i = from + 1; i < PARTS; i++)
		if (parts->low[i] < lowest)
			lowest = parts->low[i];
	return lowest;
}

/* The part from which on all lowest points are above all earlier ones, by most of what they rose in
 * the second half; 0: there is none. What only comes back to an earlier height is no rise. */
static unsigned step_of_lows(const struct parts *parts, double least, double *ret_rise)
{
	const double all = highest_of(parts->low, HALF, PARTS) - parts->low[HALF - 1];
	unsigned best = 0;

	*ret_rise = 0;
	for (unsigned step = HALF; step < PARTS; step++) {
		const double rise = lowest_low(parts, step) - highest_of(parts->low, 0, step);

		if (rise > least && rise >= 0.6 * all && rise > *ret_rise) {
			*ret_rise = rise;
			best = step;
		}
	}
	return best;
}

/* When it was last below that. */
static uint64_t last_below(const struct series *series, double value)
{
	const struct limpet_trend_point *points = series->points;
	uint64_t last_ns = series->from_ns;

	for (size_t i = 0; i < series->count && points[i].time_ns <= series->to_ns; i++)
		if (points[i].time_ns >= series->from_ns && points[i].value < value)
			last_ns = points[i].time_ns;
	return last_ns;
}

/* By its lowest points; answers whether these say that it rose. A step is no growth all the time,
 * and one at the middle is not of the second half; of one just before the end it is not known
 * whether it stays. */
static bool judge_lows(const struct series *series, const struct parts *parts, double least,
		       struct limpet_trend *trend)
{
	const double rise = parts->low[PARTS - 1] - parts->low[HALF - 1];
	const double later = parts->low[PARTS - 1] - parts->low[HALF];
	double at_once;
	const unsigned step = step_of_lows(parts, least, &at_once);

	if (step > HALF && step < PARTS - 1) {
		trend->shape = LIMPET_TREND_ONCE;
		trend->grew = at_once;
		trend->at_ns = last_below(series, lowest_low(parts, step) - at_once / 2);
		return true;
	}
	if (step == PARTS - 1 || rise <= least || !lows_rise(parts) ||
	    parts->low[PARTS - 1] - highest_of(parts->low, 0, HALF) <= least ||
	    (step && (later <= least || later <= trend->swing / 20)))
		return false;
	trend->shape = LIMPET_TREND_SWINGS;
	trend->grew = step ? later : rise;
	return true;
}

static void judge_swings(const struct series *series, const struct parts *parts, double least,
			 struct limpet_trend *trend)
{
	const double highest = highest_of(parts->high, 0, PARTS - 1);
	const double higher =
		highest_of(parts->high, HALF, PARTS) - highest_of(parts->high, 0, HALF);
	const double change = trend->last - trend->middle;

	if (judge_lows(series, parts, least, trend))
		return;
	if (trend->last - highest > least && parts->high[PARTS - 1] - trend->last <= least) {
		trend->shape = LIMPET_TREND_HIGHER;
		trend->grew = trend->last - highest;
	} else if (change > least && (trend->falls < ENOUGH_FALLS || higher > trend->swing / 10)) {
		trend->shape = LIMPET_TREND_UNCLEAR;
	} else {
		trend->shape = LIMPET_TREND_FLAT;
	}
}

void limpet_trend_judge(const struct limpet_trend_point *points, size_t count, uint64_t from_ns,
			uint64_t to_ns, double least, struct limpet_trend *ret)
{
	const uint64_t middle_ns = from_ns + (to_ns - from_ns) / 2;
	const struct series series = {points, count, from_ns, to_ns};
	struct limpet_trend trend = {.shape = LIMPET_TREND_UNKNOWN};
	struct parts parts;
	double before;

	*ret = trend;
	if (count < LEAST_POINTS || to_ns <= from_ns)
		return;
	cut_up(points, count, from_ns, to_ns, &parts);
	trend.first = parts.end[0];
	trend.middle = parts.end[HALF];
	trend.last = parts.end[PARTS];
	trend.grew = trend.last - trend.middle;
	trend.highest = highest_of(parts.high, HALF, PARTS);
	trend.swing = deepest_fall(points, count, middle_ns, to_ns, trend.middle);
	before = deepest_fall(points, count, from_ns, middle_ns, trend.first);
	/* A fall of the first half may happen again. */
	if (trend.grew > least && before > trend.swing)
		trend.swing = before;
	trend.falls = count_falls(points, count, from_ns, to_ns, trend.swing / 2);
	if (trend.swing > least && trend.swing > trend.grew / 2)
		judge_swings(&series, &parts, least, &trend);
	else if (trend.grew > least)
		judge_rise(points, count, &parts, from_ns, to_ns, &trend);
	else
		trend.shape = LIMPET_TREND_FLAT;
	*ret = trend;
}
