/* Records come out in the order of their counters' numbers, each once, whatever the order in which
 * they are put in. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "collector/stream/reorder.h"
#include "common/wire.h"

#define COUNTERS 5u
#define PER_COUNTER 4000u
#define FIRST (UINT32_MAX - 1000u) /* numbers wrap around on the way */

static struct {
	struct limpet_reorder *reorder;
	uint64_t got[COUNTERS]; /* of each counter, so far */
	uint64_t count;
	uint64_t last[COUNTERS]; /* place of the last one in the counter's order */
	bool ordered;
	uint64_t expected; /* bitmap of counters that somebody has an intent for */
} it;

/* A record of that place in its counter's order. */
static struct limpet_record record_of(uint32_t counter, uint64_t place)
{
	return (struct limpet_record){.address = place, .thread = counter};
}

void __wrap_limpet_event_describer_add(struct limpet_event_describer *describer,
				       struct limpet_record *records, size_t count);
void __wrap_limpet_event_describer_add(struct limpet_event_describer *describer,
				       struct limpet_record *records, size_t count)
{
	(void)describer;
	assert_in_range(count, 1, LIMPET_REORDER_BATCH);
	for (size_t i = 0; i < count; i++) {
		uint32_t counter = records[i].thread;

		it.ordered &= !it.got[counter] || records[i].address > it.last[counter];
		it.last[counter] = records[i].address;
		it.got[counter]++;
		it.count++;
	}
}

static int begin(void **state)
{
	(void)state;
	memset(&it, 0, sizeof(it));
	it.ordered = true;
	it.reorder = limpet_reorder_new(NULL);
	return it.reorder ? 0 : -1;
}

static int end(void **state)
{
	(void)state;
	limpet_reorder_free(it.reorder);
	return 0;
}

static void put_record(uint32_t counter, uint32_t number, struct limpet_record record)
{
	const struct limpet_numbered numbered = {record, counter, number};

	limpet_reorder_add(it.reorder, &numbered, 1);
}

static void put(uint32_t counter, uint32_t number)
{
	put_record(counter, number, record_of(counter, number));
	limpet_reorder_flush(it.reorder);
}

static void look_and_close(uint64_t now_ns)
{
	limpet_reorder_check_gaps(it.reorder, &it.expected, now_ns);
	limpet_reorder_close(it.reorder, true, now_ns);
	limpet_reorder_flush(it.reorder);
}

static void test_in_order(void **state)
{
	(void)state;
	for (uint32_t i = 0; i < 2000; i++)
		put(i % COUNTERS, i / COUNTERS);
	assert_int_equal(it.count, 2000);
	assert_true(it.ordered);
	assert_int_equal(limpet_reorder_kept(it.reorder), 0);
	assert_int_equal(limpet_reorder_late(it.reorder), 0);
}

static void test_others_are_not_held_up(void **state)
{
	(void)state;
	put(0, 1);
	put(0, 3);
	put(0, 2);
	put(1, 0);
	put(1, 1);
	assert_int_equal(it.got[0], 0);
	assert_int_equal(it.got[1], 2);
	assert_int_equal(limpet_reorder_kept(it.reorder), 3);
	put(0, 0);
	assert_int_equal(it.got[0], 4);
	assert_true(it.ordered);
	assert_int_equal(limpet_reorder_kept(it.reorder), 0);
}

struct item {
	uint32_t counter, place;
	uint64_t key;
};

static int by_key(const void *a, const void *b)
{
	const struct item *x = a, *y = b;

	return x->key < y->key ? -1 : x->key > y->key;
}

static uint64_t random_word(void)
{
	static uint64_t random = 88172645463325252ull;

	random ^= random << 13;
	random ^= random >> 7;
	random ^= random << 17;
	return random;
}

/* `spread`: how far records are moved from their places. Of seven numbers the first was taken in
 * vain, and the fourth and fifth are those of one record. */
static void put_shuffled(uint64_t spread)
{
	struct item *items = calloc(COUNTERS * PER_COUNTER, sizeof(*items));
	uint64_t records = 0;

	assert_non_null(items);
	for (uint32_t i = 0; i < COUNTERS * PER_COUNTER; i++)
		items[i] = (struct item){.counter = i % COUNTERS,
					 .place = i / COUNTERS,
					 .key = i + random_word() % spread};
	qsort(items, COUNTERS * PER_COUNTER, sizeof(*items), by_key);
	for (uint32_t i = 0; i < COUNTERS * PER_COUNTER; i++) {
		struct limpet_record record = record_of(items[i].counter, items[i].place);
		const bool is_void = items[i].place % 7 == 0;

		record.freed = items[i].place % 7 == 3 && items[i].place + 1 < PER_COUNTER;
		if (is_void)
			record.kind = LIMPET_EVENT_VOID;
		if (items[i].place % 7 == 4)
			continue;
		put_record(items[i].counter, items[i].place, record);
		records += !is_void;
	}
	limpet_reorder_flush(it.reorder);
	assert_int_equal(it.count, records);
	assert_true(it.ordered);
	assert_int_equal(limpet_reorder_kept(it.reorder), 0);
	assert_int_equal(limpet_reorder_late(it.reorder), 0);
	free(items);
}

static void test_a_little_out_of_order(void **state)
{
	(void)state;
	put_shuffled(500);
}

static void test_at_random(void **state)
{
	(void)state;
	put_shuffled((uint64_t)COUNTERS * PER_COUNTER);
}

static void test_backwards(void **state)
{
	(void)state;
	for (uint32_t number = PER_COUNTER; number-- > 0;)
		put(0, number);
	assert_int_equal(it.count, PER_COUNTER);
	assert_true(it.ordered);
}

static void test_numbers_wrap_around(void **state)
{
	uint64_t place = 1;

	(void)state;
	put_record(0, UINT32_MAX / 2, (struct limpet_record){.address = 0});
	limpet_reorder_close_all(it.reorder);
	put_record(0, FIRST, (struct limpet_record){.address = place++});
	limpet_reorder_close_all(it.reorder);
	for (uint32_t i = 1; i <= 2000; i += 2, place += 2) {
		put_record(0, FIRST + i + 1, (struct limpet_record){.address = place + 1});
		put_record(0, FIRST + i, (struct limpet_record){.address = place});
	}
	limpet_reorder_flush(it.reorder);
	assert_int_equal(it.count, 2002);
	assert_true(it.ordered);
	assert_int_equal(limpet_reorder_late(it.reorder), 0);
}

static void test_a_gap_that_nobody_fills(void **state)
{
	(void)state;
	put(0, 1);
	put(0, 4);
	look_and_close(1);
	assert_int_equal(it.got[0], 1);
	/* What lies behind it is another gap, which has not been looked at. */
	limpet_reorder_close(it.reorder, true, 2);
	assert_int_equal(it.got[0], 1);
	look_and_close(3);
	assert_int_equal(it.got[0], 2);
	assert_int_equal(limpet_reorder_kept(it.reorder), 0);
	/* One that came after all is passed on, and counted. */
	put(0, 0);
	assert_int_equal(it.got[0], 3);
	assert_int_equal(limpet_reorder_late(it.reorder), 1);
	put(0, 5);
	assert_int_equal(it.got[0], 4);
	assert_int_equal(limpet_reorder_late(it.reorder), 1);
}

static void test_a_gap_that_somebody_will_fill(void **state)
{
	(void)state;
	it.expected = 1;
	put(0, 1);
	put(1, 1);
	look_and_close(1);
	assert_int_equal(it.got[0], 0);
	assert_int_equal(it.got[1], 1);
	look_and_close(1 + LIMPET_REORDER_PATIENCE_NS);
	assert_int_equal(it.got[0], 0);
	look_and_close(2 + LIMPET_REORDER_PATIENCE_NS);
	assert_int_equal(it.got[0], 1);
}

/* Not all that was published at the look has been read. */
static void test_a_gap_that_may_be_among_the_unread(void **state)
{
	(void)state;
	put(0, 1);
	limpet_reorder_check_gaps(it.reorder, &it.expected, 1);
	limpet_reorder_close(it.reorder, false, 1);
	limpet_reorder_flush(it.reorder);
	assert_int_equal(it.got[0], 0);
	put(0, 0);
	assert_int_equal(it.got[0], 2);
	/* One that has moved on since the look. */
	put(0, 3);
	limpet_reorder_check_gaps(it.reorder, &it.expected, 2);
	put(0, 2);
	put(0, 5);
	limpet_reorder_close(it.reorder, true, 2);
	limpet_reorder_flush(it.reorder);
	assert_int_equal(it.got[0], 4);
	put(0, 4);
	assert_int_equal(it.got[0], 6);
	assert_true(it.ordered);
	assert_int_equal(limpet_reorder_late(it.reorder), 0);
}

static void test_no_more_than_so_many_are_kept(void **state)
{
	(void)state;
	limpet_reorder_set_most(it.reorder, 10);
	for (uint32_t i = 1; i <= 10; i++)
		put(i % 3, 2 * i);
	assert_int_equal(it.count, 0);
	put(4, 7);
	assert_int_equal(it.count, 11);
	assert_int_equal(limpet_reorder_kept(it.reorder), 0);
	assert_true(it.ordered);
}

/* A hostile program writes what it likes: it takes no time to speak of, and all comes out. */
static void test_numbers_of_noise(void **state)
{
	const uint32_t count = 200000;

	(void)state;
	for (uint32_t i = 0; i < count; i++)
		put_record(0, (uint32_t)random_word(), record_of(0, i));
	limpet_reorder_close_all(it.reorder);
	limpet_reorder_flush(it.reorder);
	assert_int_equal(it.count, count);
}

/* A record may be kept beyond the pass in which it was read, but not beyond the next one. */
static void test_a_pass_ends_without_older_records(void **state)
{
	(void)state;
	assert_true(limpet_reorder_end_pass(it.reorder));
	put(1, 1);
	assert_int_equal(limpet_reorder_kept(it.reorder), 1);
	assert_true(limpet_reorder_end_pass(it.reorder));
	assert_false(limpet_reorder_end_pass(it.reorder));
	put(2, 1);
	assert_false(limpet_reorder_end_pass(it.reorder));
	put(1, 0);
	assert_int_equal(it.got[1], 2);
	assert_true(limpet_reorder_end_pass(it.reorder));
	assert_false(limpet_reorder_end_pass(it.reorder));
	limpet_reorder_close_all(it.reorder);
	assert_true(limpet_reorder_end_pass(it.reorder));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_in_order),
		TEST(test_others_are_not_held_up),
		TEST(test_a_little_out_of_order),
		TEST(test_at_random),
		TEST(test_backwards),
		TEST(test_numbers_wrap_around),
		TEST(test_a_gap_that_nobody_fills),
		TEST(test_a_gap_that_somebody_will_fill),
		TEST(test_a_gap_that_may_be_among_the_unread),
		TEST(test_no_more_than_so_many_are_kept),
		TEST(test_numbers_of_noise),
		TEST(test_a_pass_ends_without_older_records),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
