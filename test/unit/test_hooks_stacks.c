/* Stacks that hooks walk and describe: what is remembered of them, and what cuts them short. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "agent/stack_cache.h"
#include "agent/stack_prints.h"
#include "common/err.h"
#include "test/unit/hooks_fixture.h"

#define RECORD_BYTES 24u

/* The number by which a call there was recorded. */
static uint32_t stack_of(const uint64_t *addresses, uint32_t count)
{
	LIMPET_FREE struct fixture_record *records = NULL;
	size_t records_count;

	fixture_stack_build(&stack, addresses, count);
	FIXTURE_CALL(&stack, FIXTURE_MALLOC, BLOCK_A, 1);
	records_count = own_records(&records);
	return records[records_count - 1].node;
}

static void assert_path(uint32_t number, const uint64_t *addresses, uint32_t count)
{
	struct fixture_frames frames;

	fixture_frames_of(&fixture, number, &frames);
	assert_int_equal(frames.count, count);
	for (uint32_t i = 0; i < count; i++) {
		assert_int_equal(frames.list[i].address, addresses[i]);
		assert_int_equal(frames.list[i].flags, 0);
	}
}

static void check_stacks(bool first_time)
{
	static const uint64_t main_stack[] = {0x500010, 0x500020, 0x500030, 0x500040};
	static const uint64_t other_leaf[] = {0x500011, 0x500020, 0x500030, 0x500040};
	static const uint64_t other_root[] = {0x500010, 0x500020, 0x500030, 0x500041};
	uint32_t a = stack_of(main_stack, 4), next, truncated = own_thread()->truncated;
	uint64_t at = own_private()->at;

	assert_path(a, main_stack, 4);
	next = fixture.shm->next_stack;
	assert_int_equal(stack_of(main_stack, 4), a);
	assert_int_equal(fixture.shm->next_stack, next);
	assert_int_equal(own_private()->at, at + RECORD_BYTES);
	/* What they have in common is described once. */
	assert_path(stack_of(other_leaf, 4), other_leaf, 4);
	assert_int_equal(own_private()->at,
			 at + 2 * RECORD_BYTES + first_time * limpet_stack_bytes(1));
	assert_path(stack_of(other_root, 4), other_root, 4);
	assert_int_equal(fixture.shm->next_stack, next + 2 * first_time);
	assert_path(stack_of(main_stack, 1), main_stack, 1);
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
	first = stack_of(addresses, LIMPET_COUNT_OF(addresses));
	own_thread()->stack_low = (uintptr_t)&stack;
	own_thread()->stack_high = (uintptr_t)(&stack + 1);
	for (uint32_t i = 1; i < LIMPET_COUNT_OF(addresses); i++) {
		assert_int_equal(stack_of(addresses, LIMPET_COUNT_OF(addresses)), first);
		assert_int_equal(stack_of(addresses, LIMPET_COUNT_OF(addresses)), first);
		addresses[i] += 0x1000;
		other = stack_of(addresses, LIMPET_COUNT_OF(addresses));
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
static void test_memory(void **state)
{
	const struct memory *memory = *state;
	const struct limpet_room expected = memory->expected;
	uint64_t addresses[60];
	uint32_t numbers[200];
	const uint32_t depth = LIMPET_COUNT_OF(addresses), leaves = memory->leaves;
	uint32_t taken = expected.cache_entries > 1 ? expected.pages : 0;

	assert_in_range(leaves, 1, LIMPET_COUNT_OF(numbers));
	fixture.shm->layout.room_pages = memory->room_pages;
	for (uint32_t i = 0; i < depth; i++)
		addresses[i] = 0x600000 + i;
	stack_of(addresses, 1); /* the entry is made */
	own_thread()->stack_low = (uintptr_t)&stack;
	own_thread()->stack_high = (uintptr_t)(&stack + 1);
	if (expected.cache_entries == LIMPET_ROOM_HUGE.cache_entries)
		taken += LIMPET_ROOM_LARGE.pages; /* the one before */
	for (uint32_t i = 0; i < 10 * leaves; i++) {
		uint32_t leaf = i % leaves, count = depth - leaf % 20, number;

		addresses[0] = 0x500000 + leaf * 16;
		number = stack_of(addresses, count);
		if (i < leaves)
			numbers[leaf] = number;
		assert_int_equal(number, numbers[leaf]);
		assert_path(number, addresses, count);
	}
	assert_int_equal(own_private()->stack_cache & 0xff, expected.cache_entries);
	assert_int_equal(fixture.shm->room_pages_used, taken);
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
	/* The entry is made. On another's stack, a frame pointer is followed within a page. */
	assert_true(FIXTURE_CALL(small, FIXTURE_MALLOC, BLOCK_A, 1));
	assert_int_equal(own_thread()->truncated, 1);
	own_thread()->stack_low = (uintptr_t)region;
	own_thread()->stack_high = (uintptr_t)region + 2 * page;
	for (int i = 0; i < 3; i++)
		FIXTURE_CALL(small, FIXTURE_MALLOC, BLOCK_A, 2);
	assert_int_equal(own_thread()->truncated, 1);
	assert_int_equal(mprotect(region + page, page, PROT_NONE), 0);
	own_thread()->stack_high = (uintptr_t)region + page;
	FIXTURE_CALL(small, FIXTURE_MALLOC, BLOCK_A, 3);
	assert_int_equal(own_thread()->truncated, 2);
	assert_int_equal(own_records(&records), 5);
	assert_int_equal(records[3].node, records[1].node);
	assert_int_not_equal(records[4].node, records[1].node);
	fixture.shm->ranges[LIMPET_STACK_RANGES - 1].high = 0;
	munmap(region, 2 * page);
}

static void test_deep_stacks_are_cut(void **state)
{
	uint64_t addresses[FIXTURE_MAX_FRAMES];
	struct fixture_frames frames;
	uint32_t number;

	(void)state;
	for (uint32_t i = 0; i < FIXTURE_MAX_FRAMES; i++)
		addresses[i] = 0x600000 + i;
	fixture.shm->max_depth = 100;
	number = stack_of(addresses, 100);
	assert_path(number, addresses, 100);
	assert_int_equal(own_thread()->truncated, 0);
	number = stack_of(addresses, FIXTURE_MAX_FRAMES);
	assert_int_equal(own_thread()->truncated, 1);
	/* The innermost frames are kept; the outermost of them is marked. */
	fixture_frames_of(&fixture, number, &frames);
	assert_int_equal(frames.count, 100);
	for (uint32_t i = 0; i < frames.count; i++) {
		assert_int_equal(frames.list[i].address, addresses[i]);
		assert_int_equal(frames.list[i].flags, i == 99 ? LIMPET_STACK_NODE_TRUNCATED : 0);
	}
}

static void test_broken_stacks_are_marked(void **state)
{
	LIMPET_FREE struct fixture_record *records = NULL;
	struct fixture_frames frames;

	(void)state;
	fixture_stack_build(&stack, plain_stack, 3);
	stack.words[0] = 0x1000; /* a frame pointer that leads down */
	FIXTURE_CALL(&stack, FIXTURE_MALLOC, BLOCK_A, 1);
	assert_int_equal(own_records(&records), 1);
	assert_int_equal(own_thread()->truncated, 1);
	fixture_frames_of(&fixture, records[0].node, &frames);
	assert_int_equal(frames.count, 2);
	assert_int_equal(frames.list[0].address, plain_stack[0]);
	assert_int_equal(frames.list[0].flags, 0);
	assert_int_equal(frames.list[1].address, plain_stack[1]);
	assert_int_equal(frames.list[1].flags, LIMPET_STACK_NODE_TRUNCATED);
}

static const uint64_t known_stack[] = {0x500010, 0x500020}, new_stack[] = {0x700010, 0x700020};

/* The events themselves are all there, without a stack where it could not be described. */
static void assert_lost(uint32_t number)
{
	LIMPET_FREE struct fixture_record *records = NULL;
	size_t count;

	assert_int_equal(stack_of(known_stack, 2), number);
	assert_int_equal(stack_of(new_stack, 2), 0);
	assert_int_equal(stack_of(known_stack, 2), number);
	count = own_records(&records);
	assert_int_equal(records[count - 2].node, 0);
	assert_int_equal(records[count - 2].address, BLOCK_A);
	assert_int_equal(records[count - 1].node, number);
}

static void test_all_numbers_are_taken(void **state)
{
	(void)state;
	fixture.shm->next_stack = LIMPET_STACKS_MAX;
	assert_int_equal(stack_of(known_stack, 2), LIMPET_STACKS_MAX);
	assert_lost(LIMPET_STACKS_MAX);
	assert_int_equal(fixture.shm->next_stack, LIMPET_STACKS_MAX + 1u);
}

/* There is room for three records, and for a description when there is a chunk. */
static void test_no_chunk_for_a_description(void **state)
{
	const uint64_t deep[] = {0x700010, 0x700020, 0x700030, 0x700040, 0x700050, 0x700060,
				 0x700070, 0x700080, 0x700090, 0x7000a0, 0x7000b0, 0x7000c0};
	uint32_t number = stack_of(known_stack, 2);

	(void)state;
	while (own_private()->end - own_private()->at >= 4 * RECORD_BYTES)
		stack_of(known_stack, 2);
	take_all_chunks();
	assert_int_equal(stack_of(deep, LIMPET_COUNT_OF(deep)), 0);
	assert_int_equal(stack_of(known_stack, 2), number);
	assert_int_equal(fixture.shm->drops[LIMPET_EVENT_ALLOC].count, 0);
	give_chunk(7);
	assert_path(stack_of(deep, LIMPET_COUNT_OF(deep)), deep, LIMPET_COUNT_OF(deep));
	assert_int_equal(own_private()->chunk, 7);
}

/* Of stacks that have all but the first frame in common: in each chunk the first description is
 * whole, so that it can be read without any other chunk. */
static void test_descriptions_in_many_chunks(void **state)
{
	uint64_t addresses[LIMPET_STACK_FRAMES];
	uint32_t numbers[300];
	uint64_t sequence;

	(void)state;
	for (uint32_t i = 0; i < LIMPET_COUNT_OF(addresses); i++)
		addresses[i] = 0x600000 + i;
	(void)stack_of(addresses, 1); /* the entry is made */
	own_thread()->stack_low = (uintptr_t)&stack;
	own_thread()->stack_high = (uintptr_t)(&stack + 1);
	for (uint32_t i = 0; i < LIMPET_COUNT_OF(numbers); i++) {
		addresses[0] = 0x500000 + i * 16;
		/* Long ones that do not fit the rest of a chunk, and some that are short. */
		numbers[i] = stack_of(addresses, i % 3 ? LIMPET_STACK_FRAMES : 2 + i % 50);
	}
	sequence = own_private()->sequence;
	assert_in_range(sequence, 3, 100);
	for (uint32_t i = 0; i < LIMPET_COUNT_OF(numbers); i++) {
		addresses[0] = 0x500000 + i * 16;
		assert_path(numbers[i], addresses, i % 3 ? LIMPET_STACK_FRAMES : 2 + i % 50);
		assert_int_equal(stack_of(addresses, i % 3 ? LIMPET_STACK_FRAMES : 2 + i % 50),
				 numbers[i]);
	}
}

/* The same stacks, of each of as many allocators as there may be: small numbers, close together. */
static void test_stacks_of_several_allocators(void **state)
{
	struct limpet_hook *hook = &limpet_hooks[FIXTURE_MALLOC];
	const uint32_t stacks = 16;
	uint64_t addresses[] = {0x500010, 0x500020};
	struct fixture_frames frames;

	(void)state;
	for (uint32_t owner = 0; owner <= LIMPET_HOOK_OWNERS; owner++) {
		hook->flags |= LIMPET_HOOK_OWNER_FLAG(owner);
		for (uint32_t i = 0; i < stacks; i++) {
			addresses[0] = 0x700010 + i * 16;
			fixture_frames_of(&fixture, stack_of(addresses, 2), &frames);
			assert_int_equal(frames.count, 2 + (owner != 0));
			if (owner) {
				assert_int_equal(frames.list[0].address, owner);
				assert_int_equal(frames.list[0].flags, LIMPET_STACK_NODE_OWNER);
			}
			assert_int_equal(frames.list[owner != 0].address, addresses[0]);
		}
		hook->flags &= (uint16_t)~LIMPET_HOOK_OWNER_FLAG(LIMPET_HOOK_OWNERS);
	}
}

/* What the tables have forgotten is described once more, under another number. */
static void test_forgotten_stacks(void **state)
{
	const struct limpet_shm_layout *layout = &fixture.shm->layout;
	uint8_t *base = (uint8_t *)fixture.shm;
	uint32_t first = stack_of(known_stack, 2), second;

	(void)state;
	for (unsigned i = 0; i < LIMPET_FINGERPRINT_TABLES; i++)
		memset(base + layout->fingerprints_offset[i], 0,
		       layout->fingerprint_count[i] * sizeof(struct limpet_fingerprint));
	second = stack_of(known_stack, 2);
	assert_int_equal(second, first + 1);
	assert_path(first, known_stack, 2);
	assert_path(second, known_stack, 2);
	assert_int_equal(stack_of(known_stack, 2), second);
}

/* A thread was thrown out of the change of an entry: the others of its set are used. */
static void test_an_abandoned_entry(void **state)
{
	struct limpet_fingerprint *entries;
	uint32_t number;

	(void)state;
	fixture.shm->layout.fingerprint_count[LIMPET_BY_FRAMES] = LIMPET_FINGERPRINT_WAYS;
	fixture.shm->fingerprint_use[LIMPET_BY_FRAMES].shift = 0;
	entries = limpet_hot.fingerprints[LIMPET_BY_FRAMES];
	entries[0] = (struct limpet_fingerprint){.state = 1ull << 32};
	for (uint32_t i = 0; i < 2 * LIMPET_FINGERPRINT_WAYS; i++) {
		const uint64_t addresses[] = {0x500000 + i * 16, 0x600000};

		number = stack_of(addresses, 2);
		assert_int_equal(stack_of(addresses, 2), number);
	}
	assert_int_equal(entries[0].fingerprint, 0);
}

static uint32_t gone_of(uint32_t number, uint32_t frame)
{
	struct fixture_frames frames;

	fixture_frames_of(&fixture, number, &frames);
	assert_true(frame < frames.count);
	return LIMPET_STACK_NODE_GONE(frames.list[frame].flags);
}

/* A module's end is noted while a stack is described: place first, number last. What was said of a
 * frame before is not said again. */
static void test_modules_that_go_meanwhile(void **state)
{
	static const uint64_t one[] = {0x500010, 0x600010}, two[] = {0x500020, 0x600010},
			      three[] = {0x500030, 0x600010};
	struct limpet_gone *place = &fixture.shm->gone[0];

	(void)state;
	fixture.shm->gone_count = 1;
	assert_int_equal(gone_of(stack_of(one, 2), 1), 0);
	*place = (struct limpet_gone){.start = 0x600000, .end = 0x601000, .number = 1};
	fixture.shm->gone_places = 1;
	assert_int_equal(gone_of(stack_of(two, 2), 1), 1);
	place->number = 2;
	assert_int_equal(gone_of(stack_of(three, 2), 1), 2);
	fixture.shm->gone_count = 2;
	assert_int_equal(gone_of(stack_of(three, 2), 1), 2);
}

/* More stacks than the tables have entries, twice: none is lost, and none is taken for another. */
static void test_more_stacks_than_entries(void **state)
{
	const uint32_t entries = 256, count = 4 * entries;

	(void)state;
	for (unsigned i = 0; i < LIMPET_FINGERPRINT_TABLES; i++) {
		fixture.shm->layout.fingerprint_count[i] = entries;
		fixture.shm->fingerprint_use[i].shift = 0;
	}
	for (uint32_t i = 0; i < 2 * count; i++) {
		const uint64_t addresses[] = {0x500000 + i % count * 16, 0x600000};
		uint32_t number = stack_of(addresses, 2);

		if (i % 97 == 0)
			assert_path(number, addresses, 2);
	}
	assert_in_range(fixture.shm->next_stack, count + count / 2, 2 * count + 1);
}

#define REMEMBER(row)                                                                         \
	{                                                                                     \
		memories[row].test, test_memory, hooks_begin_large, hooks_end, &memories[row] \
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
		WITH_AGENT(test_all_numbers_are_taken),
		WITH_AGENT(test_no_chunk_for_a_description),
		WITH_AGENT(test_descriptions_in_many_chunks),
		WITH_AGENT(test_stacks_of_several_allocators),
		WITH_AGENT(test_forgotten_stacks),
		WITH_AGENT(test_an_abandoned_entry),
		WITH_AGENT(test_modules_that_go_meanwhile),
		WITH_AGENT(test_more_stacks_than_entries),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
