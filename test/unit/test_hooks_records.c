/* The agent's hooks, in our own process: what is recorded for each call, and when. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdlib.h>
#include <time.h>

#include "agent/record.h"
#include "common/err.h"
#include "test/unit/hooks_fixture.h"

#define FAILED ((uint64_t)-1)

#define PAGE_A (BLOCK_A & ~0xfffull)
#define ALLOC(address, size)                      \
	{                                         \
		LIMPET_EVENT_ALLOC, address, size \
	}
#define FREE(address, size)                      \
	{                                        \
		LIMPET_EVENT_FREE, address, size \
	}
/* Halves of a realloc. */
#define TO(address, size)                                                \
	{                                                                \
		LIMPET_EVENT_ALLOC | LIMPET_EVENT_REALLOC, address, size \
	}
#define FROM(address, size)                                             \
	{                                                               \
		LIMPET_EVENT_FREE | LIMPET_EVENT_REALLOC, address, size \
	}
/* What malloc_usable_size() answers of it. */
#define FREE_A FREE(BLOCK_A, BLOCK_A & 0xfff)
#define FROM_A FROM(BLOCK_A, BLOCK_A & 0xfff)
#define MAP(address, size)                       \
	{                                        \
		LIMPET_EVENT_MMAP, address, size \
	}
#define UNMAP(address, size)                       \
	{                                          \
		LIMPET_EVENT_MUNMAP, address, size \
	}
#define NO_EVENT          \
	{                 \
		{         \
			0 \
		}         \
	}

struct call {
	const char *name;
	enum fixture_hook hook;
	uint64_t result, args[6];
	struct hooks_event events[2]; /* that it leaves; type 0: none */
};

static void check_calls(const struct call *calls, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		const struct call *call = &calls[i];
		const char *complaint;

		if (!fixture_call(&stack, call->hook, call->result, call->args))
			fail_msg("%s: the hook let it pass", call->name);
		complaint = hooks_complaint(call->events,
					    !!call->events[0].type + !!call->events[1].type);
		if (complaint)
			fail_msg("%s: %s", call->name, complaint);
	}
}
static void test_what_malloc_records(void **state)
{
	static const struct call calls[] = {
		{"malloc", FIXTURE_MALLOC, BLOCK_A, {100}, {ALLOC(BLOCK_A, 100)}},
		{"of nothing", FIXTURE_MALLOC, BLOCK_A, {0}, {ALLOC(BLOCK_A, 0)}},
		{"failed", FIXTURE_MALLOC, 0, {1ull << 60}, NO_EVENT},
		{"calloc", FIXTURE_CALLOC, BLOCK_A, {7, 9}, {ALLOC(BLOCK_A, 63)}},
		{"calloc failed", FIXTURE_CALLOC, 0, {1ull << 60, 1ull << 60}, NO_EVENT},
		{"memalign", FIXTURE_MEMALIGN, BLOCK_A, {64, 1000}, {ALLOC(BLOCK_A, 1000)}},
		{"memalign failed", FIXTURE_MEMALIGN, 0, {3, 1000}, NO_EVENT},
	};

	(void)state;
	check_calls(calls, LIMPET_COUNT_OF(calls));
}

static void test_what_free_records(void **state)
{
	static const struct call calls[] = {
		{"free", FIXTURE_FREE, 0, {BLOCK_A}, {FREE_A}},
		{"of no known size", FIXTURE_FREE_UNSIZED, 0, {BLOCK_A}, {FREE(BLOCK_A, 0)}},
	};

	(void)state;
	check_calls(calls, LIMPET_COUNT_OF(calls));
	/* free(NULL) is a plain jump: it does not even claim a thread entry. */
	assert_false(FIXTURE_CALL(&stack, FIXTURE_FREE, 0, 0));
	NOTHING();
}

/* Two events where a block came back: a free of the old and an allocation of the new, marked. */
static void test_what_realloc_records(void **state)
{
	static const struct call calls[] = {
		{"moved", FIXTURE_REALLOC, BLOCK_B, {BLOCK_A, 50}, {FROM_A, TO(BLOCK_B, 50)}},
		{"in place", FIXTURE_REALLOC, BLOCK_A, {BLOCK_A, 60}, {FROM_A, TO(BLOCK_A, 60)}},
		{"of 33 bits",
		 FIXTURE_REALLOC,
		 BLOCK_A,
		 {BLOCK_A, UINT32_MAX + 1ull},
		 {FROM_A, TO(BLOCK_A, UINT32_MAX + 1ull)}},
		{"as malloc", FIXTURE_REALLOC, BLOCK_A, {0, 70}, {ALLOC(BLOCK_A, 70)}},
		{"failed: A lives on", FIXTURE_REALLOC, 0, {BLOCK_A, 1ull << 62}, NO_EVENT},
		{"as free", FIXTURE_REALLOC, 0, {BLOCK_A, 0}, {FREE_A}},
		{"where 0 keeps a block",
		 FIXTURE_REALLOC,
		 BLOCK_B,
		 {BLOCK_A, 0},
		 {FROM_A, TO(BLOCK_B, 0)}},
		{"as malloc, failed", FIXTURE_REALLOC, 0, {0, 10}, NO_EVENT},
		{"nothing of nothing", FIXTURE_REALLOC, 0, {0, 0}, NO_EVENT},
	};

	(void)state;
	check_calls(calls, LIMPET_COUNT_OF(calls));
}

static void test_reallocarray(void **state)
{
	static const struct call calls[] = {
		{"moved",
		 FIXTURE_REALLOCARRAY,
		 BLOCK_B,
		 {BLOCK_A, 10, 12},
		 {FROM_A, TO(BLOCK_B, 120)}},
		{"as free", FIXTURE_REALLOCARRAY, 0, {BLOCK_A, 0, 12}, {FREE_A}},
		/* The product is 0 in 64 bits, and yet nothing was freed: the call failed with
		 * ENOMEM. */
		{"2^64 bytes", FIXTURE_REALLOCARRAY, 0, {BLOCK_A, 1ull << 63, 2}, NO_EVENT},
		{"2^64 bytes otherwise",
		 FIXTURE_REALLOCARRAY,
		 0,
		 {BLOCK_A, 1ull << 32, 1ull << 32},
		 NO_EVENT},
	};

	(void)state;
	check_calls(calls, LIMPET_COUNT_OF(calls));
}

static void test_posix_memalign(void **state)
{
	uint64_t out = BLOCK_A;
	const uint64_t place = (uint64_t)(uintptr_t)&out;
	const struct call calls[] = {
		{"done", FIXTURE_POSIX_MEMALIGN, 0, {place, 64, 200}, {ALLOC(BLOCK_A, 200)}},
		{"no memory", FIXTURE_POSIX_MEMALIGN, ENOMEM, {place, 64, 200}, NO_EVENT},
		{"no such alignment", FIXTURE_POSIX_MEMALIGN, EINVAL, {0, 3, 200}, NO_EVENT},
		/* It answers an int: what stands above is whatever was in the register. */
		{"done, and more",
		 FIXTURE_POSIX_MEMALIGN,
		 0xdead00000000,
		 {place, 64, 300},
		 {ALLOC(BLOCK_A, 300)}},
	};

	(void)state;
	check_calls(calls, LIMPET_COUNT_OF(calls));
}

static void test_mmap_family(void **state)
{
	static const struct call calls[] = {
		{"mmap", FIXTURE_MMAP, PAGE_A, {0, 8192, 3, 0x22, FAILED, 0}, {MAP(PAGE_A, 8192)}},
		{"mmap failed", FIXTURE_MMAP, FAILED, {0, 8192, 3, 0x22, FAILED, 0}, NO_EVENT},
		{"munmap", FIXTURE_MUNMAP, 0, {PAGE_A, 4096}, {UNMAP(PAGE_A, 4096)}},
		{"munmap failed", FIXTURE_MUNMAP, FAILED, {0x1001, 4096}, NO_EVENT},
		{"munmap failed: -1 as an int",
		 FIXTURE_MUNMAP,
		 0xffffffff,
		 {0x1001, 4096},
		 NO_EVENT},
		{"mremap",
		 FIXTURE_MREMAP,
		 0x30000000,
		 {0x20000000, 4096, 16384, 1},
		 {UNMAP(0x20000000, 4096), MAP(0x30000000, 16384)}},
		{"mremap failed", FIXTURE_MREMAP, FAILED, {0x20000000, 4096, 16384, 0}, NO_EVENT},
		/* MREMAP_DONTUNMAP: the old range stays mapped, and has new pages. */
		{"mremap that leaves the old one",
		 FIXTURE_MREMAP,
		 0x30000000,
		 {0x20000000, 4096, 4096, 1 | 4},
		 {MAP(0x30000000, 4096)}},
		/* Old length 0 duplicates a shared mapping: the old one stays. */
		{"mremap of length 0",
		 FIXTURE_MREMAP,
		 0x30000000,
		 {0x20000000, 0, 4096, 1},
		 {MAP(0x30000000, 4096)}},
	};

	(void)state;
	check_calls(calls, LIMPET_COUNT_OF(calls));
}

static void test_wide_sizes(void **state)
{
	static const struct call calls[] = {
		{"32 bits", FIXTURE_MALLOC, BLOCK_A, {UINT32_MAX}, {ALLOC(BLOCK_A, UINT32_MAX)}},
		{"33 bits",
		 FIXTURE_MALLOC,
		 BLOCK_A,
		 {UINT32_MAX + 1ull},
		 {ALLOC(BLOCK_A, UINT32_MAX + 1ull)}},
		{"46 bits",
		 FIXTURE_MREMAP,
		 0x30000000,
		 {0x20000000, 5ull << 32, 1ull << 46, 1},
		 {UNMAP(0x20000000, 5ull << 32), MAP(0x30000000, 1ull << 46)}},
		{"few again", FIXTURE_MALLOC, BLOCK_A, {5}, {ALLOC(BLOCK_A, 5)}},
	};

	(void)state;
	check_calls(calls, LIMPET_COUNT_OF(calls));
}

static uint32_t next_number(uint64_t address)
{
	return limpet_hot.order[limpet_order_of_block(address)];
}

/* The number of a free is taken before the original runs, that of an allocation after it; realloc
 * does both. The number stands for itself: nobody else gets it meanwhile. */
static void test_numbers(void **state)
{
	LIMPET_FREE struct fixture_record *records = NULL;

	(void)state;
	assert_int_not_equal(limpet_order_of_block(BLOCK_A), limpet_order_of_block(BLOCK_B));
	assert_true(fixture_enter(&stack, FIXTURE_FREE, (const uint64_t[6]){BLOCK_A}));
	assert_int_equal(next_number(BLOCK_A), 1);
	fixture_exit(&stack, 0);
	assert_int_equal(next_number(BLOCK_A), 1);

	fixture_enter(&stack, FIXTURE_MALLOC, (const uint64_t[6]){10});
	assert_int_equal(next_number(BLOCK_A), 1);
	fixture_exit(&stack, BLOCK_A);
	assert_int_equal(next_number(BLOCK_A), 2);

	fixture_enter(&stack, FIXTURE_REALLOC, (const uint64_t[6]){BLOCK_A, 20});
	assert_int_equal(next_number(BLOCK_A), 3);
	assert_int_equal(own_thread()->held_intent, limpet_order_of_block(BLOCK_A) + 1);
	assert_int_equal(own_thread()->depth, FIXTURE_REALLOC + 1);
	assert_int_equal(own_thread()->entry_sp, (uintptr_t)&stack.hook);
	fixture_exit(&stack, BLOCK_B);
	assert_int_equal(next_number(BLOCK_A), 3);
	assert_int_equal(next_number(BLOCK_B), 1);
	assert_int_equal(own_records(&records), 4);
	assert_int_equal(fixture_voids, 0);
	for (unsigned i = 0; i < 3; i++)
		assert_int_equal(records[i].number, i);
	assert_int_equal(records[3].number, 0);
	assert_outside(own_thread());
}

/* What a call did not release leaves no gap behind. */
static void test_numbers_of_calls_that_fail(void **state)
{
	LIMPET_FREE struct fixture_record *records = NULL;
	uint64_t failed = (uint64_t)-1;

	(void)state;
	FIXTURE_CALL(&stack, FIXTURE_REALLOC, 0, BLOCK_A, 20);
	FIXTURE_CALL(&stack, FIXTURE_MUNMAP, failed, BLOCK_A, 4096);
	FIXTURE_CALL(&stack, FIXTURE_MREMAP, failed, BLOCK_A, 4096, 8192);
	assert_int_equal(next_number(BLOCK_A), 1);
	assert_int_equal(limpet_hot.order[LIMPET_ORDER_MAPPINGS], 2);
	assert_int_equal(own_records(&records), 0);
	assert_int_equal(fixture_voids, 3);
	assert_outside(own_thread());
	/* Nor does one that had nothing to release take any. */
	FIXTURE_CALL(&stack, FIXTURE_REALLOC, BLOCK_B, 0, 20);
	FIXTURE_CALL(&stack, FIXTURE_MREMAP, 0x10000000, BLOCK_A, 0, 8192);
	free(LIMPET_TAKE(records));
	assert_int_equal(own_records(&records), 2);
	assert_int_equal(fixture_voids, 3);
	assert_int_equal(limpet_hot.order[LIMPET_ORDER_MAPPINGS], 3);
}

static void test_times(void **state)
{
	LIMPET_FREE struct fixture_record *records = NULL;

	(void)state;
	fixture.shm->time = 17;
	FIXTURE_CALL(&stack, FIXTURE_MALLOC, BLOCK_A, 1);
	fixture.shm->time = LIMPET_TIME_MASK + 19;
	FIXTURE_CALL(&stack, FIXTURE_FREE, 0, BLOCK_A);
	assert_int_equal(own_records(&records), 2);
	assert_int_equal(records[0].time, 17);
	assert_int_equal(records[1].time, 18);
}

static struct limpet_chunk *own_chunk(void)
{
	return fixture_chunk(&fixture, own_private()->chunk);
}

/* The free of the block that the thread allocated last marks the allocation's record. */
static void test_freed_at_once(void **state)
{
	static const enum fixture_hook ways[] = {FIXTURE_FREE, FIXTURE_FREE_UNSIZED};
	LIMPET_FREE struct fixture_record *records = NULL;

	(void)state;
	for (unsigned i = 0; i < LIMPET_COUNT_OF(ways); i++) {
		uint32_t bytes;

		FIXTURE_CALL(&stack, FIXTURE_MALLOC, BLOCK_A, 100);
		bytes = own_chunk()->committed;
		FIXTURE_CALL(&stack, ways[i], 0, BLOCK_A);
		assert_int_equal(own_chunk()->committed, bytes);
		assert_int_equal(next_number(BLOCK_A), 2 * (i + 1));
		RECORDED(ALLOC(BLOCK_A, 100), FREE(BLOCK_A, 0));
		assert_outside(own_thread());
	}
	FIXTURE_CALL(&stack, FIXTURE_REALLOC, BLOCK_A, BLOCK_B, 200);
	FIXTURE_CALL(&stack, FIXTURE_FREE, 0, BLOCK_A);
	RECORDED(FROM(BLOCK_B, BLOCK_B & 0xfff), TO(BLOCK_A, 200), FREE(BLOCK_A, 0));
	assert_int_equal(own_records(&records), 7);
	for (unsigned i = 0; i < 4; i++) {
		assert_int_equal(records[i].number, i);
		assert_int_equal(records[i].marked, i % 2);
	}
	assert_true(records[6].marked);
}

static void assert_not_marked(void)
{
	LIMPET_FREE struct fixture_record *records = NULL;
	size_t count = own_records(&records);

	assert_int_equal(records[count - 1].type, LIMPET_EVENT_FREE);
	assert_false(records[count - 1].marked);
	assert_outside(own_thread());
}

/* Where another record, another time or another thread's number lies between, or no record would
 * fit, the free has a record of its own. */
static void test_not_freed_at_once(void **state)
{
	const uint64_t huge = 1ull << 33;

	(void)state;
	FIXTURE_CALL(&stack, FIXTURE_MALLOC, BLOCK_A, 100);
	FIXTURE_CALL(&stack, FIXTURE_MALLOC, BLOCK_B, 100);
	FIXTURE_CALL(&stack, FIXTURE_FREE, 0, BLOCK_A);
	assert_not_marked();
	FIXTURE_CALL(&stack, FIXTURE_FREE, 0, BLOCK_B);
	assert_not_marked();
	RECORDED(ALLOC(BLOCK_A, 100), ALLOC(BLOCK_B, 100), FREE_A, FREE(BLOCK_B, BLOCK_B & 0xfff));

	FIXTURE_CALL(&stack, FIXTURE_MALLOC, BLOCK_A, 100);
	fixture.shm->time++;
	FIXTURE_CALL(&stack, FIXTURE_FREE, 0, BLOCK_A);
	assert_not_marked();
	FIXTURE_CALL(&stack, FIXTURE_MALLOC, BLOCK_A, 100);
	limpet_hot.order[limpet_order_of_block(BLOCK_A)]++;
	FIXTURE_CALL(&stack, FIXTURE_FREE, 0, BLOCK_A);
	assert_not_marked();
	RECORDED(ALLOC(BLOCK_A, 100), FREE(BLOCK_A, 100), ALLOC(BLOCK_A, 100), FREE(BLOCK_A, 100));

	FIXTURE_CALL(&stack, FIXTURE_MALLOC, BLOCK_A, huge);
	FIXTURE_CALL(&stack, FIXTURE_FREE, 0, BLOCK_A);
	assert_not_marked();
	/* Twice: only the first one is a free of that record. */
	FIXTURE_CALL(&stack, FIXTURE_MALLOC, BLOCK_A, 100);
	FIXTURE_CALL(&stack, FIXTURE_FREE, 0, BLOCK_A);
	FIXTURE_CALL(&stack, FIXTURE_FREE, 0, BLOCK_A);
	assert_not_marked();
	RECORDED(ALLOC(BLOCK_A, huge), FREE_A, ALLOC(BLOCK_A, 100), FREE(BLOCK_A, 0), FREE_A);
}

static void test_freed_at_once_at_the_end_of_a_chunk(void **state)
{
	uint32_t chunk;

	(void)state;
	FIXTURE_CALL(&stack, FIXTURE_MALLOC, BLOCK_B, 100);
	chunk = own_private()->chunk;
	while (own_private()->end - own_private()->at >= 24)
		FIXTURE_CALL(&stack, FIXTURE_MALLOC, BLOCK_A, 100);
	assert_int_equal(own_private()->chunk, chunk);
	FIXTURE_CALL(&stack, FIXTURE_FREE, 0, BLOCK_A);
	assert_not_marked();
	assert_int_not_equal(own_private()->chunk, chunk);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		WITH_AGENT(test_what_malloc_records),
		WITH_AGENT(test_what_free_records),
		WITH_AGENT(test_what_realloc_records),
		WITH_AGENT(test_reallocarray),
		WITH_AGENT(test_posix_memalign),
		WITH_AGENT(test_mmap_family),
		WITH_AGENT(test_wide_sizes),
		WITH_AGENT(test_numbers),
		WITH_AGENT(test_numbers_of_calls_that_fail),
		WITH_AGENT(test_times),
		WITH_AGENT(test_freed_at_once),
		WITH_AGENT(test_not_freed_at_once),
		WITH_AGENT(test_freed_at_once_at_the_end_of_a_chunk),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
