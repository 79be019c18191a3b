/* How often `limpet top` looks, and when it says that its figures are old: on a made-up clock. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "cli/top_pace.h"

#define MS 1000000ull
#define S (1000 * MS)

static void test_pauses_are_bounded(void **state)
{
	(void)state;
	/* A short look: as often as asked for. */
	assert_int_equal(limpet_top_pace_next(7 * S, 7 * S + 0, 0, S), 8 * S);
	assert_int_equal(limpet_top_pace_next(7 * S, 7 * S + 50 * MS, 50 * MS, S), 8 * S);
	/* One part of twenty. */
	assert_int_equal(limpet_top_pace_next(7 * S, 7 * S + 200 * MS, 200 * MS, S), 11 * S);
	assert_int_equal(limpet_top_pace_next(0, 200 * MS, 200 * MS, 100 * MS), 4 * S);
	/* One second once meant to stand still for twenty. */
	assert_int_equal(limpet_top_pace_next(7 * S, 7 * S + S, S, S), 13 * S);
	assert_int_equal(limpet_top_pace_next(7 * S, 7 * S + 100 * S, 100 * S, S), 112 * S);
	for (uint64_t busy = 0; busy < 10 * S; busy += 7 * MS)
		assert_in_range(limpet_top_pace_next(0, busy, busy, S), busy,
				busy + LIMPET_TOP_PAUSE_MAX_NS);
	/* Longer than that only where it is asked for. */
	assert_int_equal(limpet_top_pace_next(0, S, S, 60 * S), 60 * S);
	assert_int_equal(limpet_top_pace_next(0, UINT64_MAX / 64, UINT64_MAX / 64, S),
			 UINT64_MAX / 64 + LIMPET_TOP_PAUSE_MAX_NS);
}

static void test_a_busy_machine_adds_no_pause(void **state)
{
	(void)state;
	/* Three seconds for what takes 50 ms alone: at once again, not after five more. */
	assert_int_equal(limpet_top_pace_next(7 * S, 10 * S, 50 * MS, S), 10 * S);
	assert_int_equal(limpet_top_pace_next(7 * S, 10 * S, 200 * MS, S), 11 * S);
}

static void test_age(void **state)
{
	(void)state;
	assert_int_equal(limpet_top_pace_age(10 * S, 10 * S, S), 0);
	assert_int_equal(limpet_top_pace_age(10 * S, 9 * S, S), 0);
	assert_int_equal(limpet_top_pace_age(10 * S, 8 * S, S), 2 * S);
	assert_int_equal(limpet_top_pace_age(10 * S, 3 * S, S), 7 * S);
	assert_int_equal(limpet_top_pace_age(10 * S, 3 * S, 10 * S), 0);
	/* A clock that is behind. */
	assert_int_equal(limpet_top_pace_age(3 * S, 10 * S, 0), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_pauses_are_bounded),
		cmocka_unit_test(test_a_busy_machine_adds_no_pause),
		cmocka_unit_test(test_age),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
