/* The pace of a capture: naps, and who waits while it naps or wakes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "collector/capture/pace.h"

#define MS 1000000ull
#define SECOND 1000000000ull
#define DEFAULT_MEMORY (64u << 20)
/* Just more events than may be read without load. */
#define MANY (DEFAULT_MEMORY / 8 / 24 + 1)

static const struct limpet_pace_drain nothing = {.recorded = 0};
static const struct limpet_pace_drain some = {.recorded = 10};
static const struct limpet_pace_drain piled_up = {.recorded = 1000, .has_more = true};
static const struct limpet_pace_drain called = {.called = true};

static struct limpet_pace begun(void)
{
	struct limpet_pace pace = {.agent_memory_bytes = DEFAULT_MEMORY, .may_nap = true};

	limpet_pace_begin(&pace, SECOND);
	return pace;
}

static struct limpet_pace napping(void)
{
	struct limpet_pace pace = begun();

	limpet_pace_note(&pace, &nothing, 3 * SECOND);
	assert_int_equal(pace.state, LIMPET_PACE_NAPPING);
	return pace;
}

static void test_nap(void **state)
{
	struct limpet_pace pace = begun();

	(void)state;
	assert_int_equal(pace.patience_ns, 50 * MS);
	limpet_pace_note(&pace, &nothing, 3 * SECOND - 1);
	assert_int_equal(pace.state, LIMPET_PACE_AWAKE);
	assert_int_equal(pace.poll_ns, 25 * MS);
	limpet_pace_note(&pace, &nothing, 3 * SECOND);
	assert_int_equal(pace.state, LIMPET_PACE_NAPPING);
	assert_int_equal(pace.poll_ns, 125 * MS);
	assert_int_equal(pace.patience_ns, 250 * MS);
	/* A few events end it, and nobody waits long any more. */
	limpet_pace_note(&pace, &some, 4 * SECOND);
	assert_int_equal(pace.state, LIMPET_PACE_AWAKE);
	assert_int_equal(pace.poll_ns, 25 * MS);
	assert_int_equal(pace.patience_ns, 50 * MS);
	assert_int_equal(pace.events_ns, 4 * SECOND);
}

/* Where it samples instead of losing events, a nap would begin it too soon. */
static void test_no_nap(void **state)
{
	struct limpet_pace pace = {.agent_memory_bytes = DEFAULT_MEMORY};

	(void)state;
	limpet_pace_begin(&pace, SECOND);
	limpet_pace_note(&pace, &nothing, 60 * SECOND);
	assert_int_equal(pace.state, LIMPET_PACE_AWAKE);
}

static void test_little_memory(void **state)
{
	const struct {
		uint64_t bytes, poll_ns;
	} cases[] = {{DEFAULT_MEMORY * 4, 125 * MS},
		     {DEFAULT_MEMORY / 2, 125 * MS / 2},
		     {DEFAULT_MEMORY / 64, 25 * MS}};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct limpet_pace pace = {.agent_memory_bytes = cases[i].bytes, .may_nap = true};

		limpet_pace_begin(&pace, 0);
		limpet_pace_note(&pace, &nothing, 2 * SECOND);
		assert_int_equal(pace.poll_ns, cases[i].poll_ns);
	}
}

static void test_burst_after_a_nap(void **state)
{
	struct limpet_pace pace = napping();

	(void)state;
	limpet_pace_note(&pace, &piled_up, 4 * SECOND);
	assert_int_equal(pace.state, LIMPET_PACE_WAKING);
	assert_int_equal(pace.patience_ns, 250 * MS);
	limpet_pace_note(&pace, &some, 4 * SECOND + 10 * MS);
	assert_int_equal(pace.state, LIMPET_PACE_AWAKE);
	assert_int_equal(pace.patience_ns, 50 * MS);
}

/* A program that never lets us catch up does not wait for ever. */
static void test_burst_without_end(void **state)
{
	struct limpet_pace pace = napping();
	uint64_t now_ns = 4 * SECOND;

	(void)state;
	for (; now_ns < 4 * SECOND + 250 * MS; now_ns += 10 * MS) {
		limpet_pace_note(&pace, &piled_up, now_ns);
		assert_int_equal(pace.state, LIMPET_PACE_WAKING);
		assert_int_equal(pace.patience_ns, 250 * MS);
	}
	limpet_pace_note(&pace, &piled_up, now_ns);
	assert_int_equal(pace.state, LIMPET_PACE_AWAKE);
	assert_int_equal(pace.patience_ns, 50 * MS);
}

static void test_a_call_ends_a_nap(void **state)
{
	struct limpet_pace pace = napping();

	(void)state;
	limpet_pace_note(&pace, &called, 4 * SECOND);
	assert_int_equal(pace.state, LIMPET_PACE_AWAKE);
	assert_int_equal(pace.events_ns, 4 * SECOND);
}

static void test_interrupt(void **state)
{
	struct limpet_pace pace = napping();

	(void)state;
	assert_int_equal(pace.wait_ns, SECOND);
	limpet_pace_interrupt(&pace, 4 * SECOND);
	assert_int_equal(pace.state, LIMPET_PACE_AWAKE);
	assert_int_equal(pace.patience_ns, 50 * MS);
	assert_int_equal(pace.wait_ns, 500 * MS);
	limpet_pace_note(&pace, &nothing, 6 * SECOND - 1);
	assert_int_equal(pace.state, LIMPET_PACE_AWAKE);
}

static void test_wait_for_room(void **state)
{
	struct limpet_pace pace = {
		.agent_memory_bytes = DEFAULT_MEMORY, .may_nap = true, .wait_for_room = true};

	(void)state;
	limpet_pace_begin(&pace, SECOND);
	assert_int_equal(pace.patience_ns, 10 * SECOND);
	limpet_pace_note(&pace, &nothing, 3 * SECOND);
	assert_int_equal(pace.state, LIMPET_PACE_NAPPING);
	assert_int_equal(pace.patience_ns, 10 * SECOND);
	limpet_pace_interrupt(&pace, 4 * SECOND);
	assert_int_equal(pace.patience_ns, 10 * SECOND);
}

/* They have another answer to an overload. */
static void test_samples_are_not_waited_for(void **state)
{
	struct limpet_pace pace = {.agent_memory_bytes = DEFAULT_MEMORY, .samples = true};

	(void)state;
	limpet_pace_begin(&pace, SECOND);
	assert_int_equal(pace.patience_ns, 0);
	limpet_pace_note(&pace, &some, 60 * SECOND);
	assert_int_equal(pace.patience_ns, 0);
}

/* While there is none, limpet does not come before other programs. */
static void test_load(void **state)
{
	const struct limpet_pace_drain many = {.recorded = MANY};
	struct limpet_pace pace = begun();

	(void)state;
	assert_true(pace.under_load);
	limpet_pace_note(&pace, &some, SECOND);
	assert_false(pace.under_load);
	limpet_pace_note(&pace, &many, 2 * SECOND);
	assert_true(pace.under_load);
	limpet_pace_note(&pace, &some, 3 * SECOND - 1);
	assert_true(pace.under_load);
	limpet_pace_note(&pace, &some, 3 * SECOND);
	assert_false(pace.under_load);
}

/* It lasts longer each time that it is back soon, up to sixteen seconds. */
static void test_load_that_comes_back(void **state)
{
	const struct limpet_pace_drain many = {.recorded = MANY};
	static const unsigned lasts[] = {1, 2, 4, 8, 16, 16};
	struct limpet_pace pace = begun();
	uint64_t now_ns = SECOND;

	(void)state;
	limpet_pace_note(&pace, &some, now_ns);
	for (size_t i = 0; i < sizeof(lasts) / sizeof(*lasts); i++) {
		limpet_pace_note(&pace, &many, now_ns);
		limpet_pace_note(&pace, &some, now_ns + lasts[i] * SECOND - 1);
		assert_true(pace.under_load);
		now_ns += lasts[i] * SECOND;
		limpet_pace_note(&pace, &some, now_ns);
		assert_false(pace.under_load);
		now_ns += MS;
	}
	now_ns += 16 * SECOND;
	limpet_pace_note(&pace, &many, now_ns);
	limpet_pace_note(&pace, &some, now_ns + SECOND);
	assert_false(pace.under_load);
}

/* Some events too many for one drain are no load; it is one when they do not end. */
static void test_load_of_several_drains(void **state)
{
	const struct limpet_pace_drain half = {.recorded = MANY / 2 + 1, .has_more = true};
	const struct limpet_pace_drain last = {.recorded = MANY / 2 - 10};
	struct limpet_pace pace = begun();

	(void)state;
	for (unsigned i = 0; i < 10; i++) {
		limpet_pace_note(&pace, &half, SECOND + i * MS);
		assert_false(pace.under_load);
		limpet_pace_note(&pace, &last, SECOND + i * MS);
		assert_false(pace.under_load);
	}
	limpet_pace_note(&pace, &half, 2 * SECOND);
	limpet_pace_note(&pace, &half, 2 * SECOND);
	assert_true(pace.under_load);
}

/* The faster they come the sooner they are read: by half a MiB of them. */
static void test_wait(void **state)
{
	struct limpet_pace pace = begun();
	struct limpet_pace_drain half = {.recorded = (512 << 10) / 24 / 2};
	struct limpet_pace_drain much = {.recorded = (512 << 10) / 24 * 100};

	(void)state;
	limpet_pace_note(&pace, &some, SECOND);
	assert_int_equal(pace.wait_ns, 25 * MS);
	limpet_pace_note(&pace, &half, SECOND + 5 * MS);
	assert_in_range(pace.wait_ns, 10 * MS, 10 * MS + MS / 10);
	limpet_pace_note(&pace, &much, SECOND + 10 * MS);
	assert_int_equal(pace.wait_ns, MS / 2);
	limpet_pace_note(&pace, &nothing, SECOND + 11 * MS);
	assert_int_equal(pace.wait_ns, 500 * MS);
	limpet_pace_note(&pace, &nothing, 4 * SECOND);
	assert_int_equal(pace.wait_ns, SECOND);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_nap),
		cmocka_unit_test(test_no_nap),
		cmocka_unit_test(test_little_memory),
		cmocka_unit_test(test_burst_after_a_nap),
		cmocka_unit_test(test_burst_without_end),
		cmocka_unit_test(test_a_call_ends_a_nap),
		cmocka_unit_test(test_interrupt),
		cmocka_unit_test(test_wait_for_room),
		cmocka_unit_test(test_samples_are_not_waited_for),
		cmocka_unit_test(test_load),
		cmocka_unit_test(test_load_of_several_drains),
		cmocka_unit_test(test_load_that_comes_back),
		cmocka_unit_test(test_wait),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
