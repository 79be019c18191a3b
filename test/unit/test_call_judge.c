/* Which functions are an allocator's, by calls as the kernel reports them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "injector/hidden/call_judge.h"

enum { MALLOC, FREE, REALLOC, ZALLOC, OTHER, FUNCTIONS, MOST = 4096 };
#define HEAP UINT64_C(0x7f0000000000)
#define STACK UINT64_C(0x7ffc00000000)

static struct limpet_watched_call list[MOST];
static size_t count;
static struct limpet_watched_verdict verdict;

static int setup(void **state)
{
	(void)state;
	count = 0;
	return 0;
}

static void note(uint32_t tid, unsigned function, bool returns, uint64_t sp, uint64_t a, uint64_t b)
{
	assert_true(count < MOST);
	list[count] = (struct limpet_watched_call){.time_ns = 1000 + count,
						   .tid = tid,
						   .function = (uint8_t)function,
						   .returns = returns,
						   .sp = STACK + sp + (returns ? 8 : 0)};
	memcpy(returns ? list[count].results : list[count].args, (uint64_t[]){a, b}, 16);
	count++;
}

static void call(unsigned function, uint64_t a, uint64_t b, uint64_t result)
{
	note(1, function, false, 0, a, b);
	note(1, function, true, 0, result, 0);
}

/* Returns of free are not watched. */
static void release(uint64_t block)
{
	note(1, FREE, false, 0, block, 0);
}

static uint64_t block(unsigned number)
{
	return HEAP + number * UINT64_C(256);
}

static void judge(void)
{
	assert_int_equal(limpet_watched_judge(list, count, FUNCTIONS, &verdict), 0);
}

/* A hundred blocks that come, are moved, and go again. */
static void whole_allocator(void)
{
	for (unsigned round = 0; round < 4; round++) {
		for (unsigned i = 0; i < 50; i++)
			call(MALLOC, 100 + i, 8, block(i));
		for (unsigned i = 50; i < 60; i++)
			call(ZALLOC, 24 + 8 * (i % 5), 8, block(i));
		for (unsigned i = 0; i < 10; i++)
			call(REALLOC, block(i), 200, block(60 + i));
		/* In place. */
		for (unsigned i = 10; i < 20; i++)
			call(REALLOC, block(i), 210, block(i));
		for (unsigned i = 10; i < 70; i++)
			release(block(i));
	}
}

static void test_whole(void **state)
{
	(void)state;
	whole_allocator();
	judge();
	assert_string_equal(verdict.why, "");
	assert_true(verdict.sure);
	assert_int_equal(verdict.roles[MALLOC], LIMPET_WATCHED_MALLOC);
	assert_int_equal(verdict.roles[FREE], LIMPET_WATCHED_FREE);
	assert_int_equal(verdict.roles[REALLOC], LIMPET_WATCHED_REALLOC);
	assert_int_equal(verdict.roles[ZALLOC], LIMPET_WATCHED_MALLOC);
	assert_int_equal(verdict.roles[OTHER], LIMPET_WATCHED_IDLE);
	assert_int_equal(verdict.contradictions, 0);
	/* Of each round: 60 blocks that are freed, 20 that are moved. */
	assert_int_equal(verdict.pairs, 4 * 80);
}

static void test_too_few(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 10; i++) {
		call(MALLOC, 100, 8, block(0));
		release(block(0));
	}
	judge();
	assert_false(verdict.sure);
	assert_string_equal(verdict.why, "too few blocks were given and taken back");
}

static void test_nothing(void **state)
{
	(void)state;
	judge();
	assert_false(verdict.sure);
	assert_string_equal(verdict.why, "it was hardly called");
}

/* A function that frees, too, and is not watched. */
static void test_a_release_is_missing(void **state)
{
	(void)state;
	for (unsigned round = 0; round < 10; round++)
		for (unsigned i = 0; i < 20; i++) {
			call(MALLOC, 100, 8, block(i));
			if (i % 10)
				release(block(i));
		}
	judge();
	assert_false(verdict.sure);
	assert_int_equal(verdict.contradictions, 9 * 2);
}

/* One that gives blocks. */
static void test_an_allocation_is_missing(void **state)
{
	(void)state;
	for (unsigned round = 0; round < 10; round++)
		for (unsigned i = 0; i < 20; i++) {
			if (i % 10)
				call(MALLOC, 100, 8, block(i));
			release(block(i));
		}
	judge();
	assert_false(verdict.sure);
	assert_int_equal(verdict.contradictions, 9 * 2);
}

/* The first argument is no size: blocks of that size would overlap. */
static void test_not_the_size(void **state)
{
	(void)state;
	for (unsigned round = 0; round < 2; round++) {
		for (unsigned i = 0; i < 100; i++)
			call(MALLOC, 5000, 8, block(i));
		for (unsigned i = 0; i < 100 && !round; i++)
			release(block(i));
	}
	judge();
	assert_false(verdict.sure);
	assert_int_equal(verdict.contradictions, 99);
}

/* (block, old size, alignment, new size), as Rust has it: the hooks would take the wrong one. */
static void test_realloc_of_rust(void **state)
{
	(void)state;
	whole_allocator();
	for (unsigned i = 100; i < 200; i++) {
		call(MALLOC, 64, 8, block(i));
		call(REALLOC, block(i), 64, block(i + 100));
		release(block(i + 100));
	}
	judge();
	assert_int_equal(verdict.roles[REALLOC], LIMPET_WATCHED_UNCLEAR);
	assert_false(verdict.sure);
}

/* The same for vectors that grow and grow: of most blocks the size is that of a realloc. */
static void test_realloc_of_rust_in_chains(void **state)
{
	(void)state;
	whole_allocator();
	for (unsigned i = 100; i < 300; i += 10) {
		call(MALLOC, 64, 8, block(i));
		for (unsigned k = 0; k < 5; k++)
			call(REALLOC, block(i + k), UINT64_C(64) << k, block(i + k + 1));
		release(block(i + 5));
	}
	judge();
	assert_int_equal(verdict.roles[REALLOC], LIMPET_WATCHED_UNCLEAR);
	assert_false(verdict.sure);
}

/* calloc whose sizes are all powers of two. */
static void test_counts_of_one(void **state)
{
	(void)state;
	whole_allocator();
	for (unsigned i = 100; i < 120; i++) {
		call(OTHER, 1, i % 2 ? 32 : 4096, block(100 + 20 * (i - 100)));
		release(block(100 + 20 * (i - 100)));
	}
	judge();
	assert_true(verdict.sure);
	assert_int_equal(verdict.roles[OTHER], LIMPET_WATCHED_CALLOC);
}

/* What it gives is kept: it must not be taken for a function of no matter. */
static void test_what_it_gives_is_kept(void **state)
{
	(void)state;
	whole_allocator();
	for (unsigned i = 0; i < 20; i++)
		call(OTHER, 200, 8, block(300 + i));
	judge();
	assert_int_equal(verdict.roles[OTHER], LIMPET_WATCHED_IDLE);
}

/* It has freed older blocks alone, whose addresses are given again. */
static void test_it_frees_older_blocks(void **state)
{
	(void)state;
	for (unsigned i = 300; i < 310; i++) {
		note(1, OTHER, false, 0, block(i), 0);
		call(MALLOC, 64, 8, block(i));
	}
	whole_allocator();
	judge();
	assert_int_equal(verdict.roles[OTHER], LIMPET_WATCHED_UNCLEAR);
	assert_false(verdict.sure);
}

/* It tells of sizes: what it returns is no block. */
static void test_returns_sizes(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 100; i++) {
		call(OTHER, 60, 8, 64);
		call(MALLOC, 64, 8, block(i));
		release(block(i));
	}
	whole_allocator();
	judge();
	assert_true(verdict.sure);
	assert_int_equal(verdict.roles[OTHER], LIMPET_WATCHED_OTHER);
}

/* Pointer and length in two registers. */
static void test_two_results(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 100; i++) {
		note(1, MALLOC, false, 0, 64, 8);
		note(1, MALLOC, true, 0, block(i), 64);
		release(block(i));
	}
	judge();
	assert_int_equal(verdict.roles[MALLOC], LIMPET_WATCHED_UNCLEAR);
	assert_false(verdict.sure);
}

static void test_counts(void **state)
{
	(void)state;
	whole_allocator();
	for (unsigned i = 100; i < 120; i++) {
		call(OTHER, 1, 72, block(i));
		release(block(i));
	}
	judge();
	assert_true(verdict.sure);
	assert_int_equal(verdict.roles[OTHER], LIMPET_WATCHED_CALLOC);
}

/* It is asked about blocks, and leaves them where they are. */
static void test_tells_of_blocks(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 100; i++) {
		call(MALLOC, 64, 8, block(i));
		note(1, OTHER, false, 0, block(i), 0);
		note(1, OTHER, false, 0, block(i), 0);
		note(1, OTHER, false, 0, block(i), 0);
		release(block(i));
	}
	whole_allocator();
	judge();
	assert_int_equal(verdict.roles[OTHER], LIMPET_WATCHED_OTHER);
	assert_true(verdict.sure);
}

/* realloc that calls malloc and free: their calls within are its own matter. */
static void test_inner_calls(void **state)
{
	(void)state;
	whole_allocator();
	for (unsigned i = 100; i < 200; i++) {
		call(MALLOC, 64, 8, block(i));
		note(1, REALLOC, false, 0, block(i), 128);
		note(1, MALLOC, false, -64, 128, 8);
		note(1, MALLOC, true, -64, block(i + 100), 0);
		note(1, FREE, false, -64, block(i), 0);
		note(1, REALLOC, true, 0, block(i + 100), 0);
		release(block(i + 100));
	}
	judge();
	assert_true(verdict.sure);
	assert_int_equal(verdict.roles[REALLOC], LIMPET_WATCHED_REALLOC);
	assert_int_equal(verdict.pairs, 4 * 80 + 200);
}

/* A jump instead of a call: both return to the same place, the last one first. */
static void test_tail_call(void **state)
{
	(void)state;
	whole_allocator();
	for (unsigned i = 100; i < 200; i++) {
		note(1, ZALLOC, false, 0, 64, 8);
		note(1, MALLOC, false, 0, 64, 8);
		note(1, MALLOC, true, 0, block(i), 0);
		note(1, ZALLOC, true, 0, block(i), 0);
		release(block(i));
	}
	judge();
	assert_true(verdict.sure);
	assert_int_equal(verdict.contradictions, 0);
}

/* A call that an exception has left never returns. */
static void test_left_by_exception(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 20; i++)
		note(1, MALLOC, false, -100 - (uint64_t)i * 8, 64, 8);
	whole_allocator();
	judge();
	assert_true(verdict.sure);
}

/* One thread allocates, another one frees. */
static void test_threads(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 100; i++) {
		note(1, MALLOC, false, 0, 64, 8);
		note(2, FREE, false, 0, i ? block(i - 1) : 0, 0);
		note(1, MALLOC, true, 0, block(i), 0);
	}
	for (unsigned i = 0; i < 100; i++)
		call(MALLOC, 64, 8, block(i) + (i == 99 ? 128 : 0));
	judge();
	assert_true(verdict.sure);
	assert_int_equal(verdict.pairs, 99);
}

/* What comes late tells of no other function: (size, alignment), and a block that is so aligned, is
 * enough for a function that is hardly ever called, anything else is not. */
static void test_late(void **state)
{
	static const struct {
		uint64_t first, second, result;
		enum limpet_watched_role role;
	} cases[] = {
		{4096, 16, 0, LIMPET_WATCHED_MALLOC},      {4096, 0, 0, LIMPET_WATCHED_IDLE},
		{1, 16, 0, LIMPET_WATCHED_IDLE},           {4096, 72, 0, LIMPET_WATCHED_IDLE},
		{HEAP, 16, 0, LIMPET_WATCHED_IDLE},        {4096, 16, 4096, LIMPET_WATCHED_IDLE},
		{4096, 16, HEAP + 8, LIMPET_WATCHED_IDLE},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		count = 0;
		whole_allocator();
		for (unsigned k = 0; k < 10; k++) {
			call(OTHER, cases[i].first, cases[i].second,
			     cases[i].result ? cases[i].result : block(300 + 20 * k));
			list[count - 1].is_late = list[count - 2].is_late = true;
		}
		/* Without it, a block that is given twice. */
		note(1, MALLOC, true, 0, block(0), 0);
		list[count - 1].is_late = true;
		judge();
		assert_true(verdict.sure);
		assert_int_equal(verdict.roles[OTHER], cases[i].role);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_whole, setup),
		cmocka_unit_test_setup(test_too_few, setup),
		cmocka_unit_test_setup(test_nothing, setup),
		cmocka_unit_test_setup(test_a_release_is_missing, setup),
		cmocka_unit_test_setup(test_an_allocation_is_missing, setup),
		cmocka_unit_test_setup(test_not_the_size, setup),
		cmocka_unit_test_setup(test_realloc_of_rust, setup),
		cmocka_unit_test_setup(test_realloc_of_rust_in_chains, setup),
		cmocka_unit_test_setup(test_counts_of_one, setup),
		cmocka_unit_test_setup(test_what_it_gives_is_kept, setup),
		cmocka_unit_test_setup(test_it_frees_older_blocks, setup),
		cmocka_unit_test_setup(test_returns_sizes, setup),
		cmocka_unit_test_setup(test_two_results, setup),
		cmocka_unit_test_setup(test_counts, setup),
		cmocka_unit_test_setup(test_tells_of_blocks, setup),
		cmocka_unit_test_setup(test_inner_calls, setup),
		cmocka_unit_test_setup(test_tail_call, setup),
		cmocka_unit_test_setup(test_left_by_exception, setup),
		cmocka_unit_test_setup(test_threads, setup),
		cmocka_unit_test_setup(test_late, setup),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
