/* Growth of drawn series. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "analyzer/views/trend.h"

#define SECOND 1000000000ull

enum { POINTS = 161 }; /* two a second, for 80 seconds */

static struct limpet_trend_point points[POINTS];

static struct limpet_trend judge(double (*draw)(double seconds), double least)
{
	struct limpet_trend trend;

	for (unsigned i = 0; i < POINTS; i++)
		points[i] = (struct limpet_trend_point){.time_ns = i * SECOND / 2,
							.value = draw(i / 2.0)};
	limpet_trend_judge(points, POINTS, 0, 80 * SECOND, least, &trend);
	return trend;
}

static double saw(double seconds, double every, double height)
{
	const double part = seconds / every;

	return height * (part - (double)(unsigned)part);
}

static double nothing(double seconds)
{
	return 100 + 0 * seconds;
}
static double little(double seconds)
{
	return 100 + seconds / 80;
}
static double all_the_time(double seconds)
{
	return 10 * seconds;
}
static double fills_up(double seconds)
{
	return seconds < 30 ? 10 * seconds : 300;
}
static double comes_to_rest(double seconds)
{
	return 1000 * seconds / (seconds + 20);
}
static double at_the_end(double seconds)
{
	return seconds < 60 ? 0 : 10 * (seconds - 60);
}
static double at_the_very_end(double seconds)
{
	return seconds < 79.5 ? 0 : 500;
}
static double once(double seconds)
{
	return seconds < 50 ? 7 : 300;
}
static double in_steps(double seconds)
{
	return 100.0 * (unsigned)(seconds / 15);
}
static double teeth(double seconds)
{
	return saw(seconds, 9, 500);
}
/* Half of the time is at a peak, the end in a valley. */
static double rising_teeth(double seconds)
{
	return 2 * seconds + saw(seconds + 0.3, 5.77, 500);
}
static double ends_high(double seconds)
{
	return seconds < 79 ? saw(seconds, 9, 500) : 900;
}
/* Ends higher than it was before the last eighth, and lower than in it. */
static double drops_again(double seconds)
{
	return seconds < 75 ? 0 : seconds < 77 ? 900 : 450;
}
/* Two humps, and the second half ends on its way up. */
static double humps(double seconds)
{
	return seconds < 38 ? 10 * seconds : seconds < 60 ? 100 : saw(seconds - 60, 15, 250) + 50;
}
/* A working set that comes and goes, and a burst that stays. */
static double step_of_teeth(double seconds, double at)
{
	return saw(seconds, 2.9, 500) + (seconds < at ? 0 : 700);
}
static double teeth_that_step(double seconds)
{
	return step_of_teeth(seconds, 55);
}
static double teeth_that_step_early(double seconds)
{
	return step_of_teeth(seconds, 39);
}
static double rising_teeth_that_step_early(double seconds)
{
	return step_of_teeth(seconds, 39) + (seconds < 40 ? 0 : 2 * (seconds - 40));
}
/* Emptied around the middle, and filled again. */
static double refilled(double seconds)
{
	return seconds > 35 && seconds < 48 ? 0 : 500 + saw(seconds, 2.9, 100);
}
/* A fifth of the rise is gone again at the end. */
static double jumps_and_falls(double seconds)
{
	return seconds < 50 ? 0 : seconds < 70 ? 500 : 400;
}
static double fills_up_late(double seconds)
{
	return seconds < 65 ? 10 * seconds : 650;
}
static double falls(double seconds)
{
	return 1000 - 10 * seconds;
}

static void test_shapes(void **state)
{
	static const struct {
		double (*draw)(double);
		enum limpet_trend_shape shape;
		double grew, off;
	} rows[] = {
		{nothing, LIMPET_TREND_FLAT, 0, 0},
		{little, LIMPET_TREND_FLAT, 0.5, 0.1},
		{all_the_time, LIMPET_TREND_STEADY, 400, 1},
		{fills_up, LIMPET_TREND_FLAT, 0, 0},
		{comes_to_rest, LIMPET_TREND_SLOWING, 133, 1},
		{at_the_end, LIMPET_TREND_LATE, 200, 1},
		{at_the_very_end, LIMPET_TREND_ONCE, 500, 0},
		{once, LIMPET_TREND_ONCE, 293, 0},
		{in_steps, LIMPET_TREND_STEPS, 300, 0},
		{teeth, LIMPET_TREND_FLAT, 500, 500},
		{rising_teeth, LIMPET_TREND_SWINGS, 80, 25},
		{ends_high, LIMPET_TREND_HIGHER, 428, 5},
		{drops_again, LIMPET_TREND_UNCLEAR, 450, 0},
		{humps, LIMPET_TREND_UNCLEAR, -1, 200},
		{falls, LIMPET_TREND_FLAT, -400, 1},
		{teeth_that_step, LIMPET_TREND_ONCE, 700, 100},
		{teeth_that_step_early, LIMPET_TREND_FLAT, 0, 700},
		{rising_teeth_that_step_early, LIMPET_TREND_SWINGS, 60, 25},
		{fills_up_late, LIMPET_TREND_ENDED, 250, 1},
		{jumps_and_falls, LIMPET_TREND_ONCE, 400, 1},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct limpet_trend trend = judge(rows[i].draw, 10);

		if (trend.shape != rows[i].shape || trend.grew > rows[i].grew + rows[i].off ||
		    trend.grew < rows[i].grew - rows[i].off)
			fail_msg("row %zu: shape %u instead of %u, %f", i, trend.shape,
				 rows[i].shape, trend.grew);
	}
}

/* When it was, and when it began. */
static void test_moments(void **state)
{
	struct limpet_trend trend = judge(once, 10);

	(void)state;
	assert_int_equal(trend.at_ns, 50 * SECOND);
	trend = judge(at_the_end, 10);
	assert_in_range(trend.at_ns, 60 * SECOND, 62 * SECOND);
	trend = judge(jumps_and_falls, 10);
	assert_true(trend.jump == 500);
	trend = judge(refilled, 10);
	assert_true(trend.shape == LIMPET_TREND_FLAT || trend.shape == LIMPET_TREND_UNCLEAR);
	trend = judge(fills_up_late, 10);
	assert_in_range(trend.at_ns, 62 * SECOND, 65 * SECOND);
	trend = judge(teeth_that_step, 10);
	assert_in_range(trend.at_ns, 52 * SECOND, 55 * SECOND);
}

/* A window looks at its own halves, and few points say nothing. */
static void test_window(void **state)
{
	struct limpet_trend trend = judge(once, 10);

	(void)state;
	limpet_trend_judge(points, POINTS, 52 * SECOND, 80 * SECOND, 10, &trend);
	assert_int_equal(trend.shape, LIMPET_TREND_FLAT);
	limpet_trend_judge(points, POINTS, 30 * SECOND, 60 * SECOND, 10, &trend);
	assert_int_equal(trend.shape, LIMPET_TREND_ONCE);
	limpet_trend_judge(points, 7, 0, 80 * SECOND, 10, &trend);
	assert_int_equal(trend.shape, LIMPET_TREND_UNKNOWN);
	limpet_trend_judge(points, POINTS, 5, 5, 10, &trend);
	assert_int_equal(trend.shape, LIMPET_TREND_UNKNOWN);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_shapes),
		cmocka_unit_test(test_moments),
		cmocka_unit_test(test_window),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
