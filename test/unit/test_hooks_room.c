/* Chunks for the records of hooks: one after the other, and none left. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/err.h"
#include "test/unit/hooks_fixture.h"

static void test_chunks_follow_each_other(void **state)
{
	const size_t chunks = 80, total = chunks * RECORDS_PER_CHUNK + 5;
	LIMPET_FREE struct fixture_record *records = NULL;
	size_t count;

	(void)state;
	for (size_t i = 0; i < total; i++)
		FIXTURE_CALL(&stack, FIXTURE_FREE_UNSIZED, 0, BLOCK_A + i * 16);
	count = own_records(&records);
	assert_int_equal(count, total);
	for (size_t i = 0; i < total; i++) {
		assert_int_equal(records[i].address, BLOCK_A + i * 16);
		assert_int_equal(records[i].sequence, i / RECORDS_PER_CHUNK);
	}
	assert_int_equal(own_thread()->dropped, 0);
	/* The bell rang for the claim, and for each full chunk. */
	assert_int_equal(fixture.shm->bell, 1 + chunks);
}

/* Records of 24 and 32 bytes: one that does not fit begins the next chunk, and none is split. */
static void test_records_are_never_split(void **state)
{
	LIMPET_FREE struct fixture_record *records = NULL;
	const size_t total = 9000;
	uint64_t random = 1;

	(void)state;
	for (size_t i = 0; i < total; i++) {
		random = random * 6364136223846793005ull + 1442695040888963407ull;
		FIXTURE_CALL(&stack, FIXTURE_MALLOC, BLOCK_A + i,
			     random >> 63 ? (1ull << 40) + i : i);
	}
	assert_int_equal(own_records(&records), total);
	random = 1;
	for (size_t i = 0; i < total; i++) {
		random = random * 6364136223846793005ull + 1442695040888963407ull;
		assert_int_equal(records[i].address, BLOCK_A + i);
		assert_int_equal(records[i].size, random >> 63 ? (1ull << 40) + i : i);
		assert_int_equal(records[i].node, records[0].node);
	}
}

static uint32_t free_chunks(void)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < fixture.shm->layout.chunk_count / 64; i++)
		count += (uint32_t)__builtin_popcountll(fixture_chunk_map(&fixture)[i]);
	return count;
}

static void test_what_does_not_fit_is_counted(void **state)
{
	const uint32_t chunks = free_chunks();
	LIMPET_FREE struct fixture_record *records = NULL;
	const size_t fits = chunks * RECORDS_PER_CHUNK;
	size_t count;

	(void)state;
	/* Two windows of them, in which one is not used. */
	assert_true(chunks < fixture.shm->layout.chunk_count);
	for (size_t i = 0; i < fits + 700; i++)
		assert_true(FIXTURE_CALL(&stack, FIXTURE_FREE_UNSIZED, 0, BLOCK_A + i));
	assert_int_equal(free_chunks(), 0);
	assert_int_equal(own_thread()->dropped, 700);
	assert_int_equal(fixture.shm->drops[LIMPET_EVENT_FREE].count, 700);
	assert_int_equal(fixture.shm->drops[LIMPET_EVENT_FREE].unsized, 700);
	assert_int_equal(fixture.shm->drops[LIMPET_EVENT_FREE].bytes, 0);
	assert_int_equal(own_records(&records), fits);
	assert_int_equal(records[fits - 1].address, BLOCK_A + fits - 1);
	assert_outside(own_thread());

	/* A chunk was read and comes back: recording goes on, and says what was lost before. */
	give_chunk(own_thread()->first_chunk);
	own_thread()->first_chunk = fixture_chunk(&fixture, own_thread()->first_chunk)->next;
	FIXTURE_CALL(&stack, FIXTURE_MALLOC, BLOCK_B, 8);
	free(LIMPET_TAKE(records));
	count = own_records(&records);
	assert_int_equal(count, fits - RECORDS_PER_CHUNK + 1);
	assert_int_equal(records[count - 1].address, BLOCK_B);
	assert_int_equal(records[count - 1].sequence, chunks);
	assert_int_equal(fixture_chunk(&fixture, own_private()->chunk)->lost_before, 700);
	assert_int_equal(own_thread()->dropped, 700);
}

/* A realloc whose second half finds no room: what is there is there, the rest is counted. */
static void test_half_a_realloc(void **state)
{
	LIMPET_FREE struct fixture_record *records = NULL;

	(void)state;
	for (size_t i = 0; i < RECORDS_PER_CHUNK - 1; i++)
		FIXTURE_CALL(&stack, FIXTURE_FREE_UNSIZED, 0, BLOCK_A + i);
	take_all_chunks();
	FIXTURE_CALL(&stack, FIXTURE_REALLOC, BLOCK_B, BLOCK_A, 33);
	assert_int_equal(own_records(&records), RECORDS_PER_CHUNK);
	assert_int_equal(records[RECORDS_PER_CHUNK - 1].type, LIMPET_EVENT_FREE);
	assert_int_equal(records[RECORDS_PER_CHUNK - 1].address, BLOCK_A);
	assert_int_equal(own_thread()->dropped, 1);
	assert_int_equal(fixture.shm->drops[LIMPET_EVENT_ALLOC].count, 1);
	assert_int_equal(fixture.shm->drops[LIMPET_EVENT_ALLOC].bytes, 33);
	assert_int_equal(fixture.shm->drops[LIMPET_EVENT_FREE].count, 0);
	assert_outside(own_thread());
}

/* ------------------------------------------------------------------ waiting for room */

struct waiter {
	pthread_t thread;
	uint32_t tid;
	bool done;
};

static void *wait_for_chunk(void *context)
{
	static struct fixture_stack its_stack;
	struct waiter *waiter = context;

	fixture_stack_build(&its_stack, plain_stack, LIMPET_COUNT_OF(plain_stack));
	__atomic_store_n(&waiter->tid, own_tid(), __ATOMIC_RELEASE);
	FIXTURE_CALL(&its_stack, FIXTURE_MALLOC, BLOCK_A, 44);
	__atomic_store_n(&waiter->done, true, __ATOMIC_RELEASE);
	return NULL;
}

/* From now on, until the waiting thread has rung several times over. */
static void see_it_starve(void)
{
	const unsigned enough = 5;
	uint32_t before = __atomic_load_n(&fixture.shm->bell, __ATOMIC_ACQUIRE);

	while (__atomic_load_n(&fixture.shm->bell, __ATOMIC_ACQUIRE) - before < enough)
		sched_yield();
}

static void test_a_full_thread_waits_for_room(void **state)
{
	LIMPET_FREE struct fixture_record *records = NULL;
	struct waiter waiter = {.done = false};
	uint32_t index;

	(void)state;
	fixture.shm->wait_turns = UINT64_MAX;
	take_all_chunks();
	assert_int_equal(pthread_create(&waiter.thread, NULL, wait_for_chunk, &waiter), 0);
	see_it_starve();
	assert_false(__atomic_load_n(&waiter.done, __ATOMIC_ACQUIRE));
	/* Being switched off does not end it: what has begun is recorded. */
	__atomic_store_n(&limpet_control->on, 0, __ATOMIC_RELEASE);
	see_it_starve();
	assert_false(__atomic_load_n(&waiter.done, __ATOMIC_ACQUIRE));
	give_chunk(7);
	pthread_join(waiter.thread, NULL);
	index = fixture_thread_of(&fixture, waiter.tid);
	assert_int_equal(fixture_records(&fixture, index, &records), 1);
	assert_int_equal(records[0].size, 44);
	assert_int_equal(fixture_thread(&fixture, index)->first_chunk, 7);
	assert_int_equal(fixture_thread(&fixture, index)->dropped, 0);
}

static void test_a_waiting_thread_is_freed_by_our_end(void **state)
{
	struct waiter waiter = {.done = false};

	(void)state;
	fixture.shm->wait_turns = UINT64_MAX;
	take_all_chunks();
	assert_int_equal(pthread_create(&waiter.thread, NULL, wait_for_chunk, &waiter), 0);
	see_it_starve();
	__atomic_store_n(&fixture.shm->collector, LIMPET_COLLECTOR_DIED, __ATOMIC_RELAXED);
	pthread_join(waiter.thread, NULL);
	assert_true(waiter.done);
	assert_int_equal(fixture_thread(&fixture, fixture_thread_of(&fixture, waiter.tid))->dropped,
			 1);
	assert_int_equal(limpet_control->on, 0);
}

/* What limpet waits for at the end is outside of hooks: nobody reads meanwhile. */
static void test_a_waiting_thread_is_freed_by_the_end_of_the_capture(void **state)
{
	struct waiter waiter = {.done = false};

	(void)state;
	fixture.shm->wait_turns = UINT64_MAX;
	take_all_chunks();
	assert_int_equal(pthread_create(&waiter.thread, NULL, wait_for_chunk, &waiter), 0);
	see_it_starve();
	__atomic_store_n(&fixture.shm->ended, 1, __ATOMIC_RELEASE);
	pthread_join(waiter.thread, NULL);
	assert_int_equal(fixture_thread(&fixture, fixture_thread_of(&fixture, waiter.tid))->dropped,
			 0);
	assert_int_equal(fixture.shm->drops[LIMPET_EVENT_ALLOC].count, 0);
	assert_int_equal(limpet_control->on, 0);
	assert_int_equal(limpet_control->alive, 1);
}

/* A thread records on in the chunk that it has, and then no more. */
static void test_the_end_of_the_capture_switches_off(void **state)
{
	LIMPET_FREE struct fixture_record *records = NULL;

	(void)state;
	FIXTURE_CALL(&stack, FIXTURE_FREE_UNSIZED, 0, BLOCK_A);
	__atomic_store_n(&fixture.shm->ended, 1, __ATOMIC_RELEASE);
	for (size_t i = 1; i < RECORDS_PER_CHUNK; i++)
		assert_true(FIXTURE_CALL(&stack, FIXTURE_FREE_UNSIZED, 0, BLOCK_A + i));
	assert_int_equal(limpet_control->on, 1);
	FIXTURE_CALL(&stack, FIXTURE_FREE_UNSIZED, 0, BLOCK_B);
	assert_int_equal(limpet_control->on, 0);
	assert_outside(own_thread());
	assert_false(FIXTURE_CALL(&stack, FIXTURE_FREE_UNSIZED, 0, BLOCK_B));
	assert_int_equal(own_records(&records), RECORDS_PER_CHUNK);
	assert_int_equal(own_thread()->dropped, 0);
}

/* A realloc that is under way at the end has not happened: the block is where it was, unless
 * another thread has got it before the end. */
static void test_a_realloc_across_the_end(void **state)
{
	static const uint64_t args[6] = {BLOCK_A, 33};
	LIMPET_FREE struct fixture_record *records = NULL;

	(void)state;
	for (size_t i = 0; i < RECORDS_PER_CHUNK; i++)
		FIXTURE_CALL(&stack, FIXTURE_FREE_UNSIZED, 0, BLOCK_A + i);
	fixture.shm->time = 7;
	assert_true(fixture_enter(&stack, FIXTURE_REALLOC, args));
	fixture.shm->time = 9;
	__atomic_store_n(&fixture.shm->ended, 1, __ATOMIC_RELEASE);
	/* Another thread has seen the end. */
	limpet_control->on = 0;
	fixture_exit(&stack, BLOCK_B);
	assert_int_equal(own_records(&records), RECORDS_PER_CHUNK + 1);
	assert_int_equal(records[RECORDS_PER_CHUNK].type,
			 LIMPET_EVENT_FREE | LIMPET_EVENT_IF_REUSED);
	assert_true(records[RECORDS_PER_CHUNK].realloc);
	assert_int_equal(records[RECORDS_PER_CHUNK].address, BLOCK_A);
	assert_int_equal(records[RECORDS_PER_CHUNK].time, 7);
	assert_int_equal(own_thread()->dropped, 0);

	/* In its place: nobody else can have got it. */
	limpet_control->on = 1;
	fixture.shm->time = 8;
	assert_true(fixture_enter(&stack, FIXTURE_REALLOC, args));
	fixture.shm->time = 9;
	fixture_exit(&stack, BLOCK_A);
	free(LIMPET_TAKE(records));
	assert_int_equal(own_records(&records), RECORDS_PER_CHUNK + 1);
	assert_int_equal(fixture_voids, 1);

	/* Only where there is no chunk at all it is lost; what began after the end never is. */
	take_all_chunks();
	limpet_control->on = 1;
	own_private()->at = own_private()->end;
	fixture.shm->time = 8;
	assert_true(fixture_enter(&stack, FIXTURE_REALLOC, args));
	fixture.shm->time = 9;
	fixture_exit(&stack, BLOCK_B);
	assert_int_equal(own_thread()->dropped, 1);
	limpet_control->on = 1;
	FIXTURE_CALL(&stack, FIXTURE_REALLOC, BLOCK_B, BLOCK_A, 33);
	assert_int_equal(own_thread()->dropped, 1);
	assert_outside(own_thread());
}

static void *realloc_for_chunk(void *context)
{
	static struct fixture_stack its_stack;
	struct waiter *waiter = context;

	fixture_stack_build(&its_stack, plain_stack, LIMPET_COUNT_OF(plain_stack));
	__atomic_store_n(&waiter->tid, own_tid(), __ATOMIC_RELEASE);
	FIXTURE_CALL(&its_stack, FIXTURE_REALLOC, BLOCK_B, BLOCK_A, 44);
	__atomic_store_n(&waiter->done, true, __ATOMIC_RELEASE);
	return NULL;
}

/* Both halves: the call has returned before the end. */
static void test_a_realloc_that_waits_for_room_at_the_end(void **state)
{
	LIMPET_FREE struct fixture_record *records = NULL;
	struct waiter waiter = {.done = false};
	uint32_t index;

	(void)state;
	fixture.shm->wait_turns = UINT64_MAX;
	fixture.shm->time = 7;
	take_all_chunks();
	assert_int_equal(pthread_create(&waiter.thread, NULL, realloc_for_chunk, &waiter), 0);
	see_it_starve();
	fixture.shm->time = 9;
	__atomic_store_n(&fixture.shm->ended, 1, __ATOMIC_RELEASE);
	see_it_starve();
	assert_false(__atomic_load_n(&waiter.done, __ATOMIC_ACQUIRE));
	give_chunk(7);
	pthread_join(waiter.thread, NULL);
	index = fixture_thread_of(&fixture, waiter.tid);
	assert_int_equal(fixture_records(&fixture, index, &records), 2);
	assert_int_equal(records[0].type, LIMPET_EVENT_FREE);
	assert_int_equal(records[0].time, 7);
	assert_int_equal(records[1].type, LIMPET_EVENT_ALLOC);
	assert_int_equal(records[1].time, 7);
	assert_int_equal(fixture_thread(&fixture, index)->dropped, 0);
}

/* A collector that was stopped: its end of the channel is open, and nothing else happens. */
static void test_a_waiting_thread_does_not_wait_for_the_dead(void **state)
{
	struct waiter first = {.done = false}, second = {.done = false}, third = {.done = false};
	uint32_t index, bell, unknown;

	(void)state;
	fixture.shm->wait_turns = 10;
	fixture.shm->beats = 41;
	take_all_chunks();
	assert_int_equal(pthread_create(&first.thread, NULL, wait_for_chunk, &first), 0);
	pthread_join(first.thread, NULL);
	index = fixture_thread_of(&fixture, first.tid);
	assert_int_equal(fixture_thread(&fixture, index)->dropped, 1);
	assert_int_equal(limpet_control->on, 1);
	/* The next does not even begin to wait: it rings for its claim, for a stack that is not
	 * known, and for room, once to describe the stack and once for the record... */
	bell = fixture.shm->bell;
	unknown = fixture.shm->unknown_count;
	fixture.shm->wait_turns = UINT64_MAX;
	assert_int_equal(pthread_create(&second.thread, NULL, wait_for_chunk, &second), 0);
	pthread_join(second.thread, NULL);
	assert_int_equal(fixture.shm->bell - bell, 3 + (fixture.shm->unknown_count != unknown));
	/* ...until the collector goes on. */
	__atomic_store_n(&fixture.shm->beats, 42, __ATOMIC_RELAXED);
	assert_int_equal(pthread_create(&third.thread, NULL, wait_for_chunk, &third), 0);
	see_it_starve();
	assert_false(__atomic_load_n(&third.done, __ATOMIC_ACQUIRE));
	give_chunk(7);
	pthread_join(third.thread, NULL);
	index = fixture_thread_of(&fixture, third.tid);
	assert_int_equal(fixture_thread(&fixture, index)->first_chunk, 7);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		WITH_AGENT(test_chunks_follow_each_other),
		WITH_AGENT(test_records_are_never_split),
		WITH_AGENT(test_what_does_not_fit_is_counted),
		WITH_AGENT(test_half_a_realloc),
		WITH_AGENT(test_a_full_thread_waits_for_room),
		WITH_AGENT(test_a_waiting_thread_is_freed_by_our_end),
		WITH_AGENT(test_a_waiting_thread_is_freed_by_the_end_of_the_capture),
		WITH_AGENT(test_the_end_of_the_capture_switches_off),
		WITH_AGENT(test_a_realloc_across_the_end),
		WITH_AGENT(test_a_realloc_that_waits_for_room_at_the_end),
		WITH_AGENT(test_a_waiting_thread_does_not_wait_for_the_dead),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
