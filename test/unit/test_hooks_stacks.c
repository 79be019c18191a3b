/* Stacks that hooks walk and keep: paths in a tree, what is remembered of them, and what cuts them
 * short. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <sys/mman.h>

#include "agent/stack.h"
#include "common/err.h"
#include "test/unit/hooks_fixture.h"

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

#define BOTH_PAGES (LIMPET_ROOM_LARGE.pages + LIMPET_ROOM_HUGE.pages)

struct memory {
	const char *test;
	uint32_t room_pages, leaves;
	struct limpet_room expected;
};

/* More callers, in turn, than there is room for at first; deeper stacks than a path has room for.
 */
static void remember(void **state)
{
	const struct memory *memory = *state;
	const struct limpet_room expected = memory->expected;
	uint64_t addresses[60];
	uint32_t nodes[200];
	const uint32_t depth = LIMPET_COUNT_OF(addresses), leaves = memory->leaves;
	uint32_t taken = expected.cache_entries > 1 ? expected.pages : 0;

	assert_in_range(leaves, 1, LIMPET_COUNT_OF(nodes));
	fixture.shm->layout.room_pages = memory->room_pages;
	for (uint32_t i = 0; i < depth; i++)
		addresses[i] = 0x600000 + i;
	node_of(addresses, 1); /* the entry is made */
	own_thread()->stack_low = (uintptr_t)&stack;
	own_thread()->stack_high = (uintptr_t)(&stack + 1);
	if (expected.cache_entries == LIMPET_ROOM_HUGE.cache_entries)
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
	assert_int_equal(own_thread()->stack_cache & 0xff, expected.cache_entries);
	assert_int_equal(fixture.shm->room_pages_taken, taken);
	assert_int_equal(own_thread()->truncated, 0);
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
	fixture.shm->ranges[LIMPET_STACK_RANGES - 1] = (struct limpet_stack_range){
		.low = (uintptr_t)region, .high = (uintptr_t)region + 2 * page};
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
	fixture.shm->ranges[LIMPET_STACK_RANGES - 1].high = 0;
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
	fixture.shm->node_head = fixture.shm->layout.node_count;
	assert_int_equal(node_of(unknown, 2), 0);
	assert_int_equal(fixture.shm->lost_no_node, 1);
	assert_int_equal(node_of(known, 2), node);
	assert_int_equal(fixture.shm->lost_no_node, 1);
	assert_int_equal(fixture.shm->node_head, fixture.shm->layout.node_count);
	/* The events themselves are all there, without a stack where there was no room for one. */
	assert_int_equal(own_records(&records), 3);
	assert_int_equal(records[0].node, node);
	assert_int_equal(records[1].node, 0);
	assert_int_equal(records[1].address, BLOCK_A);
	assert_int_equal(records[2].node, node);
}

#define REMEMBER(row)                                                                      \
	{                                                                                  \
		memories[row].test, remember, hooks_begin_large, hooks_end, &memories[row] \
	}

int main(void)
{
	struct memory memories[] = {
		{"test_much_to_remember", 2 * LIMPET_ROOM_LARGE.pages, 20, LIMPET_ROOM_LARGE},
		{"test_very_much_to_remember", 2 * BOTH_PAGES, 200, LIMPET_ROOM_HUGE},
		{"test_very_much_to_remember_and_less_room", 2 * BOTH_PAGES - 1, 200,
		 LIMPET_ROOM_LARGE},
		{"test_much_to_remember_and_less_room", 2 * LIMPET_ROOM_LARGE.pages - 1, 20,
		 LIMPET_ROOM_MIDDLE},
		{"test_much_to_remember_and_no_room", LIMPET_ROOM_MIDDLE.pages - 1, 20,
		 LIMPET_ROOM_SMALL},
	};
	const struct CMUnitTest tests[] = {
		WITH_AGENT(test_stacks_are_paths_in_a_tree),
		WITH_AGENT(test_stacks_that_differ_far_out),
		WITH_AGENT(test_a_shorter_stack_in_the_same_place),
		WITH_AGENT(test_deep_stacks_are_cut),
		REMEMBER(0),
		REMEMBER(1),
		REMEMBER(2),
		REMEMBER(3),
		REMEMBER(4),
		WITH_AGENT(test_broken_stacks_are_marked),
		WITH_AGENT(test_a_full_node_table),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
