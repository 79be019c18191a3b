/* Who holds blocks of a graph, and what they retain (explain/reach/holder_search.h): graphs of
 * blocks that lie in memory of this test. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka.h needs the above */
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "explain/reach/holder_search.h"

#define BASE UINT64_C(0x10000000)
#define BLOCK_BYTES UINT64_C(64)
#define STRIDE UINT64_C(80)
#define DATA UINT64_C(0x2000)
#define STACK UINT64_C(0x9000)

enum { BLOCKS = 8, WORDS = 8 };

static uint64_t at(unsigned block)
{
	return BASE + block * STRIDE;
}

/* Blocks with these words, to which words of data and of a stack point. */
struct scene {
	uint64_t words[BLOCKS][WORDS];
	uint64_t data[4], stack[4];
};

static struct limpet_reach_graph graph;
static struct limpet_holder_search search;

static void begin(const struct scene *scene)
{
	uint64_t heap[BLOCKS * STRIDE / 8] = {0};
	const struct limpet_search_range ranges[] = {{.kind = LIMPET_SEARCHED_HEAP},
						     {.kind = LIMPET_SEARCHED_DATA},
						     {.kind = LIMPET_SEARCHED_STACK}};

	graph = (struct limpet_reach_graph){.keeps_all_holds = true};
	search = (struct limpet_holder_search){.graph = NULL};
	assert_int_equal(limpet_block_table_begin(&graph.blocks, BLOCKS), 0);
	for (unsigned i = 0; i < BLOCKS; i++) {
		limpet_block_table_add(&graph.blocks, at(i), BLOCK_BYTES);
		memcpy(&heap[i * STRIDE / 8], scene->words[i], sizeof(scene->words[i]));
	}
	assert_int_equal(limpet_block_table_end(&graph.blocks), 0);
	assert_int_equal(limpet_reach_graph_begin(&graph), 0);
	assert_int_equal(limpet_reach_graph_words(&graph, &ranges[1], DATA, scene->data, 4), 0);
	assert_int_equal(limpet_reach_graph_words(&graph, &ranges[2], STACK, scene->stack, 4), 0);
	assert_int_equal(limpet_reach_graph_words(&graph, &ranges[0], BASE, heap, sizeof(heap) / 8),
			 0);
	limpet_reach_graph_end(&graph);
	assert_int_equal(limpet_holder_search_begin(&search, &graph), 0);
}

static void done(void)
{
	limpet_holder_search_done(&search);
	limpet_reach_graph_done(&graph);
}

/* The next way, as "2008 0 3": the word, and the blocks; "" is none. Leaves its last pointer out.
 */
static void expect_way(const char *expected)
{
	struct limpet_holder_way way;
	char text[200] = "";
	int used, found = limpet_holder_search_next(&search, &way);

	assert_true(found >= 0);
	if (found) {
		used = sprintf(text, "%lx", (unsigned long)graph.holds[way.hold].address);
		for (size_t i = 0; i < way.count; i++)
			used += sprintf(text + used, " %u", way.blocks[i]);
		if (way.count == 1)
			limpet_holder_search_leave_out_word(&search, way.hold);
		else
			limpet_holder_search_leave_out_block(&search, way.blocks[way.count - 2]);
		free(way.blocks);
	}
	assert_string_equal(text, expected);
}

static void expect_amount(struct limpet_holder_amount amount, uint64_t blocks)
{
	assert_int_equal(amount.blocks, blocks);
	assert_int_equal(amount.bytes, blocks * BLOCK_BYTES);
}

static void test_shortest_ways(void **state)
{
	(void)state;
	/* 0 -> 1 -> 2 -> 5, 3 -> 5, and a word; the words to 2 and 3 are farther back */
	begin(&(struct scene){.words = {{at(1)}, {at(2)}, {at(5)}, {at(5)}},
			      .data = {at(0), at(3), at(5)}});
	limpet_holder_search_add(&search, 5);
	expect_way("2010 5");
	expect_way("2008 3 5");
	expect_way("2000 0 1 2 5");
	expect_way("");
	done();
}

static void test_kinds_of_ways(void **state)
{
	(void)state;
	/* To 4: from the stack; over an interior pointer of 0; over two starts, which is better */
	begin(&(struct scene){.words = {{at(4) + 40}, {at(2)}, {at(4)}},
			      .data = {at(0), at(1)},
			      .stack = {at(4)}});
	limpet_holder_search_add(&search, 4);
	expect_way("2008 1 2 4");
	expect_way("2000 0 4");
	expect_way("9000 4");
	expect_way("");
	done();
}

static void test_ways_to_one_of_several(void **state)
{
	(void)state;
	/* A list of targets, 1 -> 2 -> 3, has one holder; 0 holds all of them, and 4 one */
	begin(&(struct scene){.words = {{at(1), at(2), at(3)}, {at(2)}, {at(3)}, {0}, {at(3)}},
			      .data = {at(0), at(4)}});
	for (uint32_t i = 1; i <= 3; i++)
		limpet_holder_search_add(&search, i);
	expect_way("2000 0 1");
	expect_way("2008 4 3");
	expect_way("");
	done();
}

static void test_circles_and_lost_blocks(void **state)
{
	(void)state;
	/* 1 <-> 2 behind 0; 3 <-> 4 lost */
	begin(&(struct scene){.words = {{at(1)}, {at(2)}, {at(1)}, {at(4)}, {at(3)}},
			      .data = {at(0)}});
	limpet_holder_search_add(&search, 1);
	expect_way("2000 0 1");
	expect_way("");
	expect_amount(limpet_holder_search_retained(&search), 2);
	done();
	begin(&(struct scene){.words = {{at(1)}, {at(2)}, {at(1)}, {at(4)}, {at(3)}},
			      .data = {at(0)}});
	limpet_holder_search_add(&search, 3);
	expect_way("");
	expect_amount(limpet_holder_search_retained(&search), 2);
	done();
}

static void test_what_is_gone(void **state)
{
	const struct scene scene = {.words = {{at(1)}, {at(3)}, {at(3)}}, .data = {at(0), at(2)}};
	unsigned edges = 0;

	(void)state;
	begin(&scene);
	limpet_holder_search_add(&search, 3);
	assert_true(limpet_holder_search_is_gone(&search, 2, 3));
	expect_way("2000 0 1 3");
	done();
	begin(&scene);
	limpet_holder_search_add(&search, 3);
	limpet_holder_search_word_is_gone(&search, 1);
	expect_way("2000 0 1 3");
	while (limpet_holder_search_is_gone(&search, 0, 1))
		edges++;
	assert_int_equal(edges, LIMPET_HOLDER_GONE_LIMIT);
	expect_way("");
	done();
}

static void test_retained(void **state)
{
	(void)state;
	/* 0 -> 1 -> {2, 3}; 3 also from 5; 2 -> 4; the words of 0: both in one variable */
	const struct scene scene = {.words = {{at(1)}, {at(2), at(3)}, {at(4)}, {0}, {0}, {at(3)}},
				    .data = {at(0), at(0), at(5)}};

	begin(&scene);
	limpet_holder_search_add(&search, 1);
	expect_amount(limpet_holder_search_retained(&search), 3); /* 1 2 4 */
	expect_amount(limpet_holder_search_retained_by(&search, DATA, DATA + 16, true), 4);
	expect_amount(limpet_holder_search_retained_by(&search, DATA, DATA + 8, true), 0);
	expect_amount(limpet_holder_search_retained_by(&search, DATA + 16, DATA + 24, true), 1);
	expect_amount(limpet_holder_search_retained_by(&search, DATA, DATA + 24, true), 6);
	limpet_holder_search_add(&search, 5);
	expect_amount(limpet_holder_search_retained(&search), 5);
	done();
}

static void test_words_of_a_variable_are_left_out(void **state)
{
	(void)state;
	begin(&(struct scene){.data = {at(1), at(2), at(1), at(1)}});
	limpet_holder_search_add(&search, 1);
	limpet_holder_search_add(&search, 2);
	expect_way("2000 1");
	limpet_holder_search_leave_out(&search, DATA, DATA + 24);
	expect_way("2018 1");
	expect_way("");
	done();
}

/* What the graph had no room for counts as held from elsewhere: less is retained, not more. */
static void test_pointers_without_room(void **state)
{
	(void)state;
	begin(&(struct scene){.words = {{at(1)}}, .data = {at(0), at(1)}});
	graph.hold_count = 1;
	limpet_holder_search_add(&search, 0);
	expect_amount(limpet_holder_search_retained(&search), 2);
	graph.holds_are_cut = true;
	expect_amount(limpet_holder_search_retained(&search), 1);
	done();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_shortest_ways),
		cmocka_unit_test(test_kinds_of_ways),
		cmocka_unit_test(test_ways_to_one_of_several),
		cmocka_unit_test(test_circles_and_lost_blocks),
		cmocka_unit_test(test_what_is_gone),
		cmocka_unit_test(test_retained),
		cmocka_unit_test(test_words_of_a_variable_are_left_out),
		cmocka_unit_test(test_pointers_without_room),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
