/* The agent's hooks, in our own process: what is recorded for each call, and what happens when
 * there is no room, no thread entry, no channel, or a signal at the wrong moment. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "common/err.h"
#include "test/unit/agent_fixture.h"

#define SMALL_BYTES (8u << 20)
#define LARGE_BYTES (32u << 20)
#define FAILED ((uint64_t)-1)
#define BLOCK_A 0x10000040ull
#define BLOCK_B 0x20000080ull
#define RECORDS_PER_CHUNK ((LIMPET_CHUNK_BYTES - sizeof(struct limpet_chunk)) / 24)

static struct agent_fixture fixture;
static struct fixture_stack stack;
static const uint64_t plain_stack[] = {0x401111, 0x402222, 0x403333};

static uint32_t own_tid(void)
{
	return (uint32_t)limpet_syscall1(SYS_gettid, 0);
}

static struct limpet_thread *own_thread(void)
{
	return fixture_thread(&fixture, fixture_thread_of(&fixture, own_tid()));
}

static int begin_small(void **state)
{
	(void)state;
	agent_fixture_begin(&fixture, SMALL_BYTES, NULL);
	fixture_stack_build(&stack, plain_stack, LIMPET_COUNT_OF(plain_stack));
	return 0;
}

static int begin_large(void **state)
{
	(void)state;
	agent_fixture_begin(&fixture, LARGE_BYTES, NULL);
	fixture_stack_build(&stack, plain_stack, LIMPET_COUNT_OF(plain_stack));
	return 0;
}

static int end(void **state)
{
	(void)state;
	agent_fixture_end(&fixture);
	return 0;
}

/* Of the calling thread, all so far. */
static size_t own_records(struct fixture_record **ret_records)
{
	return fixture_records(&fixture, fixture_thread_of(&fixture, own_tid()), ret_records);
}

static void assert_outside(const struct limpet_thread *thread)
{
	assert_int_equal(thread->depth, 0);
	assert_int_equal(thread->busy, 0);
	assert_int_equal(thread->phase, LIMPET_PHASE_OUTSIDE);
}

/* ------------------------------------------------------------------ what is recorded */

struct expected {
	uint32_t type;
	uint64_t address, size;
};

/* Exactly these since the last time, in this order; stacks with allocations and nowhere else. */
static void assert_recorded(const struct expected *expected, size_t count)
{
	LIMPET_FREE struct fixture_record *records = NULL;
	size_t all = own_records(&records);
	static size_t before;
	static uint64_t nonce_of;

	if (nonce_of != fixture.shm->clock_base) {
		nonce_of = fixture.shm->clock_base;
		before = 0;
	}
	assert_int_equal(all - before, count);
	for (size_t i = 0; i < count; i++) {
		const struct fixture_record *record = &records[before + i];
		bool has_stack = expected[i].type == LIMPET_EVENT_ALLOC ||
				 expected[i].type == LIMPET_EVENT_MMAP;

		assert_int_equal(record->type, expected[i].type);
		assert_int_equal(record->address, expected[i].address);
		assert_int_equal(record->size, expected[i].size);
		assert_int_equal(record->wide, expected[i].size > UINT32_MAX);
		assert_int_equal(record->node != 0, has_stack);
		assert_int_equal(record->tid, own_tid());
		if (before + i)
			assert_true(record->ticks >= records[before + i - 1].ticks);
	}
	before = all;
	assert_outside(own_thread());
}
#define RECORDED(...)                                           \
	assert_recorded((const struct expected[]){__VA_ARGS__}, \
			sizeof((const struct expected[]){__VA_ARGS__}) / sizeof(struct expected))
#define NOTHING() assert_recorded(NULL, 0)

static void test_what_malloc_records(void **state)
{
	(void)state;
	assert_true(FIXTURE_CALL(&stack, FIXTURE_MALLOC, BLOCK_A, 100));
	RECORDED({LIMPET_EVENT_ALLOC, BLOCK_A, 100});
	FIXTURE_CALL(&stack, FIXTURE_MALLOC, BLOCK_A, 0);
	RECORDED({LIMPET_EVENT_ALLOC, BLOCK_A, 0});
	FIXTURE_CALL(&stack, FIXTURE_MALLOC, 0, 1ull << 60); /* failed */
	NOTHING();
	FIXTURE_CALL(&stack, FIXTURE_CALLOC, BLOCK_A, 7, 9);
	RECORDED({LIMPET_EVENT_ALLOC, BLOCK_A, 63});
	FIXTURE_CALL(&stack, FIXTURE_CALLOC, 0, 1ull << 60, 1ull << 60);
	NOTHING();
	FIXTURE_CALL(&stack, FIXTURE_MEMALIGN, BLOCK_A, 64, 1000);
	RECORDED({LIMPET_EVENT_ALLOC, BLOCK_A, 1000});
	FIXTURE_CALL(&stack, FIXTURE_MEMALIGN, 0, 3, 1000);
	NOTHING();
}

static void test_what_free_records(void **state)
{
	(void)state;
	assert_true(FIXTURE_CALL(&stack, FIXTURE_FREE, 0, BLOCK_A));
	RECORDED({LIMPET_EVENT_FREE, BLOCK_A, BLOCK_A & 0xfff});
	FIXTURE_CALL(&stack, FIXTURE_FREE_UNSIZED, 0, BLOCK_A);
	RECORDED({LIMPET_EVENT_FREE, BLOCK_A, 0});
	/* free(NULL) is a plain jump: it does not even claim a thread entry. */
	assert_false(FIXTURE_CALL(&stack, FIXTURE_FREE, 0, 0));
	NOTHING();
}

/* Two events where a block came back: a free of the old and an allocation of the new. */
static void test_what_realloc_records(void **state)
{
	(void)state;
	FIXTURE_CALL(&stack, FIXTURE_REALLOC, BLOCK_B, BLOCK_A, 50); /* moved */
	RECORDED({LIMPET_EVENT_FREE, BLOCK_A, BLOCK_A & 0xfff}, {LIMPET_EVENT_ALLOC, BLOCK_B, 50});
	FIXTURE_CALL(&stack, FIXTURE_REALLOC, BLOCK_A, BLOCK_A, 60); /* in place */
	RECORDED({LIMPET_EVENT_FREE, BLOCK_A, BLOCK_A & 0xfff}, {LIMPET_EVENT_ALLOC, BLOCK_A, 60});
	FIXTURE_CALL(&stack, FIXTURE_REALLOC, BLOCK_A, 0, 70); /* as malloc */
	RECORDED({LIMPET_EVENT_ALLOC, BLOCK_A, 70});
	FIXTURE_CALL(&stack, FIXTURE_REALLOC, 0, BLOCK_A, 1ull << 62); /* failed: A lives on */
	NOTHING();
	FIXTURE_CALL(&stack, FIXTURE_REALLOC, 0, BLOCK_A, 0); /* as free */
	RECORDED({LIMPET_EVENT_FREE, BLOCK_A, BLOCK_A & 0xfff});
	FIXTURE_CALL(&stack, FIXTURE_REALLOC, BLOCK_B, BLOCK_A, 0); /* where 0 keeps a block */
	RECORDED({LIMPET_EVENT_FREE, BLOCK_A, BLOCK_A & 0xfff}, {LIMPET_EVENT_ALLOC, BLOCK_B, 0});
	FIXTURE_CALL(&stack, FIXTURE_REALLOC, 0, 0, 10);
	NOTHING();
	FIXTURE_CALL(&stack, FIXTURE_REALLOC, 0, 0, 0);
	NOTHING();
}

static void test_reallocarray(void **state)
{
	(void)state;
	FIXTURE_CALL(&stack, FIXTURE_REALLOCARRAY, BLOCK_B, BLOCK_A, 10, 12);
	RECORDED({LIMPET_EVENT_FREE, BLOCK_A, BLOCK_A & 0xfff}, {LIMPET_EVENT_ALLOC, BLOCK_B, 120});
	FIXTURE_CALL(&stack, FIXTURE_REALLOCARRAY, 0, BLOCK_A, 0, 12);
	RECORDED({LIMPET_EVENT_FREE, BLOCK_A, BLOCK_A & 0xfff});
	/* The product is 0 in 64 bits, and yet nothing was freed: the call failed with ENOMEM. */
	FIXTURE_CALL(&stack, FIXTURE_REALLOCARRAY, 0, BLOCK_A, 1ull << 63, 2);
	NOTHING();
	FIXTURE_CALL(&stack, FIXTURE_REALLOCARRAY, 0, BLOCK_A, 1ull << 32, 1ull << 32);
	NOTHING();
}

static void test_posix_memalign(void **state)
{
	uint64_t out = BLOCK_A;
	const uint64_t place = (uint64_t)(uintptr_t)&out;

	(void)state;
	FIXTURE_CALL(&stack, FIXTURE_POSIX_MEMALIGN, 0, place, 64, 200);
	RECORDED({LIMPET_EVENT_ALLOC, BLOCK_A, 200});
	FIXTURE_CALL(&stack, FIXTURE_POSIX_MEMALIGN, ENOMEM, place, 64, 200);
	NOTHING();
	FIXTURE_CALL(&stack, FIXTURE_POSIX_MEMALIGN, EINVAL, 0, 3, 200);
	NOTHING();
	/* It answers an int: what stands above is whatever was in the register. */
	FIXTURE_CALL(&stack, FIXTURE_POSIX_MEMALIGN, 0xdead00000000, place, 64, 300);
	RECORDED({LIMPET_EVENT_ALLOC, BLOCK_A, 300});
}

static void test_mmap_family(void **state)
{
	(void)state;
	FIXTURE_CALL(&stack, FIXTURE_MMAP, BLOCK_A & ~0xfffull, 0, 8192, 3, 0x22, FAILED, 0);
	RECORDED({LIMPET_EVENT_MMAP, BLOCK_A & ~0xfffull, 8192});
	FIXTURE_CALL(&stack, FIXTURE_MMAP, FAILED, 0, 8192, 3, 0x22, FAILED, 0);
	NOTHING();
	FIXTURE_CALL(&stack, FIXTURE_MUNMAP, 0, BLOCK_A & ~0xfffull, 4096);
	RECORDED({LIMPET_EVENT_MUNMAP, BLOCK_A & ~0xfffull, 4096});
	FIXTURE_CALL(&stack, FIXTURE_MUNMAP, FAILED, 0x1001, 4096);
	NOTHING();
	FIXTURE_CALL(&stack, FIXTURE_MUNMAP, 0xffffffff, 0x1001, 4096); /* -1 as an int */
	NOTHING();
	FIXTURE_CALL(&stack, FIXTURE_MREMAP, 0x30000000, 0x20000000, 4096, 16384, 1);
	RECORDED({LIMPET_EVENT_MUNMAP, 0x20000000, 4096}, {LIMPET_EVENT_MMAP, 0x30000000, 16384});
	FIXTURE_CALL(&stack, FIXTURE_MREMAP, FAILED, 0x20000000, 4096, 16384, 0);
	NOTHING();
	/* Old length 0 duplicates a shared mapping: the old one stays. */
	FIXTURE_CALL(&stack, FIXTURE_MREMAP, 0x30000000, 0x20000000, 0, 4096, 1);
	RECORDED({LIMPET_EVENT_MMAP, 0x30000000, 4096});
}

static void test_wide_sizes(void **state)
{
	(void)state;
	FIXTURE_CALL(&stack, FIXTURE_MALLOC, BLOCK_A, UINT32_MAX);
	RECORDED({LIMPET_EVENT_ALLOC, BLOCK_A, UINT32_MAX});
	FIXTURE_CALL(&stack, FIXTURE_MALLOC, BLOCK_A, UINT32_MAX + 1ull);
	RECORDED({LIMPET_EVENT_ALLOC, BLOCK_A, UINT32_MAX + 1ull});
	FIXTURE_CALL(&stack, FIXTURE_MREMAP, 0x30000000, 0x20000000, 5ull << 32, 1ull << 46, 1);
	RECORDED({LIMPET_EVENT_MUNMAP, 0x20000000, 5ull << 32},
		 {LIMPET_EVENT_MMAP, 0x30000000, 1ull << 46});
	FIXTURE_CALL(&stack, FIXTURE_MALLOC, BLOCK_A, 5);
	RECORDED({LIMPET_EVENT_ALLOC, BLOCK_A, 5});
}

/* A free is stamped before the original runs, an allocation after it; realloc does both. */
static void test_stamps(void **state)
{
	LIMPET_FREE struct fixture_record *records = NULL;
	uint64_t before, between;

	(void)state;
	before = limpet_clock();
	assert_true(fixture_enter(&stack, FIXTURE_FREE, (const uint64_t[6]){BLOCK_A}));
	between = limpet_clock();
	fixture_exit(&stack, 0);
	assert_int_equal(own_records(&records), 1);
	assert_in_range(records[0].ticks, before, between);

	fixture_enter(&stack, FIXTURE_MALLOC, (const uint64_t[6]){10});
	between = limpet_clock();
	fixture_exit(&stack, BLOCK_A);
	free(LIMPET_TAKE(records));
	assert_int_equal(own_records(&records), 2);
	assert_in_range(records[1].ticks, between, limpet_clock());

	fixture_enter(&stack, FIXTURE_REALLOC, (const uint64_t[6]){BLOCK_A, 20});
	between = limpet_clock();
	fixture_exit(&stack, BLOCK_B);
	free(LIMPET_TAKE(records));
	assert_int_equal(own_records(&records), 4);
	assert_true(records[2].ticks < between);
	assert_true(records[3].ticks >= between);
}

/* While a hook is unfinished the thread says so, with a lower bound for what it may still write. */
static void test_busy_is_a_lower_bound(void **state)
{
	static const enum fixture_hook hooks[] = {FIXTURE_MALLOC, FIXTURE_REALLOC, FIXTURE_FREE,
						  FIXTURE_MUNMAP, FIXTURE_MREMAP};
	uint64_t last = 0;

	(void)state;
	for (size_t i = 0; i < 50; i++) {
		LIMPET_FREE struct fixture_record *records = NULL;
		const struct limpet_thread *thread;
		size_t before, count;
		uint64_t busy;

		before = i ? own_records(&records) : 0;
		free(LIMPET_TAKE(records));
		fixture_enter(&stack, hooks[i % LIMPET_COUNT_OF(hooks)],
			      (const uint64_t[6]){BLOCK_A, 16, 16});
		thread = own_thread();
		busy = thread->busy;
		assert_int_not_equal(busy, 0);
		assert_int_not_equal(thread->depth, 0);
		assert_int_equal(thread->entry_sp, (uintptr_t)&stack.hook);
		fixture_exit(&stack,
			     hooks[i % LIMPET_COUNT_OF(hooks)] == FIXTURE_MUNMAP ? 0 : BLOCK_A);
		count = own_records(&records);
		assert_true(count > before);
		for (size_t k = before; k < count; k++) {
			assert_true(records[k].ticks >= (busy & ~1ull));
			assert_true(records[k].ticks >= last);
			last = records[k].ticks;
		}
		assert_int_equal(thread->last_ticks, last);
		assert_outside(thread);
	}
}

static int64_t fake_seconds, fake_nanoseconds;

static int fake_clock(int clock, int64_t *ret)
{
	assert_int_equal(clock, CLOCK_MONOTONIC);
	ret[0] = fake_seconds;
	ret[1] = fake_nanoseconds;
	return 0;
}

static void test_the_other_clock(void **state)
{
	LIMPET_FREE struct fixture_record *records = NULL;

	(void)state;
	fixture.shm->clock_function = (uint64_t)(uintptr_t)fake_clock;
	fixture.shm->clock_base = 5000000000;
	fixture.shm->clock_is_tsc = 0;
	limpet_record_configure();
	fake_seconds = 6;
	fake_nanoseconds = 17;
	FIXTURE_CALL(&stack, FIXTURE_MALLOC, BLOCK_A, 1);
	fake_nanoseconds = 999999999;
	FIXTURE_CALL(&stack, FIXTURE_FREE, 0, BLOCK_A);
	assert_int_equal(own_records(&records), 2);
	assert_int_equal(records[0].ticks, 1000000017);
	assert_int_equal(records[1].ticks, 1999999999);
}

/* ------------------------------------------------------------------ chunks */

static void test_chunks_follow_each_other(void **state)
{
	const size_t total = 5 * LIMPET_DOORBELL_CHUNKS * RECORDS_PER_CHUNK + 5;
	LIMPET_FREE struct fixture_record *records = NULL;
	struct limpet_msg message;
	uint64_t batches = 0, number = 0;
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
	/* Full chunks were announced, some at a time; the claim came first. */
	assert_true(fixture_receive(&fixture, &message));
	assert_int_equal(message.type, LIMPET_MSG_CLAIM);
	assert_int_equal(message.thread, fixture_thread_of(&fixture, own_tid()));
	number = message.number;
	while (fixture_receive(&fixture, &message)) {
		assert_int_equal(message.number, ++number);
		assert_int_equal(message.type, LIMPET_MSG_BATCH);
		assert_int_equal(message.sequence, ++batches * LIMPET_DOORBELL_CHUNKS);
	}
	assert_int_equal(batches, 5);
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

	for (uint32_t i = 0; i < fixture.shm->chunk_count / 64; i++)
		count += (uint32_t)__builtin_popcountll(fixture_chunk_map(&fixture)[i]);
	return count;
}

static void take_all_chunks(void)
{
	memset(fixture_chunk_map(&fixture), 0, fixture.shm->chunk_count / 8);
}

static void give_chunk(uint32_t index)
{
	__atomic_fetch_or(&fixture_chunk_map(&fixture)[(index - 1) / 64],
			  1ull << ((index - 1) % 64), __ATOMIC_RELEASE);
}

static void test_what_does_not_fit_is_counted(void **state)
{
	const uint32_t chunks = fixture.shm->chunk_count;
	LIMPET_FREE struct fixture_record *records = NULL;
	const size_t fits = chunks * RECORDS_PER_CHUNK;
	size_t count;

	(void)state;
	assert_int_equal(free_chunks(), chunks);
	for (size_t i = 0; i < fits + 700; i++)
		assert_true(FIXTURE_CALL(&stack, FIXTURE_FREE_UNSIZED, 0, BLOCK_A + i));
	assert_int_equal(free_chunks(), 0);
	assert_int_equal(own_thread()->dropped, 700);
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
	assert_int_equal(fixture_chunk(&fixture, own_thread()->chunk)->lost_before, 700);
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
	assert_outside(own_thread());
}

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

/* Until the waiting thread has said so, several times over. */
static void see_it_starve(void)
{
	struct limpet_msg message;
	unsigned cries = 0;

	while (cries < 5) {
		if (!fixture_receive(&fixture, &message))
			sched_yield();
		else
			cries += message.type == LIMPET_MSG_STARVED;
	}
}

static void test_a_full_thread_waits_for_room(void **state)
{
	LIMPET_FREE struct fixture_record *records = NULL;
	struct waiter waiter = {.done = false};
	uint32_t index;

	(void)state;
	fixture.shm->wait_for_room = 60000;
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
	fixture.shm->wait_for_room = 60000;
	take_all_chunks();
	assert_int_equal(pthread_create(&waiter.thread, NULL, wait_for_chunk, &waiter), 0);
	see_it_starve();
	close(fixture.channel);
	fixture.channel = -1;
	pthread_join(waiter.thread, NULL);
	assert_true(waiter.done);
	assert_int_equal(fixture_thread(&fixture, fixture_thread_of(&fixture, waiter.tid))->dropped,
			 1);
	assert_int_equal(limpet_control->on, 0);
}

/* A collector that was stopped: its end of the channel is open, and nothing else happens. */
static void test_a_waiting_thread_does_not_wait_for_the_dead(void **state)
{
	struct waiter first = {.done = false}, second = {.done = false}, third = {.done = false};
	uint32_t index;

	(void)state;
	fixture.shm->wait_for_room = 100;
	fixture.shm->beats = 41;
	take_all_chunks();
	assert_int_equal(pthread_create(&first.thread, NULL, wait_for_chunk, &first), 0);
	pthread_join(first.thread, NULL);
	index = fixture_thread_of(&fixture, first.tid);
	assert_int_equal(fixture_thread(&fixture, index)->dropped, 1);
	assert_int_equal(limpet_control->on, 1);
	/* The next does not even begin to wait... */
	fixture.shm->wait_for_room = UINT32_MAX;
	assert_int_equal(pthread_create(&second.thread, NULL, wait_for_chunk, &second), 0);
	pthread_join(second.thread, NULL);
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

/* ------------------------------------------------------------------ one call within another */

static void test_inner_calls_do_not_count(void **state)
{
	/* A stack grows down: the allocator's own frames lie below its caller's hook. */
	struct fixture_stack frames[2];
	struct fixture_stack *inner = &frames[0], *outer = &frames[1];

	(void)state;
	fixture_stack_build(inner, plain_stack, 2);
	fixture_stack_build(outer, plain_stack, 3);
	assert_true(fixture_enter(outer, FIXTURE_CALLOC, (const uint64_t[6]){3, 5}));
	assert_false(FIXTURE_CALL(inner, FIXTURE_MALLOC, BLOCK_A, 15));
	assert_false(FIXTURE_CALL(inner, FIXTURE_MMAP, BLOCK_B, 0, 1 << 20));
	assert_false(FIXTURE_CALL(inner, FIXTURE_FREE, 0, BLOCK_B));
	fixture_exit(outer, BLOCK_A);
	RECORDED({LIMPET_EVENT_ALLOC, BLOCK_A, 15});
}

/* An exception or longjmp left through the original: the entry is popped, and the next call on the
 * stack above it counts again. */
static void test_a_popped_entry_is_forgotten(void **state)
{
	struct fixture_stack frames[3];

	(void)state;
	for (int i = 0; i < 3; i++)
		fixture_stack_build(&frames[i], plain_stack, 3);
	assert_true(fixture_enter(&frames[0], FIXTURE_REALLOC, (const uint64_t[6]){BLOCK_A, 1}));
	assert_true(FIXTURE_CALL(&frames[1], FIXTURE_MALLOC, BLOCK_B, 2));
	RECORDED({LIMPET_EVENT_ALLOC, BLOCK_B, 2});
	/* Again, with a call just as deep as the one that was left. */
	assert_true(fixture_enter(&frames[1], FIXTURE_MALLOC, (const uint64_t[6]){3}));
	assert_true(FIXTURE_CALL(&frames[1], FIXTURE_MALLOC, BLOCK_B, 4));
	RECORDED({LIMPET_EVENT_ALLOC, BLOCK_B, 4});
	/* But not one that lies below it. */
	assert_true(fixture_enter(&frames[2], FIXTURE_MALLOC, (const uint64_t[6]){5}));
	assert_false(FIXTURE_CALL(&frames[1], FIXTURE_MALLOC, BLOCK_B, 6));
	fixture_exit(&frames[2], BLOCK_A);
	RECORDED({LIMPET_EVENT_ALLOC, BLOCK_A, 5});
}

static struct fixture_stack handler_stack;
static bool handler_recorded;

static uint64_t usable_size_with_a_signal(uint64_t block)
{
	raise(SIGUSR1);
	return block & 0xff;
}

static void allocate_in_handler(int number)
{
	(void)number;
	handler_recorded = FIXTURE_CALL(&handler_stack, FIXTURE_MALLOC, BLOCK_B, 99);
}

/* A handler that allocates while its thread is in the agent: passed through, and counted. */
static void test_a_signal_while_recording(void **state)
{
	struct sigaction action = {.sa_handler = allocate_in_handler}, old;

	(void)state;
	fixture_stack_build(&handler_stack, plain_stack, 3);
	assert_int_equal(sigaction(SIGUSR1, &action, &old), 0);
	fixture.usable_size = usable_size_with_a_signal;
	handler_recorded = true;
	FIXTURE_CALL(&stack, FIXTURE_FREE, 0, BLOCK_A);
	assert_false(handler_recorded);
	assert_int_equal(fixture.shm->lost_in_signal, 1);
	RECORDED({LIMPET_EVENT_FREE, BLOCK_A, BLOCK_A & 0xff});
	/* Between two calls it is a call like any other. */
	raise(SIGUSR1);
	assert_true(handler_recorded);
	RECORDED({LIMPET_EVENT_ALLOC, BLOCK_B, 99});
	assert_int_equal(fixture.shm->lost_in_signal, 1);
	sigaction(SIGUSR1, &old, NULL);
}

/* ------------------------------------------------------------------ fork */

static void test_the_child_of_a_fork_writes_nothing(void **state)
{
	LIMPET_FREE uint8_t *before = malloc(fixture.segment->shm_bytes);
	struct limpet_msg message;
	int status;
	pid_t pid;

	(void)state;
	assert_non_null(before);
	FIXTURE_CALL(&stack, FIXTURE_MALLOC, BLOCK_A, 1);
	while (fixture_receive(&fixture, &message))
		;
	/* In the middle of a call, as a handler or an allocator may fork. */
	assert_true(fixture_enter(&stack, FIXTURE_REALLOC, (const uint64_t[6]){BLOCK_A, 2}));
	memcpy(before, fixture.shm, fixture.segment->shm_bytes);
	pid = fork();
	assert_true(pid >= 0);
	if (!pid) {
		int bad = 0;

		fixture_exit(&stack, BLOCK_B);
		bad |= limpet_control->on || limpet_control->alive;
		for (int i = 0; i < 10; i++) {
			bad |= FIXTURE_CALL(&stack, FIXTURE_MALLOC, BLOCK_A, 3);
			bad |= FIXTURE_CALL(&stack, FIXTURE_FREE, 0, BLOCK_A);
		}
		limpet_patch_on_loader_call(true);
		_exit(bad);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_memory_equal(before, fixture.shm, fixture.segment->shm_bytes);
	assert_false(fixture_receive(&fixture, &message));
	fixture_exit(&stack, BLOCK_B);
	RECORDED({LIMPET_EVENT_ALLOC, BLOCK_A, 1}, {LIMPET_EVENT_FREE, BLOCK_A, BLOCK_A & 0xfff},
		 {LIMPET_EVENT_ALLOC, BLOCK_B, 2});
}

/* ------------------------------------------------------------------ threads */

struct short_life {
	uint64_t thread_pointer;
	uint32_t tid;
	uint64_t mark;
};

static void *live_shortly(void *context)
{
	static struct fixture_stack its_stack;
	struct short_life *life = context;

	fixture_stack_build(&its_stack, plain_stack, 3);
	life->thread_pointer = limpet_thread_pointer();
	life->tid = own_tid();
	FIXTURE_CALL(&its_stack, FIXTURE_MALLOC, life->mark, 1);
	/* It dies within a call, as by pthread_exit in a handler. */
	fixture_enter(&its_stack, FIXTURE_MALLOC, (const uint64_t[6]){2});
	return NULL;
}

static void live(struct short_life *life, uint64_t mark)
{
	pthread_t thread;

	life->mark = mark;
	assert_int_equal(pthread_create(&thread, NULL, live_shortly, life), 0);
	assert_int_equal(pthread_join(thread, NULL), 0);
}

/* libc keeps a thread's number at a fixed distance behind its thread pointer. */
static uint32_t measure_tid_offset(void)
{
	const uint32_t *words = (const uint32_t *)(uintptr_t)limpet_thread_pointer();

	for (uint32_t i = 1; i < 400; i++)
		if (words[i] == own_tid())
			return i * 4;
	fail_msg("libc keeps no thread number");
	return 0;
}

/* Threads re-use the stacks of dead ones, and with them the thread pointer: the entry goes over to
 * the new thread, and each record says whose it is. */
static void test_a_thread_pointer_with_a_new_owner(void **state)
{
	LIMPET_FREE struct fixture_record *records = NULL;
	struct short_life first, second;
	const struct limpet_thread *thread;
	struct limpet_msg message;
	uint32_t index, claims = 0;

	(void)state;
	fixture.shm->tid_offset = measure_tid_offset();
	live(&first, BLOCK_A);
	index = fixture_thread_of(&fixture, first.tid);
	thread = fixture_thread(&fixture, index);
	assert_int_equal(thread->generation, 1);
	assert_int_not_equal(thread->depth, 0);
	/* The collector told the first one how far its stack reaches. */
	fixture_thread(&fixture, index)->stack_low = 1;
	fixture_thread(&fixture, index)->stack_high = 2;
	for (int i = 0; i < 100; i++) {
		live(&second, BLOCK_B);
		if (second.thread_pointer == first.thread_pointer)
			break;
	}
	assert_int_equal(second.thread_pointer, first.thread_pointer);
	assert_int_equal(fixture_thread_of(&fixture, second.tid), index);
	assert_int_equal(thread->generation, 2);
	assert_int_equal(thread->stack_low, 0);
	assert_int_equal(thread->stack_high, 0);
	/* One chain of chunks, the second one under the new number. */
	assert_int_equal(fixture_records(&fixture, index, &records), 2);
	assert_int_equal(records[0].tid, first.tid);
	assert_int_equal(records[0].address, BLOCK_A);
	assert_int_equal(records[0].sequence, 0);
	assert_int_equal(records[1].tid, second.tid);
	assert_int_equal(records[1].address, BLOCK_B);
	assert_int_equal(records[1].sequence, 1);
	while (fixture_receive(&fixture, &message))
		claims += message.type == LIMPET_MSG_CLAIM && message.thread == index;
	assert_int_equal(claims, 2);
}

/* An entry that the collector is just clearing: this one call passes, and is counted. */
static void test_an_entry_in_other_hands(void **state)
{
	struct limpet_thread *thread;
	uint64_t pointer;

	(void)state;
	fixture.shm->tid_offset = measure_tid_offset();
	FIXTURE_CALL(&stack, FIXTURE_MALLOC, BLOCK_A, 1);
	thread = own_thread();
	pointer = thread->thread_pointer;
	for (uint32_t i = 0; i < fixture.shm->thread_count; i++)
		fixture_thread(&fixture, i)->thread_pointer = 1;
	assert_false(FIXTURE_CALL(&stack, FIXTURE_MALLOC, BLOCK_A, 2));
	assert_int_equal(fixture.shm->lost_no_thread, 1);
	thread->thread_pointer = pointer;
	assert_true(FIXTURE_CALL(&stack, FIXTURE_MALLOC, BLOCK_A, 3));
	RECORDED({LIMPET_EVENT_ALLOC, BLOCK_A, 1}, {LIMPET_EVENT_ALLOC, BLOCK_A, 3});
}

static void test_a_full_thread_table(void **state)
{
	const uint32_t count = fixture.shm->thread_count;
	unsigned taken = 0;

	(void)state;
	for (uint32_t i = 0; i < count; i++)
		fixture_thread(&fixture, i)->thread_pointer = 0x7f0000000000 + i;
	for (int i = 1; i <= 5; i++) {
		assert_false(FIXTURE_CALL(&stack, FIXTURE_MALLOC, BLOCK_A, 1));
		assert_int_equal(fixture.shm->lost_no_thread, i);
	}
	/* One entry after the other is cleared, until it is one in reach. */
	for (uint32_t i = 0; i < count && !taken; i++) {
		__atomic_store_n(&fixture_thread(&fixture, i)->thread_pointer, 0, __ATOMIC_RELEASE);
		taken += FIXTURE_CALL(&stack, FIXTURE_MALLOC, BLOCK_A, 7);
	}
	assert_int_equal(taken, 1);
	RECORDED({LIMPET_EVENT_ALLOC, BLOCK_A, 7});
}

/* The entry is found behind a neighbour that is gone: nobody gets two. */
static void test_a_hole_in_front_of_the_entry(void **state)
{
	uint64_t pointer = limpet_thread_pointer();
	unsigned entries = 0;

	(void)state;
	/* All entries are in use, the first to be cleared again being ours. */
	for (uint32_t i = 0; i < fixture.shm->thread_count; i++)
		fixture_thread(&fixture, i)->thread_pointer = 0x7f0000000000 + i;
	for (uint32_t i = fixture.shm->thread_count; i > 0; i--) {
		fixture_thread(&fixture, i - 1)->thread_pointer = 0;
		if (FIXTURE_CALL(&stack, FIXTURE_MALLOC, BLOCK_A, 1))
			break;
	}
	for (uint32_t i = 0; i < fixture.shm->thread_count; i++)
		if (fixture_thread(&fixture, i)->thread_pointer != pointer)
			fixture_thread(&fixture, i)->thread_pointer = 0;
	FIXTURE_CALL(&stack, FIXTURE_MALLOC, BLOCK_A, 2);
	for (uint32_t i = 0; i < fixture.shm->thread_count; i++)
		entries += fixture_thread(&fixture, i)->thread_pointer != 0;
	assert_int_equal(entries, 1);
	RECORDED({LIMPET_EVENT_ALLOC, BLOCK_A, 1}, {LIMPET_EVENT_ALLOC, BLOCK_A, 2});
}

/* ------------------------------------------------------------------ stacks */

static uint32_t node_of(const uint64_t *addresses, uint32_t count)
{
	LIMPET_FREE struct fixture_record *records = NULL;
	size_t records_count;

	fixture_stack_build(&stack, addresses, count);
	FIXTURE_CALL(&stack, FIXTURE_MALLOC, BLOCK_A, 1);
	records_count = own_records(&records);
	return records[records_count - 1].node;
}

static void assert_path(uint32_t node, const uint64_t *addresses, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++) {
		assert_int_not_equal(node, 0);
		assert_int_equal(fixture_node(&fixture, node)->address, addresses[i]);
		assert_int_equal(fixture_node(&fixture, node)->flags, 0);
		assert_true(fixture_node(&fixture, node)->parent < node);
		node = fixture_node(&fixture, node)->parent;
	}
	assert_int_equal(node, 0);
}

static void check_stacks(bool first_time)
{
	static const uint64_t main_stack[] = {0x500010, 0x500020, 0x500030, 0x500040};
	static const uint64_t other_leaf[] = {0x500011, 0x500020, 0x500030, 0x500040};
	static const uint64_t other_root[] = {0x500010, 0x500020, 0x500030, 0x500041};
	uint32_t a = node_of(main_stack, 4), heads, truncated = own_thread()->truncated;

	assert_path(a, main_stack, 4);
	heads = fixture.shm->node_head;
	assert_int_equal(node_of(main_stack, 4), a);
	assert_int_equal(fixture.shm->node_head, heads);
	/* What they have in common is kept once. */
	assert_path(node_of(other_leaf, 4), other_leaf, 4);
	assert_int_equal(fixture.shm->node_head, heads + first_time);
	assert_path(node_of(other_root, 4), other_root, 4);
	assert_int_equal(fixture.shm->node_head, heads + 5 * first_time);
	assert_path(node_of(main_stack, 1), main_stack, 1);
	assert_int_equal(own_thread()->truncated, truncated);
}

static void test_stacks_are_paths_in_a_tree(void **state)
{
	(void)state;
	/* The stack's extent is not known: the kernel copies it. */
	check_stacks(true);
	/* Known: read where it is. */
	own_thread()->stack_low = (uintptr_t)&stack;
	own_thread()->stack_high = (uintptr_t)(&stack + 1);
	check_stacks(false);
	/* Known, but of another stack than the one in use (a fibre). */
	own_thread()->stack_low = (uintptr_t)&stack - 8192;
	own_thread()->stack_high = (uintptr_t)&stack - 4096;
	check_stacks(false);
}

/* What is remembered of a stack is compared word by word: also the last one counts. */
static void test_stacks_that_differ_far_out(void **state)
{
	uint64_t addresses[60];
	uint32_t first, other;

	(void)state;
	for (uint32_t i = 0; i < LIMPET_COUNT_OF(addresses); i++)
		addresses[i] = 0x600000 + i;
	first = node_of(addresses, LIMPET_COUNT_OF(addresses));
	own_thread()->stack_low = (uintptr_t)&stack;
	own_thread()->stack_high = (uintptr_t)(&stack + 1);
	for (uint32_t i = 1; i < LIMPET_COUNT_OF(addresses); i++) {
		assert_int_equal(node_of(addresses, LIMPET_COUNT_OF(addresses)), first);
		assert_int_equal(node_of(addresses, LIMPET_COUNT_OF(addresses)), first);
		addresses[i] += 0x1000;
		other = node_of(addresses, LIMPET_COUNT_OF(addresses));
		assert_path(other, addresses, LIMPET_COUNT_OF(addresses));
		addresses[i] -= 0x1000;
	}
	assert_int_equal(own_thread()->truncated, 0);
}

/* More callers, in turn, than there is room for at first; deeper stacks than a path has room for.
 */
static void remember_many(uint32_t room_pages, uint32_t leaves, struct limpet_room expected)
{
	uint64_t addresses[60];
	uint32_t nodes[200];
	const uint32_t depth = LIMPET_COUNT_OF(addresses);
	uint32_t taken = expected.memos > 1 ? expected.pages : 0;

	assert_in_range(leaves, 1, LIMPET_COUNT_OF(nodes));
	fixture.shm->room_pages = room_pages;
	for (uint32_t i = 0; i < depth; i++)
		addresses[i] = 0x600000 + i;
	node_of(addresses, 1); /* the entry is made */
	own_thread()->stack_low = (uintptr_t)&stack;
	own_thread()->stack_high = (uintptr_t)(&stack + 1);
	if (expected.memos == LIMPET_ROOM_HUGE.memos)
		taken += LIMPET_ROOM_LARGE.pages; /* the one before */
	for (uint32_t i = 0; i < 10 * leaves; i++) {
		uint32_t leaf = i % leaves, count = depth - leaf % 20, node;

		addresses[0] = 0x500000 + leaf * 16;
		node = node_of(addresses, count);
		if (i < leaves)
			nodes[leaf] = node;
		assert_int_equal(node, nodes[leaf]);
		assert_path(node, addresses, count);
	}
	assert_int_equal(own_thread()->memos & 0xff, expected.memos);
	assert_int_equal(fixture.shm->room_pages_taken, taken);
	assert_int_equal(own_thread()->truncated, 0);
}

static void test_much_to_remember(void **state)
{
	(void)state;
	remember_many(2 * LIMPET_ROOM_LARGE.pages, 20, LIMPET_ROOM_LARGE);
}

static void test_very_much_to_remember(void **state)
{
	const uint32_t both = LIMPET_ROOM_LARGE.pages + LIMPET_ROOM_HUGE.pages;

	(void)state;
	remember_many(2 * both, 200, LIMPET_ROOM_HUGE);
}

static void test_very_much_to_remember_and_less_room(void **state)
{
	const uint32_t both = LIMPET_ROOM_LARGE.pages + LIMPET_ROOM_HUGE.pages;

	(void)state;
	remember_many(2 * both - 1, 200, LIMPET_ROOM_LARGE);
}

static void test_much_to_remember_and_less_room(void **state)
{
	(void)state;
	remember_many(2 * LIMPET_ROOM_LARGE.pages - 1, 20, LIMPET_ROOM_MIDDLE);
}

static void test_much_to_remember_and_no_room(void **state)
{
	(void)state;
	remember_many(LIMPET_ROOM_MIDDLE.pages - 1, 20, LIMPET_ROOM_SMALL);
}

/* Each state that ever was claimed keeps its memory: so many may be, and those again and again. */
static void test_no_more_states_than_there_is_memory_for(void **state)
{
	(void)state;
	FIXTURE_CALL(&stack, FIXTURE_MALLOC, BLOCK_A, 1);
	assert_int_equal(fixture.shm->states_claimed, 1);
	fixture.shm->thread_limit = 1;
	own_thread()->thread_pointer = 0;
	assert_true(FIXTURE_CALL(&stack, FIXTURE_MALLOC, BLOCK_A, 2));
	own_thread()->thread_pointer = 0x7f0000000000;
	assert_false(FIXTURE_CALL(&stack, FIXTURE_MALLOC, BLOCK_A, 3));
	assert_int_equal(fixture.shm->lost_no_thread, 1);
	assert_int_equal(fixture.shm->states_claimed, 1);
	own_thread()->thread_pointer = 0;
	assert_true(FIXTURE_CALL(&stack, FIXTURE_MALLOC, BLOCK_A, 4));
	assert_int_equal(fixture.shm->states_claimed, 1);
}

/* Another thread's stack begins where the one before it did, and ends earlier: what is remembered
 * of the old one leads out of it. */
static void test_a_shorter_stack_in_the_same_place(void **state)
{
	const uint64_t page = 4096;
	uint8_t *region =
		mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct fixture_stack *small = (struct fixture_stack *)(void *)region;
	uint64_t *far_frame = (uint64_t *)(void *)(region + page + 64);
	LIMPET_FREE struct fixture_record *records = NULL;

	(void)state;
	assert_true(region != MAP_FAILED);
	small->hook.caller_pc = 0x500010;
	small->hook.caller_fp = (uint64_t)(uintptr_t)far_frame;
	far_frame[1] = 0x500020;
	assert_true(FIXTURE_CALL(small, FIXTURE_MALLOC, BLOCK_A, 1)); /* the entry is made */
	own_thread()->stack_low = (uintptr_t)region;
	own_thread()->stack_high = (uintptr_t)region + 2 * page;
	for (int i = 0; i < 3; i++)
		FIXTURE_CALL(small, FIXTURE_MALLOC, BLOCK_A, 2);
	assert_int_equal(own_thread()->truncated, 0);
	assert_int_equal(mprotect(region + page, page, PROT_NONE), 0);
	own_thread()->stack_high = (uintptr_t)region + page;
	FIXTURE_CALL(small, FIXTURE_MALLOC, BLOCK_A, 3);
	assert_int_equal(own_thread()->truncated, 1);
	assert_int_equal(own_records(&records), 5);
	assert_int_equal(records[3].node, records[0].node);
	assert_int_not_equal(records[4].node, records[0].node);
	munmap(region, 2 * page);
}

static void test_deep_stacks_are_cut(void **state)
{
	uint64_t addresses[FIXTURE_MAX_FRAMES];
	uint32_t node, depth = 0;

	(void)state;
	for (uint32_t i = 0; i < FIXTURE_MAX_FRAMES; i++)
		addresses[i] = 0x600000 + i;
	fixture.shm->max_depth = 100;
	node = node_of(addresses, 100);
	assert_path(node, addresses, 100);
	assert_int_equal(own_thread()->truncated, 0);
	node = node_of(addresses, FIXTURE_MAX_FRAMES);
	assert_int_equal(own_thread()->truncated, 1);
	/* The innermost frames are kept; the outermost of them is marked. */
	for (; node; node = fixture_node(&fixture, node)->parent, depth++) {
		assert_int_equal(fixture_node(&fixture, node)->address, addresses[depth]);
		assert_int_equal(fixture_node(&fixture, node)->flags,
				 depth == 99 ? LIMPET_NODE_TRUNCATED : 0);
	}
	assert_int_equal(depth, 100);
}

static void test_broken_stacks_are_marked(void **state)
{
	LIMPET_FREE struct fixture_record *records = NULL;
	uint32_t node;

	(void)state;
	fixture_stack_build(&stack, plain_stack, 3);
	stack.words[0] = 0x1000; /* a frame pointer that leads down */
	FIXTURE_CALL(&stack, FIXTURE_MALLOC, BLOCK_A, 1);
	assert_int_equal(own_records(&records), 1);
	node = records[0].node;
	assert_int_equal(own_thread()->truncated, 1);
	assert_int_equal(fixture_node(&fixture, node)->address, plain_stack[0]);
	assert_int_equal(fixture_node(&fixture, node)->flags, 0);
	node = fixture_node(&fixture, node)->parent;
	assert_int_equal(fixture_node(&fixture, node)->address, plain_stack[1]);
	assert_int_equal(fixture_node(&fixture, node)->flags, LIMPET_NODE_TRUNCATED);
	assert_int_equal(fixture_node(&fixture, node)->parent, 0);
}

static void test_a_full_node_table(void **state)
{
	static const uint64_t known[] = {0x500010, 0x500020}, unknown[] = {0x700010, 0x700020};
	LIMPET_FREE struct fixture_record *records = NULL;
	uint32_t node = node_of(known, 2);

	(void)state;
	fixture.shm->node_head = fixture.shm->node_count;
	assert_int_equal(node_of(unknown, 2), 0);
	assert_int_equal(fixture.shm->lost_no_node, 1);
	assert_int_equal(node_of(known, 2), node);
	assert_int_equal(fixture.shm->lost_no_node, 1);
	assert_int_equal(fixture.shm->node_head, fixture.shm->node_count);
	/* The events themselves are all there, without a stack where there was no room for one. */
	assert_int_equal(own_records(&records), 3);
	assert_int_equal(records[0].node, node);
	assert_int_equal(records[1].node, 0);
	assert_int_equal(records[1].address, BLOCK_A);
	assert_int_equal(records[2].node, node);
}

/* ------------------------------------------------------------------ the channel */

static void close_agents_end(void)
{
	assert_int_equal(close((int)limpet_agent_info.channel), 0);
}

static void assert_passing(void)
{
	assert_int_equal(limpet_control->on, 0);
	assert_int_equal(fixture.shm->channel_lost, 1);
	assert_false(FIXTURE_CALL(&stack, FIXTURE_MALLOC, BLOCK_A, 5));
}

static void test_the_program_closes_our_descriptor(void **state)
{
	(void)state;
	close_agents_end();
	FIXTURE_CALL(&stack, FIXTURE_MALLOC, BLOCK_A, 1); /* a claim would be sent */
	assert_passing();
}

/* Not one byte goes into what the program put there. */
static void test_the_program_reuses_our_descriptor(void **state)
{
	int number = (int)limpet_agent_info.channel, ends[2];
	char byte;

	(void)state;
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
	assert_int_equal(dup2(ends[0], number), number);
	FIXTURE_CALL(&stack, FIXTURE_MALLOC, BLOCK_A, 1);
	assert_passing();
	assert_int_equal(recv(ends[1], &byte, 1, MSG_DONTWAIT), -1);
	assert_int_equal(errno, EAGAIN);
	/* Nor is it closed by us when we leave. */
	((int (*)(void))(uintptr_t)limpet_agent_info.release)();
	assert_int_equal(fcntl(number, F_GETFD), 0);
	close(number);
	close(ends[0]);
	close(ends[1]);
}

static void test_a_file_under_our_number(void **state)
{
	int number = (int)limpet_agent_info.channel;
	int file = memfd_create("stranger", MFD_CLOEXEC);
	struct stat status;

	(void)state;
	assert_true(file >= 0);
	FIXTURE_CALL(&stack, FIXTURE_MALLOC, BLOCK_A, 1);
	assert_int_equal(limpet_control->on, 1);
	assert_int_equal(dup2(file, number), number);
	/* Nothing is sent until chunks are full: up to there it is not noticed, nor needed. */
	for (size_t i = 1; i < LIMPET_DOORBELL_CHUNKS * RECORDS_PER_CHUNK; i++)
		assert_true(FIXTURE_CALL(&stack, FIXTURE_FREE_UNSIZED, 0, BLOCK_A));
	assert_int_equal(limpet_control->on, 1);
	FIXTURE_CALL(&stack, FIXTURE_FREE_UNSIZED, 0, BLOCK_A);
	assert_passing();
	assert_int_equal(fstat(file, &status), 0);
	assert_int_equal(status.st_size, 0);
	close(file);
	close(number);
}

static volatile sig_atomic_t pipe_signals;

static void on_pipe(int number)
{
	(void)number;
	pipe_signals++;
}

static void test_the_collector_is_gone(void **state)
{
	struct sigaction action = {.sa_handler = on_pipe}, old;

	(void)state;
	pipe_signals = 0;
	sigaction(SIGPIPE, &action, &old);
	close(fixture.channel);
	fixture.channel = -1;
	FIXTURE_CALL(&stack, FIXTURE_MALLOC, BLOCK_A, 1);
	assert_int_equal(limpet_control->on, 0);
	assert_int_equal(pipe_signals, 0);
	assert_false(FIXTURE_CALL(&stack, FIXTURE_MALLOC, BLOCK_A, 2));
	sigaction(SIGPIPE, &old, NULL);
}

/* A full socket loses nothing: the records are in shared memory. */
static void test_a_collector_that_does_not_listen(void **state)
{
	LIMPET_FREE struct fixture_record *records = NULL;
	const size_t total = 40 * RECORDS_PER_CHUNK;
	struct limpet_msg filler = {0};
	int number = (int)limpet_agent_info.channel;

	(void)state;
	while (send(number, &filler, sizeof(filler), MSG_DONTWAIT) > 0)
		;
	assert_int_equal(errno, EAGAIN);
	for (size_t i = 0; i < total; i++)
		FIXTURE_CALL(&stack, FIXTURE_FREE_UNSIZED, 0, BLOCK_A);
	assert_int_equal(own_records(&records), total);
	assert_int_equal(limpet_control->on, 1);
	assert_int_equal(fixture.shm->channel_lost, 0);
}

/* ------------------------------------------------------------------ switched off */

static void test_switched_off_in_the_middle(void **state)
{
	(void)state;
	assert_true(fixture_enter(&stack, FIXTURE_MALLOC, (const uint64_t[6]){1}));
	((int (*)(void))(uintptr_t)limpet_agent_info.leave)();
	assert_int_equal(limpet_agent_info.state, LIMPET_AGENT_PASSING);
	fixture_exit(&stack, BLOCK_A);
	assert_outside(own_thread());
	assert_false(FIXTURE_CALL(&stack, FIXTURE_MALLOC, BLOCK_A, 2));
	NOTHING();
}

/* ------------------------------------------------------------------ many threads */

#define WORKERS 6u
#define CALLS_PER_WORKER 12000u
#define POOL 24u

/* An allocator of few addresses, which go from thread to thread. */
static pthread_mutex_t pool_lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t pool[POOL];
static unsigned pool_count;

static uint64_t pool_take(void)
{
	uint64_t address = 0;

	pthread_mutex_lock(&pool_lock);
	if (pool_count)
		address = pool[--pool_count];
	pthread_mutex_unlock(&pool_lock);
	return address;
}

static void pool_give(uint64_t address)
{
	pthread_mutex_lock(&pool_lock);
	pool[pool_count++] = address;
	pthread_mutex_unlock(&pool_lock);
}

struct worker {
	pthread_t thread;
	uint32_t number, tid;
	uint64_t allocations, frees;
	struct fixture_stack *stack;
	bool bad;
};

static void *work(void *context)
{
	struct worker *worker = context;
	uint64_t held[4] = {0}, random = worker->number + 1, addresses[8];

	worker->tid = own_tid();
	for (unsigned i = 0; i < CALLS_PER_WORKER; i++) {
		uint64_t *mine;

		random = random * 6364136223846793005ull + 1442695040888963407ull;
		mine = &held[random >> 62];
		/* Few stacks, the same in all threads: they meet in the tree. */
		for (uint32_t k = 0; k < 8; k++)
			addresses[k] = 0x400000 + ((random >> (8 + 3 * k)) & 3) * 64 + k;
		fixture_stack_build(worker->stack, addresses, 8);
		if (*mine) {
			worker->bad |= !fixture_enter(worker->stack, FIXTURE_FREE_UNSIZED,
						      (const uint64_t[6]){*mine});
			pool_give(*mine);
			fixture_exit(worker->stack, 0);
			worker->frees++;
			*mine = 0;
		} else {
			worker->bad |= !fixture_enter(worker->stack, FIXTURE_MALLOC,
						      (const uint64_t[6]){random >> 40});
			*mine = pool_take();
			fixture_exit(worker->stack, *mine);
			worker->allocations += *mine != 0;
		}
	}
	return NULL;
}

struct stamped {
	struct fixture_record record;
	uint32_t worker;
};

static int by_address_and_time(const void *a, const void *b)
{
	const struct fixture_record *x = &((const struct stamped *)a)->record;
	const struct fixture_record *y = &((const struct stamped *)b)->record;

	if (x->address != y->address)
		return x->address < y->address ? -1 : 1;
	return x->ticks < y->ticks ? -1 : x->ticks > y->ticks;
}

static void check_tree(uint32_t node)
{
	uint32_t depth = 0;

	for (; node; node = fixture_node(&fixture, node)->parent, depth++) {
		assert_true(depth < 8);
		assert_int_equal(fixture_node(&fixture, node)->address & 0x3f, depth);
	}
	assert_int_equal(depth, 8);
}

/* Every call is there once, and by its stamps no block is allocated again before its free. */
static void test_threads_that_hand_blocks_around(void **state)
{
	static struct worker workers[WORKERS];
	LIMPET_FREE struct stamped *all = NULL;
	size_t total = 0;

	(void)state;
	for (pool_count = 0; pool_count < POOL; pool_count++)
		pool[pool_count] = BLOCK_A + pool_count * 4096;
	for (uint32_t i = 0; i < WORKERS; i++) {
		workers[i] = (struct worker){.number = i, .stack = malloc(sizeof(stack))};
		assert_int_equal(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
	}
	for (uint32_t i = 0; i < WORKERS; i++)
		pthread_join(workers[i].thread, NULL);
	for (uint32_t i = 0; i < WORKERS; i++) {
		LIMPET_FREE struct fixture_record *records = NULL;
		uint32_t index = fixture_thread_of(&fixture, workers[i].tid);
		size_t count = fixture_records(&fixture, index, &records);

		assert_false(workers[i].bad);
		assert_int_equal(count, workers[i].allocations + workers[i].frees);
		all = realloc(all, (total + count) * sizeof(*all));
		assert_non_null(all);
		for (size_t k = 0; k < count; k++) {
			assert_int_equal(records[k].tid, workers[i].tid);
			assert_true(!k || records[k].ticks >= records[k - 1].ticks);
			if (records[k].type == LIMPET_EVENT_ALLOC)
				check_tree(records[k].node);
			all[total++] = (struct stamped){records[k], i};
		}
		free(workers[i].stack);
	}
	assert_true(total > WORKERS * CALLS_PER_WORKER / 2);
	qsort(all, total, sizeof(*all), by_address_and_time);
	for (size_t i = 0; i < total; i++) {
		bool first = !i || all[i].record.address != all[i - 1].record.address;
		uint32_t wanted = first || all[i - 1].record.type == LIMPET_EVENT_FREE
					  ? LIMPET_EVENT_ALLOC
					  : LIMPET_EVENT_FREE;

		assert_int_equal(all[i].record.type, wanted);
	}
	assert_int_equal(fixture.shm->lost_no_thread, 0);
	assert_int_equal(fixture.shm->lost_no_node, 0);
	assert_int_equal(fixture.shm->lost_in_signal, 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin_small, end)
#define TEST_LARGE(name) cmocka_unit_test_setup_teardown(name, begin_large, end)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_what_malloc_records),
		TEST(test_what_free_records),
		TEST(test_what_realloc_records),
		TEST(test_reallocarray),
		TEST(test_posix_memalign),
		TEST(test_mmap_family),
		TEST(test_wide_sizes),
		TEST(test_stamps),
		TEST(test_busy_is_a_lower_bound),
		TEST(test_the_other_clock),
		TEST(test_chunks_follow_each_other),
		TEST(test_records_are_never_split),
		TEST(test_what_does_not_fit_is_counted),
		TEST(test_half_a_realloc),
		TEST(test_a_full_thread_waits_for_room),
		TEST(test_a_waiting_thread_is_freed_by_our_end),
		TEST(test_a_waiting_thread_does_not_wait_for_the_dead),
		TEST(test_inner_calls_do_not_count),
		TEST(test_a_popped_entry_is_forgotten),
		TEST(test_a_signal_while_recording),
		TEST(test_the_child_of_a_fork_writes_nothing),
		TEST(test_a_thread_pointer_with_a_new_owner),
		TEST(test_an_entry_in_other_hands),
		TEST(test_a_full_thread_table),
		TEST(test_a_hole_in_front_of_the_entry),
		TEST(test_stacks_are_paths_in_a_tree),
		TEST(test_stacks_that_differ_far_out),
		TEST(test_a_shorter_stack_in_the_same_place),
		TEST(test_deep_stacks_are_cut),
		TEST(test_much_to_remember),
		TEST(test_very_much_to_remember),
		TEST(test_very_much_to_remember_and_less_room),
		TEST(test_much_to_remember_and_less_room),
		TEST(test_much_to_remember_and_no_room),
		TEST(test_no_more_states_than_there_is_memory_for),
		TEST(test_broken_stacks_are_marked),
		TEST(test_a_full_node_table),
		TEST(test_the_program_closes_our_descriptor),
		TEST(test_the_program_reuses_our_descriptor),
		TEST(test_a_file_under_our_number),
		TEST(test_the_collector_is_gone),
		TEST(test_a_collector_that_does_not_listen),
		TEST(test_switched_off_in_the_middle),
		TEST_LARGE(test_threads_that_hand_blocks_around),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
