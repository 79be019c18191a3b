/* The agent's table of sampled blocks: what was entered is found once, nothing else is, also while
 * many threads hand blocks to each other; and what does not fit is counted. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "agent/sampled.h"
#include "common/err.h"
#include "injector/remote/segment.h"
#include "test/unit/agent_fixture.h"

#define PERIOD (512u << 10)

static const struct limpet_sampling sampling = {.bytes = PERIOD};
static struct limpet_segment segment;
static struct agent_fixture fixture;

static void begin(uint64_t memory_bytes)
{
	assert_int_equal(limpet_segment_create(memory_bytes, 0, &sampling, &segment, NULL), 0);
	segment.shm->sample_seed = 4711; /* the same draws each time */
	agent_fixture_begin(&fixture, 0, &segment);
}

static void end(void)
{
	agent_fixture_end(&fixture);
	limpet_segment_done(&segment);
}

static uint32_t counters(void)
{
	return 1u << (64 - limpet_shm->layout.sample_filter_shift);
}

static uint64_t counted(void)
{
	const uint8_t *filter = limpet_shm_at(limpet_shm->layout.sample_filter_offset);
	uint64_t sum = 0;

	for (uint32_t i = 0; i < counters(); i++)
		sum += filter[i];
	return sum;
}

static uint64_t entries(void)
{
	const uint64_t *table = limpet_shm_at(limpet_shm->layout.sample_table_offset);
	uint64_t count = 0;

	for (uint32_t i = 0; i < limpet_shm->layout.sample_table_count; i++)
		count += table[i] != 0;
	return count;
}

/* As allocators hand them out: near each other, and now and then a mapping of its own. */
static uint64_t block(uint64_t number)
{
	if (number % 16 == 15)
		return 0x7f0000000010 + number * 0x41000;
	return 0x5500000002a0 + number * 64;
}

static void test_layout(void **state)
{
	static const uint64_t sizes[] = {8u << 20, 64u << 20, 1000000000};

	(void)state;
	for (size_t i = 0; i < LIMPET_COUNT_OF(sizes); i++) {
		struct limpet_segment without;

		assert_int_equal(limpet_segment_create(sizes[i], 0, NULL, &without, NULL), 0);
		assert_int_equal(without.shm->sample_bytes, 0);
		begin(sizes[i]);
		assert_int_equal(limpet_shm->sample_bytes, PERIOD);
		assert_true(counters() >= limpet_shm->layout.sample_table_count / 8);
		assert_int_equal(limpet_shm->layout.sample_table_offset % 64, 0);
		assert_true(limpet_shm->layout.sample_table_offset +
				    8ull * limpet_shm->layout.sample_table_count <=
			    limpet_shm->layout.sample_filter_offset);
		assert_true(limpet_shm->layout.sample_filter_offset + counters() <=
			    limpet_shm->layout.chunks_offset);
		/* The table takes the place of chunks; of small memory these are groups. */
		assert_true(segment.shm_bytes <= without.shm_bytes + sizes[i] / 14);
		assert_true(segment.shm_bytes <= without.shm_bytes + sizes[i] / 512 ||
			    sizes[i] < 64u << 20);
		end();
		limpet_segment_done(&without);
	}
}

static void test_enter_and_take_out(void **state)
{
	const uint64_t count = 20000;

	(void)state;
	begin(64u << 20);
	for (uint64_t i = 0; i < count; i++) {
		assert_false(limpet_sample_remove(block(i)));
		assert_true(limpet_sample_enter(block(i)));
		assert_true(limpet_sample_may_know(block(i)));
	}
	assert_int_equal(entries(), count);
	for (uint64_t i = count; i < 2 * count; i++)
		assert_false(limpet_sample_remove(block(i)));
	for (uint64_t i = 0; i < count; i++) {
		assert_true(limpet_sample_remove(block(i)));
		assert_false(limpet_sample_remove(block(i)));
	}
	assert_int_equal(entries(), 0);
	assert_int_equal(counted(), 0);
	assert_int_equal(limpet_shm->lost_no_sample, 0);
	end();
}

/* A block whose free was not seen is handed out anew: one entry, and one free takes it out. */
static void test_free_not_seen(void **state)
{
	(void)state;
	begin(8u << 20);
	assert_true(limpet_sample_enter(block(1)));
	assert_true(limpet_sample_enter(block(1)));
	assert_int_equal(entries(), 1);
	assert_int_equal(counted(), 1);
	assert_true(limpet_sample_remove(block(1)));
	assert_false(limpet_sample_remove(block(1)));
	assert_int_equal(counted(), 0);
	end();
}

static void test_filter(void **state)
{
	const uint64_t count = 1000, others = 100000;
	uint64_t passed = 0;

	(void)state;
	begin(64u << 20);
	for (uint64_t i = 0; i < count; i++)
		assert_true(limpet_sample_enter(block(i)));
	for (uint64_t i = count; i < count + others; i++)
		passed += limpet_sample_may_know(block(i));
	/* a thousand counters of 65536 are taken */
	assert_true(passed < others / 20);
	end();
}

static void test_full(void **state)
{
	uint64_t fit = 0, tried, taken_out = 0;

	(void)state;
	begin(8u << 20);
	tried = 2ull * limpet_shm->layout.sample_table_count;
	for (uint64_t i = 0; i < tried; i++)
		fit += limpet_sample_enter(block(i));
	assert_int_equal(limpet_shm->lost_no_sample, tried - fit);
	assert_int_equal(entries(), fit);
	/* Two buckets to choose from fill the table well before one finds no room... */
	assert_true(fit > limpet_shm->layout.sample_table_count / 10 * 9);
	for (uint64_t i = 0; i < tried; i++)
		taken_out += limpet_sample_remove(block(i));
	/* ...and nothing is forgotten. */
	assert_int_equal(taken_out, fit);
	assert_int_equal(entries(), 0);
	assert_int_equal(counted(), 0);
	end();
}

/* A counter that was full once passes for good: it no longer knows how many it stands for. */
static void test_counter_full(void **state)
{
	uint8_t *filter;

	(void)state;
	begin(8u << 20);
	filter = limpet_shm_at(limpet_shm->layout.sample_filter_offset);
	assert_true(limpet_sample_enter(block(3)));
	memset(filter, UINT8_MAX, counters());
	assert_true(limpet_sample_enter(block(4)));
	assert_true(limpet_sample_remove(block(4)));
	assert_true(limpet_sample_remove(block(3)));
	assert_int_equal(counted(), 255ull * counters());
	assert_false(limpet_sample_remove(block(3)));
	end();
}

/* ------------------------------------------------------------------ threads */

#define THREADS 4u
#define PASSES 3u
#define BLOCKS 4000u

/* Each thread enters blocks and passes them on; whoever gets one takes it out. */
struct queue {
	pthread_mutex_t lock;
	uint64_t blocks[BLOCKS];
	unsigned count;
};
static struct queue queues[THREADS] = {[0 ... THREADS - 1] = {.lock = PTHREAD_MUTEX_INITIALIZER}};
static uint64_t misses;

static bool put(struct queue *queue, uint64_t address)
{
	bool room;

	pthread_mutex_lock(&queue->lock);
	room = queue->count < BLOCKS;
	if (room)
		queue->blocks[queue->count++] = address;
	pthread_mutex_unlock(&queue->lock);
	return room;
}

static uint64_t get(struct queue *queue)
{
	uint64_t address = 0;

	pthread_mutex_lock(&queue->lock);
	if (queue->count)
		address = queue->blocks[--queue->count];
	pthread_mutex_unlock(&queue->lock);
	return address;
}

static void *hand_on(void *data)
{
	unsigned self = (unsigned)(uintptr_t)data;
	uint64_t first = (uint64_t)self * BLOCKS * PASSES, left = PASSES * BLOCKS, done = 0;
	bool waits = false;

	while (done < PASSES * BLOCKS || left) {
		uint64_t address;

		if (done < PASSES * BLOCKS) {
			/* one that is not there is asked for as well */
			if (!waits && (limpet_sample_remove(block(first + done)) ||
				       !limpet_sample_enter(block(first + done))))
				__atomic_fetch_add(&misses, 1, __ATOMIC_RELAXED);
			waits = !put(&queues[(self + 1) % THREADS], block(first + done));
			done += !waits;
		}
		address = get(&queues[self]);
		if (!address)
			continue;
		left--;
		if (!limpet_sample_remove(address))
			__atomic_fetch_add(&misses, 1, __ATOMIC_RELAXED);
	}
	return NULL;
}

static void test_threads(void **state)
{
	pthread_t threads[THREADS];

	(void)state;
	begin(8u << 20);
	misses = 0;
	for (unsigned i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, hand_on, (void *)(uintptr_t)i),
				 0);
	for (unsigned i = 0; i < THREADS; i++)
		assert_int_equal(pthread_join(threads[i], NULL), 0);
	assert_int_equal(misses, 0);
	assert_int_equal(entries(), 0);
	assert_int_equal(counted(), 0);
	assert_int_equal(limpet_shm->lost_no_sample, 0);
	end();
}

/* ------------------------------------------------------------------ the decision */

static void test_wants(void **state)
{
	const uint64_t calls = 200000, size = 4096 - LIMPET_SAMPLE_EXTRA_BYTES;
	struct limpet_thread *threads;
	uint64_t taken[2] = {0};

	(void)state;
	begin(8u << 20);
	threads = limpet_shm_at(limpet_shm->layout.threads_offset);
	for (uint64_t i = 0; i < calls; i++)
		for (unsigned k = 0; k < 2; k++)
			taken[k] += limpet_sample_selects(&threads[k], size, PERIOD);
	/* 1,556 on the average; 6 standard deviations */
	for (unsigned k = 0; k < 2; k++)
		assert_true(taken[k] > 1556 - 240 && taken[k] < 1556 + 240);
	/* Threads draw sequences of their own. */
	assert_true(limpet_own(&threads[0])->sample.left != limpet_own(&threads[1])->sample.left);
	end();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_layout),        cmocka_unit_test(test_enter_and_take_out),
		cmocka_unit_test(test_free_not_seen), cmocka_unit_test(test_filter),
		cmocka_unit_test(test_full),          cmocka_unit_test(test_counter_full),
		cmocka_unit_test(test_threads),       cmocka_unit_test(test_wants),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
