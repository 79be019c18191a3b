/* The set of known pages: what it reports, and that it agrees with a plain list of pages. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "collector/pages/page_set.h"

enum { PAGE = LIMPET_PAGE_SET_PAGE, HUGE = 2 << 20, MOST = 4096 };

struct changes {
	uint64_t gone[MOST], came[MOST];
	uint32_t nodes[MOST];
	size_t gone_count, came_count;
};

static void note_gone(void *context, uint64_t page)
{
	struct changes *changes = context;

	assert_true(changes->gone_count < MOST);
	changes->gone[changes->gone_count++] = page;
}

static void note_unfaulted(void *context, uint64_t page, uint32_t node)
{
	struct changes *changes = context;

	assert_true(changes->came_count < MOST);
	changes->nodes[changes->came_count] = node;
	changes->came[changes->came_count++] = page;
}

static void look_ends(struct limpet_page_set *set, struct changes *ret)
{
	*ret = (struct changes){.gone_count = 0};
	limpet_page_set_scan_end(set,
				 &(struct limpet_page_set_changes){note_gone, note_unfaulted, ret});
}

static void test_faults_and_looks(void **state)
{
	struct limpet_page_set *set = limpet_page_set_new(16);
	static struct changes changes;

	(void)state;
	assert_int_equal(limpet_page_set_touch(set, 10 * PAGE, 5, 100), 0);
	assert_int_equal(limpet_page_set_touch(set, 10 * PAGE, 6, 110), 1);
	assert_int_equal(limpet_page_set_touch(set, 11 * PAGE, 5, 120), 0);
	limpet_page_set_scan_begin(set, 1000);
	assert_int_equal(limpet_page_set_present(set, 11 * PAGE, 13 * PAGE), 0);
	look_ends(set, &changes);
	assert_int_equal(changes.gone_count, 1);
	assert_int_equal(changes.gone[0], 10 * PAGE);
	assert_int_equal(changes.came_count, 1);
	assert_int_equal(changes.came[0], 12 * PAGE);
	assert_int_equal(changes.nodes[0], 0);
	assert_int_equal(limpet_page_set_count(set), 2);
	limpet_page_set_free(set);
}

static void test_young_pages_are_not_taken_as_gone(void **state)
{
	struct limpet_page_set *set = limpet_page_set_new(16);
	static struct changes changes;

	(void)state;
	assert_int_equal(limpet_page_set_touch(set, 10 * PAGE, 5, 2000), 0);
	limpet_page_set_scan_begin(set, 1000);
	look_ends(set, &changes);
	assert_int_equal(changes.gone_count, 0);
	limpet_page_set_scan_begin(set, 3000);
	look_ends(set, &changes);
	assert_int_equal(changes.gone_count, 1);
	assert_int_equal(limpet_page_set_count(set), 0);
	limpet_page_set_free(set);
}

static void test_pages_that_are_expected_are_not_gone(void **state)
{
	struct limpet_page_set *set = limpet_page_set_new(16);
	static struct changes changes;

	(void)state;
	/* A huge page that comes after the look at its place. */
	assert_int_equal(limpet_page_set_touch(set, HUGE, 5, 100), 0);
	assert_int_equal(limpet_page_set_touch(set, 4 * HUGE, 5, 100), 0);
	limpet_page_set_scan_begin(set, 1000);
	limpet_page_set_expect(set, HUGE);
	look_ends(set, &changes);
	assert_int_equal(changes.gone_count, 1);
	assert_int_equal(changes.gone[0], 4 * HUGE);
	limpet_page_set_scan_begin(set, 2000);
	assert_int_equal(limpet_page_set_present(set, HUGE, 2 * HUGE), 0);
	look_ends(set, &changes);
	assert_int_equal(changes.came_count, HUGE / PAGE - 1);
	assert_int_equal(changes.nodes[0], 5);
	limpet_page_set_free(set);
}

static void test_a_huge_page_belongs_to_its_fault(void **state)
{
	struct limpet_page_set *set = limpet_page_set_new(16);
	static struct changes changes;

	(void)state;
	assert_int_equal(limpet_page_set_touch(set, HUGE + PAGE, 7, 100), 0);
	limpet_page_set_scan_begin(set, 1000);
	assert_int_equal(limpet_page_set_present(set, HUGE, 2 * HUGE), 0);
	look_ends(set, &changes);
	assert_int_equal(changes.came_count, HUGE / PAGE - 1);
	for (size_t i = 0; i < changes.came_count; i++)
		assert_int_equal(changes.nodes[i], 7);
	/* A block that is not whole, and one that several faults brought. */
	assert_int_equal(limpet_page_set_touch(set, 3 * HUGE, 7, 1100), 0);
	assert_int_equal(limpet_page_set_touch(set, 5 * HUGE, 7, 1100), 0);
	assert_int_equal(limpet_page_set_touch(set, 5 * HUGE + PAGE, 8, 1100), 0);
	limpet_page_set_scan_begin(set, 2000);
	assert_int_equal(limpet_page_set_present(set, HUGE, 2 * HUGE), 0);
	assert_int_equal(limpet_page_set_present(set, 3 * HUGE, 4 * HUGE - PAGE), 0);
	assert_int_equal(limpet_page_set_present(set, 5 * HUGE, 6 * HUGE), 0);
	look_ends(set, &changes);
	assert_int_equal(changes.came_count, 2 * HUGE / PAGE - 4);
	for (size_t i = 0; i < changes.came_count; i++)
		assert_int_equal(changes.nodes[i], 0);
	limpet_page_set_free(set);
}

static void test_blocks_are_bounded(void **state)
{
	struct limpet_page_set *set = limpet_page_set_new(4);

	(void)state;
	for (uint64_t i = 0; i < 4; i++)
		assert_int_equal(limpet_page_set_touch(set, i * HUGE, 1, 1), 0);
	assert_int_equal(limpet_page_set_touch(set, UINT64_C(9) * HUGE, 1, 1), -ENOMEM);
	assert_int_equal(limpet_page_set_count(set), 4);
	limpet_page_set_free(set);
}

static void test_pages_without_room_hide_no_others(void **state)
{
	struct limpet_page_set *set = limpet_page_set_new(2);
	static struct changes changes;

	(void)state;
	assert_int_equal(limpet_page_set_touch(set, 1 * HUGE, 1, 1), 0);
	assert_int_equal(limpet_page_set_touch(set, UINT64_C(3) * HUGE, 1, 1), 0);
	limpet_page_set_scan_begin(set, 10);
	/* Of the three blocks there is no room for that in the middle. */
	assert_int_equal(limpet_page_set_present(set, 2 * HUGE - PAGE, UINT64_C(3) * HUGE + PAGE),
			 -ENOMEM);
	look_ends(set, &changes);
	assert_int_equal(changes.gone_count, 1);
	assert_int_equal(changes.gone[0], 1 * HUGE);
	assert_int_equal(changes.came_count, 1);
	assert_int_equal(changes.came[0], 2 * HUGE - PAGE);
	assert_int_equal(limpet_page_set_count(set), 2);
	limpet_page_set_free(set);
}

/* Random faults and looks, beside a plain table. Empty blocks are forgotten meanwhile. */
static void test_agrees_with_a_table(void **state)
{
	enum { BLOCKS = 40, PAGES = BLOCKS * (HUGE / PAGE), ROUNDS = 60 };
	struct limpet_page_set *set = limpet_page_set_new(64);
	static uint8_t there[PAGES], now[PAGES];
	static struct changes changes;
	uint64_t random = 88172645463325252u, time_ns = 0, count = 0;

	(void)state;
	memset(there, 0, sizeof(there));
	for (unsigned round = 0; round < ROUNDS; round++) {
		for (unsigned i = 0; i < 20; i++) {
			random ^= random << 13;
			random ^= random >> 7;
			random ^= random << 17;
			uint64_t page = random % PAGES;

			assert_int_equal(limpet_page_set_touch(set, page * PAGE, 1, ++time_ns),
					 there[page]);
			there[page] = 1;
		}
		memcpy(now, there, sizeof(now));
		for (uint64_t page = 0; page < PAGES; page++)
			if ((page / 512 + round) % 3 != 0)
				now[page] = 0;
		limpet_page_set_scan_begin(set, ++time_ns);
		for (uint64_t page = 0; page < PAGES; page++)
			if (now[page])
				assert_int_equal(limpet_page_set_present(set, page * PAGE,
									 (page + 1) * PAGE),
						 0);
		look_ends(set, &changes);
		assert_int_equal(changes.came_count, 0);
		for (size_t i = 0; i < changes.gone_count; i++) {
			const uint64_t page = changes.gone[i] / PAGE;

			assert_true(there[page] && !now[page]);
			there[page] = 0;
		}
		assert_memory_equal(there, now, sizeof(now));
		count = 0;
		for (uint64_t page = 0; page < PAGES; page++)
			count += now[page];
		assert_int_equal(limpet_page_set_count(set), count);
	}
	limpet_page_set_free(set);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_faults_and_looks),
		cmocka_unit_test(test_young_pages_are_not_taken_as_gone),
		cmocka_unit_test(test_pages_that_are_expected_are_not_gone),
		cmocka_unit_test(test_a_huge_page_belongs_to_its_fault),
		cmocka_unit_test(test_blocks_are_bounded),
		cmocka_unit_test(test_pages_without_room_hide_no_others),
		cmocka_unit_test(test_agrees_with_a_table),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
