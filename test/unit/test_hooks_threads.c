/* Threads in hooks: whose entry is whose, none left, and many at once. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <asm/prctl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "agent/record.h"
#include "common/err.h"
#include "test/unit/hooks_fixture.h"

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

/* Threads re-use the stacks of dead ones, and with them the thread pointer: the entry goes over to
 * the new thread, and each record says whose it is. */
static void test_a_thread_pointer_with_a_new_owner(void **state)
{
	LIMPET_FREE struct fixture_record *records = NULL;
	struct short_life first, second;
	const struct limpet_thread *thread;
	uint32_t index;

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
	assert_true(fixture.shm->bell >= 2);
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
	for (uint32_t i = 0; i < fixture.shm->layout.thread_count; i++)
		fixture_thread(&fixture, i)->thread_pointer = 1;
	assert_false(FIXTURE_CALL(&stack, FIXTURE_MALLOC, BLOCK_A, 2));
	assert_int_equal(fixture.shm->lost_no_thread, 1);
	thread->thread_pointer = pointer;
	assert_true(FIXTURE_CALL(&stack, FIXTURE_MALLOC, BLOCK_A, 3));
	RECORDED({LIMPET_EVENT_ALLOC, BLOCK_A, 1}, {LIMPET_EVENT_ALLOC, BLOCK_A, 3});
}

struct seen_by_block {
	uint32_t tid;
	const struct limpet_thread *thread;
};

/* As a thread that has the block; in between nothing of libc's may be called. */
__attribute__((noinline, optimize("no-stack-protector"))) static void look_by_block(
	uint64_t block, struct seen_by_block *ret)
{
	const uint64_t own = limpet_thread_pointer();

	limpet_syscall3(SYS_arch_prctl, ARCH_SET_FS, (long)block, 0);
	ret->tid = limpet_record_tid();
	ret->thread = limpet_thread_look_up((uint64_t)(uintptr_t)&own);
	limpet_syscall3(SYS_arch_prctl, ARCH_SET_FS, (long)own, 0);
}

/* clone(2) with CLONE_SETTLS: nothing says that there is more than the block. */
static void test_a_block_that_libc_did_not_make(void **state)
{
	enum { PAGE = 4096, SHORT = 128 };
	uint8_t *pages = mmap(NULL, 3 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uint8_t *own = (uint8_t *)(uintptr_t)limpet_thread_pointer();
	uint8_t *block;
	struct seen_by_block seen;
	uint32_t tid = 4711;

	(void)state;
	fixture.shm->tid_offset = measure_tid_offset();
	limpet_record_configure();
	assert_true(pages != MAP_FAILED);
	assert_int_equal(mprotect(pages, 2 * PAGE, PROT_READ | PROT_WRITE), 0);
	block = pages + 2 * PAGE - SHORT;
	memcpy(block, &block, sizeof(block));
	memcpy(block + 16, &block, sizeof(block));
	look_by_block((uint64_t)(uintptr_t)block, &seen);
	assert_int_equal(seen.tid, own_tid());
	assert_null(seen.thread);
	/* The first thread's of a program may lie so. */
	block = pages + PAGE - SHORT;
	memcpy(block, own, SHORT);
	memcpy(block, &block, sizeof(block));
	memcpy(block + 16, &block, sizeof(block));
	memcpy(block + fixture.shm->tid_offset, &tid, sizeof(tid));
	look_by_block((uint64_t)(uintptr_t)block, &seen);
	assert_int_equal(seen.tid, tid);
	assert_non_null(seen.thread);
	assert_int_equal(seen.thread->tid, tid);
	assert_int_equal(munmap(pages, 3 * PAGE), 0);
}

static void test_a_full_thread_table(void **state)
{
	const uint32_t count = fixture.shm->layout.thread_count;
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
	for (uint32_t i = 0; i < fixture.shm->layout.thread_count; i++)
		fixture_thread(&fixture, i)->thread_pointer = 0x7f0000000000 + i;
	for (uint32_t i = fixture.shm->layout.thread_count; i > 0; i--) {
		fixture_thread(&fixture, i - 1)->thread_pointer = 0;
		if (FIXTURE_CALL(&stack, FIXTURE_MALLOC, BLOCK_A, 1))
			break;
	}
	for (uint32_t i = 0; i < fixture.shm->layout.thread_count; i++)
		if (fixture_thread(&fixture, i)->thread_pointer != pointer)
			fixture_thread(&fixture, i)->thread_pointer = 0;
	FIXTURE_CALL(&stack, FIXTURE_MALLOC, BLOCK_A, 2);
	for (uint32_t i = 0; i < fixture.shm->layout.thread_count; i++)
		entries += fixture_thread(&fixture, i)->thread_pointer != 0;
	assert_int_equal(entries, 1);
	RECORDED({LIMPET_EVENT_ALLOC, BLOCK_A, 1}, {LIMPET_EVENT_ALLOC, BLOCK_A, 2});
}

/* Each state that ever was claimed keeps its memory: so many may be, and those again and again. */
static void test_no_more_states_than_there_is_memory_for(void **state)
{
	(void)state;
	FIXTURE_CALL(&stack, FIXTURE_MALLOC, BLOCK_A, 1);
	assert_int_equal(fixture.shm->states_claimed, 1);
	fixture.shm->layout.thread_limit = 1;
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

/* ------------------------------------------------------------------ switched off */

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

struct of_worker {
	struct fixture_record record;
	uint32_t worker;
};

static int by_address_and_number(const void *a, const void *b)
{
	const struct fixture_record *x = &((const struct of_worker *)a)->record;
	const struct fixture_record *y = &((const struct of_worker *)b)->record;

	if (x->address != y->address)
		return x->address < y->address ? -1 : 1;
	return x->number < y->number ? -1 : x->number > y->number;
}

static void check_stack(const struct fixture_frames *frames)
{
	assert_int_equal(frames->count, 8);
	for (uint32_t i = 0; i < 8; i++)
		assert_int_equal(frames->list[i].address & 0x3f, i);
}

/* Every call is there once, and by its numbers no block is allocated again before its free. */
static void test_threads_that_hand_blocks_around(void **state)
{
	static struct worker workers[WORKERS];
	LIMPET_FREE struct of_worker *all = NULL;
	struct fixture_stacks stacks;
	struct fixture_frames frames;
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
	fixture_stacks_begin(&fixture, &stacks);
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
			if (records[k].type == LIMPET_EVENT_ALLOC) {
				fixture_stacks_find(&stacks, records[k].node, &frames);
				check_stack(&frames);
			}
			all[total++] = (struct of_worker){records[k], i};
		}
		free(workers[i].stack);
	}
	fixture_stacks_end(&stacks);
	assert_true(total > WORKERS * CALLS_PER_WORKER / 2);
	qsort(all, total, sizeof(*all), by_address_and_number);
	for (size_t i = 0; i < total; i++) {
		bool first = !i || all[i].record.address != all[i - 1].record.address;
		uint32_t wanted = first || all[i - 1].record.type == LIMPET_EVENT_FREE
					  ? LIMPET_EVENT_ALLOC
					  : LIMPET_EVENT_FREE;

		assert_int_equal(all[i].record.type, wanted);
	}
	assert_int_equal(fixture.shm->lost_no_thread, 0);
	assert_int_equal(fixture.shm->lost_state_in_use, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		WITH_AGENT(test_a_thread_pointer_with_a_new_owner),
		WITH_AGENT(test_an_entry_in_other_hands),
		WITH_AGENT(test_a_block_that_libc_did_not_make),
		WITH_AGENT(test_a_full_thread_table),
		WITH_AGENT(test_a_hole_in_front_of_the_entry),
		WITH_AGENT(test_no_more_states_than_there_is_memory_for),
		WITH_LARGE_AGENT(test_threads_that_hand_blocks_around),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
