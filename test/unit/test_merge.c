/* Many streams into one order, against what is known of each stream. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "collector/merge.h"

static uint64_t random_state = 88172645463325252ull;

static uint64_t random_below(uint64_t limit)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return random_state % limit;
}

/* A record that says where it came from: thread is the stream, address its number there. */
static void add(struct limpet_merge *merge, uint32_t stream, uint64_t number, uint64_t time_ns)
{
	const struct limpet_record record = {.time_ns = time_ns,
					     .address = number,
					     .size = ~time_ns,
					     .node = (uint32_t)number ^ stream,
					     .thread = stream,
					     .kind = 1};

	struct limpet_record *room = limpet_merge_want(merge, stream, 1);

	assert_non_null(room);
	*room = record;
	limpet_merge_added(merge, stream, 1);
}

static size_t take_some(struct limpet_merge *merge, uint64_t until, struct limpet_record *ret,
			size_t max)
{
	struct limpet_record *records = NULL;
	size_t count = limpet_merge_take(merge, until, max, &records);

	/* To be changed at will: what is taken later is not touched by it. */
	for (size_t i = 0; i < count; i++) {
		ret[i] = records[i];
		memset(&records[i], 0xee, sizeof(records[i]));
	}
	return count;
}

static void assert_whole(const struct limpet_record *record)
{
	assert_int_equal(record->size, ~record->time_ns);
	assert_int_equal(record->node, (uint32_t)record->address ^ record->thread);
	assert_int_equal(record->kind, 1);
}

static void test_empty(void **state)
{
	struct limpet_record record = {.address = 77};
	struct limpet_merge *merge;

	(void)state;
	assert_int_equal(limpet_merge_new(3, &merge), 0);
	assert_int_equal(take_some(merge, UINT64_MAX, &record, 1), 0);
	assert_int_equal(record.address, 77);
	assert_int_equal(limpet_merge_waiting(merge, 2), 0);
	add(merge, 1, 0, 10);
	assert_int_equal(take_some(merge, UINT64_MAX, &record, 0), 0);
	assert_int_equal(limpet_merge_waiting(merge, 1), 1);
	limpet_merge_free(merge);
	limpet_merge_free(NULL);
}

static void test_until_and_max_bound_what_is_taken(void **state)
{
	struct limpet_record records[8];
	struct limpet_merge *merge;

	(void)state;
	assert_int_equal(limpet_merge_new(2, &merge), 0);
	for (uint64_t i = 0; i < 6; i++)
		add(merge, i % 2, i, 10 * i);
	assert_int_equal(take_some(merge, 30, records, 2), 2);
	assert_int_equal(records[0].time_ns, 0);
	assert_int_equal(records[1].time_ns, 10);
	/* The bound itself is included, what lies behind it waits. */
	assert_int_equal(take_some(merge, 30, records, 8), 2);
	assert_int_equal(records[0].time_ns, 20);
	assert_int_equal(records[1].time_ns, 30);
	assert_int_equal(take_some(merge, 39, records, 8), 0);
	assert_int_equal(limpet_merge_waiting(merge, 0) + limpet_merge_waiting(merge, 1), 2);
	assert_int_equal(take_some(merge, UINT64_MAX, records, 8), 2);
	assert_int_equal(records[1].time_ns, 50);
	assert_int_equal(take_some(merge, UINT64_MAX, records, 8), 0);
	limpet_merge_free(merge);
}

/* Equal stamps come out once each, and those of one stream in its own order. */
static void test_ties(void **state)
{
	struct limpet_record records[64];
	uint64_t next[4] = {0};
	struct limpet_merge *merge;

	(void)state;
	assert_int_equal(limpet_merge_new(4, &merge), 0);
	for (uint64_t i = 0; i < 64; i++)
		add(merge, i % 4, i / 4, 5);
	assert_int_equal(take_some(merge, 5, records, 64), 64);
	for (int i = 0; i < 64; i++) {
		assert_true(records[i].thread < 4);
		assert_int_equal(records[i].address, next[records[i].thread]++);
	}
	limpet_merge_free(merge);
}

#define STREAMS 37u
#define BATCH 512u

struct feed {
	uint64_t added[STREAMS], taken[STREAMS];
	uint64_t clock[STREAMS]; /* time of the stream's last record */
	uint64_t last;           /* time of the last record taken */
};

/* Everything up to `until`, in pieces of odd lengths; checked against the streams. */
static uint64_t take(struct limpet_merge *merge, struct feed *feed, uint64_t until)
{
	struct limpet_record records[BATCH];
	uint64_t total = 0;

	for (;;) {
		size_t max = 1 + random_below(BATCH), count;

		count = take_some(merge, until, records, max);
		assert_true(count <= max);
		for (size_t i = 0; i < count; i++) {
			const struct limpet_record *record = &records[i];

			assert_whole(record);
			assert_true(record->thread < STREAMS);
			assert_true(record->time_ns >= feed->last);
			assert_true(record->time_ns <= until);
			assert_int_equal(record->address, feed->taken[record->thread]);
			feed->taken[record->thread]++;
			feed->last = record->time_ns;
		}
		total += count;
		if (!count)
			return total;
	}
}

/* As the collector uses it: streams of very different speeds, read in bursts, and after each round
 * what is certain to be in order is taken. */
static void test_many_streams_in_rounds(void **state)
{
	static struct feed feed;
	struct limpet_merge *merge;
	uint64_t added = 0, taken = 0, until = 0;

	(void)state;
	memset(&feed, 0, sizeof(feed));
	assert_int_equal(limpet_merge_new(STREAMS, &merge), 0);
	for (int round = 0; round < 200; round++) {
		uint64_t horizon = until + 5000;

		for (uint32_t s = 0; s < STREAMS; s++) {
			/* Some streams sleep, some write nearly everything. */
			uint64_t step = 1 + (s % 7 ? random_below(40) : random_below(5000));

			if (s % 11 == (unsigned)round % 11)
				continue;
			/* What comes from now on is later than what was certain. */
			if (feed.clock[s] <= until)
				feed.clock[s] = until + 1;
			while (feed.clock[s] < horizon + 3000) {
				add(merge, s, feed.added[s]++, feed.clock[s]);
				added++;
				feed.clock[s] += random_below(step + 1);
				if (random_below(20) == 0)
					break;
			}
		}
		until = horizon;
		taken += take(merge, &feed, until);
		for (uint32_t s = 0; s < STREAMS; s++)
			assert_int_equal(limpet_merge_waiting(merge, s),
					 feed.added[s] - feed.taken[s]);
	}
	taken += take(merge, &feed, UINT64_MAX);
	assert_int_equal(taken, added);
	assert_true(added > 20000);
	for (uint32_t s = 0; s < STREAMS; s++) {
		assert_int_equal(feed.taken[s], feed.added[s]);
		assert_int_equal(limpet_merge_waiting(merge, s), 0);
	}
	limpet_merge_free(merge);
}

/* A stream that is never quite emptied: room at its front is used again, and it grows. */
static void test_growth(void **state)
{
	struct limpet_record records[1000];
	uint64_t added = 0, taken = 0;
	struct limpet_merge *merge;

	(void)state;
	assert_int_equal(limpet_merge_new(1, &merge), 0);
	for (int round = 0; round < 400; round++) {
		uint64_t more = 100 + random_below(round < 200 ? 900 : 300);
		size_t count;

		for (uint64_t i = 0; i < more; i++, added++)
			add(merge, 0, added, added);
		count = take_some(merge, added - 2, records, 1 + random_below(500));
		for (size_t i = 0; i < count; i++) {
			assert_whole(&records[i]);
			assert_int_equal(records[i].address, taken++);
		}
		assert_int_equal(limpet_merge_waiting(merge, 0), added - taken);
	}
	assert_true(added - taken > 10000);
	while (taken < added) {
		size_t count = take_some(merge, UINT64_MAX, records, 1000);

		assert_true(count > 0);
		for (size_t i = 0; i < count; i++)
			assert_int_equal(records[i].address, taken++);
	}
	limpet_merge_free(merge);
}

/* A signal handler's records may stand before older ones of their own stream. Whatever comes of
 * their place, none is lost or doubled, and the other streams keep their order. */
static void test_inversions_lose_nothing(void **state)
{
	struct limpet_record records[256];
	struct limpet_merge *merge;
	uint64_t next[3] = {0}, last[3] = {0}, total = 0;
	unsigned inversions = 0;

	(void)state;
	assert_int_equal(limpet_merge_new(3, &merge), 0);
	for (uint64_t i = 0; i < 3000; i++) {
		for (uint32_t s = 0; s < 3; s++) {
			/* In stream 1 each tenth pair is swapped. */
			uint64_t time = i * 30 + s;

			if (s == 1 && i % 20 == 10)
				time += 40;
			add(merge, s, i, time);
		}
		if (i % 16)
			continue;
		for (;;) {
			size_t count =
				take_some(merge, i * 30 > 900 ? i * 30 - 900 : 0, records, 256);

			for (size_t k = 0; k < count; k++) {
				uint32_t s = records[k].thread;

				assert_int_equal(records[k].address, next[s]++);
				if (s != 1)
					assert_true(records[k].time_ns >= last[s]);
				inversions += s == 1 && records[k].time_ns < last[s];
				last[s] = records[k].time_ns;
			}
			total += count;
			if (!count)
				break;
		}
	}
	assert_true(inversions > 100);
	total += limpet_merge_waiting(merge, 0) + limpet_merge_waiting(merge, 1) +
		 limpet_merge_waiting(merge, 2);
	assert_int_equal(total, 9000);
	limpet_merge_free(merge);
}

/* One record out of place moves nobody else's: the rest of the result stays sorted. */
static void test_one_inversion_stays_alone(void **state)
{
	struct limpet_record records[16];
	struct limpet_merge *merge;
	uint64_t last = 0;
	size_t count;

	(void)state;
	assert_int_equal(limpet_merge_new(2, &merge), 0);
	add(merge, 0, 0, 10);
	add(merge, 0, 1, 50);
	add(merge, 0, 2, 40); /* older than the one before it */
	add(merge, 0, 3, 60);
	for (uint64_t i = 0; i < 8; i++)
		add(merge, 1, i, 5 + i * 10);
	count = take_some(merge, UINT64_MAX, records, 16);
	assert_int_equal(count, 12);
	for (size_t i = 0; i < count; i++) {
		if (records[i].thread == 0 && records[i].address == 2)
			continue;
		assert_true(records[i].time_ns >= last);
		last = records[i].time_ns;
	}
	limpet_merge_free(merge);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_empty),
		cmocka_unit_test(test_until_and_max_bound_what_is_taken),
		cmocka_unit_test(test_ties),
		cmocka_unit_test(test_many_streams_in_rounds),
		cmocka_unit_test(test_growth),
		cmocka_unit_test(test_inversions_lose_nothing),
		cmocka_unit_test(test_one_inversion_stays_alone),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
