/* Which blocks of a graph can be reached (explain/reach): graphs of blocks that lie in memory of
 * this test. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka.h needs the above */
#include <cmocka.h>

#include <string.h>

#include "explain/reach/leak_candidates.h"
#include "explain/reach/reach_marks.h"

#define BASE UINT64_C(0x10000000)
#define BLOCK_BYTES UINT64_C(64)
#define STRIDE UINT64_C(80)

enum { BLOCKS = 8, WORDS = 8 };

static uint64_t at(unsigned block)
{
	return BASE + block * STRIDE;
}

/* Blocks with these words, of which `roots` and `stack` are pointed to from elsewhere. */
struct scene {
	uint64_t words[BLOCKS][WORDS];
	uint64_t roots[4], stack[4];
};

static void build(const struct scene *scene, struct limpet_reach_graph *graph)
{
	uint64_t heap[BLOCKS * STRIDE / 8] = {0};
	const struct limpet_search_range ranges[] = {{.kind = LIMPET_SEARCHED_HEAP},
						     {.kind = LIMPET_SEARCHED_DATA},
						     {.kind = LIMPET_SEARCHED_STACK}};

	*graph = (struct limpet_reach_graph){.first = NULL};
	assert_int_equal(limpet_block_table_begin(&graph->blocks, BLOCKS), 0);
	for (unsigned i = 0; i < BLOCKS; i++) {
		limpet_block_table_add(&graph->blocks, at(i), BLOCK_BYTES);
		memcpy(&heap[i * STRIDE / 8], scene->words[i], sizeof(scene->words[i]));
	}
	assert_int_equal(limpet_block_table_end(&graph->blocks), 0);
	assert_int_equal(limpet_reach_graph_begin(graph), 0);
	assert_int_equal(limpet_reach_graph_words(graph, &ranges[1], 0, scene->roots, 4), 0);
	assert_int_equal(limpet_reach_graph_words(graph, &ranges[2], 0, scene->stack, 4), 0);
	/* In two parts, of which the first ends within a block. */
	assert_int_equal(limpet_reach_graph_words(graph, &ranges[0], BASE, heap, 13), 0);
	assert_int_equal(limpet_reach_graph_words(graph, &ranges[0], BASE + 13 * 8, heap + 13,
						  sizeof(heap) / 8 - 13),
			 0);
	limpet_reach_graph_end(graph);
}

/* One letter a block: Held, Possibly, on the Stack, Directly, Indirectly. */
static void expect_of(struct limpet_reach_graph *graph, const char *classes)
{
	static const char letters[] = "?HPSDI";
	char found[BLOCKS + 1] = "";

	assert_int_equal(limpet_reach_marks(graph), 0);
	for (uint32_t i = 0; i < BLOCKS; i++)
		found[i] = letters[limpet_block_class(graph, i)];
	assert_string_equal(found, classes);
	limpet_reach_graph_done(graph);
}

static void expect(const struct scene *scene, const char *classes)
{
	struct limpet_reach_graph graph;

	build(scene, &graph);
	expect_of(&graph, classes);
}

static void test_chains(void **state)
{
	(void)state;
	/* 0 -> 1 -> 2 held; 3 -> 4 -> 5 lost; 6 and 7 lost, alone */
	expect(&(struct scene){.words = {{at(1)}, {0, at(2)}, {0}, {at(4)}, {at(5)}},
			       .roots = {at(0)}},
	       "HHHDIIDD");
	/* The same the other way round. */
	expect(&(struct scene){.words = {{0}, {at(0)}, {at(1)}, {0}, {at(3)}, {at(4)}},
			       .roots = {at(2)}},
	       "HHHIIDDD");
}

static void test_circles(void **state)
{
	(void)state;
	/* 0 <-> 1 with 2 behind; 3 -> 4 <-> 5; 6 points to itself; 7 in a circle's midst held */
	expect(&(struct scene){.words = {{at(1)},
					 {at(0), at(2)},
					 {0},
					 {at(4)},
					 {at(5)},
					 {at(4)},
					 {at(6)},
					 {at(7)}},
			       .roots = {at(7)}},
	       "DIIDIIDH");
	/* Two circles, the second leads to the first. */
	expect(&(struct scene){.words = {{at(1)}, {at(0)}, {at(3)}, {at(2), at(1)}},
			       .roots = {at(4), at(5), at(6), at(7)}},
	       "IIDIHHHH");
}

static void test_interior_pointers(void **state)
{
	(void)state;
	/* The midst of 0, which leads to 1; 24 bytes behind the start of 2, less of 3; the last
	 * byte of 4; one past the end of 5; into 6 and to its start */
	expect(&(struct scene){.words = {{at(1)}, {0}, {0}, {at(6) + 40}, {0}, {0}, {0}},
			       .roots = {at(0) + 32, at(2) + 24, at(3) + 23, at(4) + 63}},
	       "PPPHPDPD");
	expect(&(struct scene){.words = {{at(1) + 32}}, .roots = {at(0), at(1) + 40, at(1)}},
	       "HHDDDDDD");
	expect(&(struct scene){.roots = {at(0) + 64}}, "DDDDDDDD");
}

static void test_tags(void **state)
{
	(void)state;
	expect(&(struct scene){.roots = {at(0) | 1, at(1) | 7, at(2) | UINT64_C(0xab) << 56,
					 at(3) | UINT64_C(0xfff8) << 48}},
	       "HHHHDDDD");
}

static void test_stacks(void **state)
{
	(void)state;
	/* From a stack: 0 -> 1; the midst of 2; the head of 3's chunk; 4 also from data, into its
	 * midst */
	expect(&(struct scene){.words = {{at(1)}},
			       .stack = {at(0), at(2) + 32, at(3) - 16, at(4)},
			       .roots = {at(4) + 32}},
	       "SSPSHDDD");
}

static void test_only_candidates_are_judged(void **state)
{
	const struct scene first = {.words = {{at(1)}, {0}, {7}, {7}},
				    .roots = {at(4), at(5), at(6), at(7)}};
	/* 2 has changed; 4 is lost only now, and leads to 3. */
	const struct scene second = {.words = {{at(1)}, {0}, {8}, {7}, {at(3)}},
				     .roots = {at(5), at(6), at(7)}};
	struct limpet_leak_candidates candidates = {.count = 0};
	struct limpet_reach_graph graph;

	(void)state;
	build(&first, &graph);
	assert_int_equal(limpet_reach_marks(&graph), 0);
	assert_int_equal(limpet_leak_candidates_take(&graph, &candidates), 0);
	assert_int_equal(candidates.count, 4);
	limpet_reach_graph_done(&graph);
	build(&second, &graph);
	limpet_leak_candidates_excuse(&candidates, &graph);
	expect_of(&graph, "DIHHHHHH");
	limpet_leak_candidates_done(&candidates);
}

static void test_table(void **state)
{
	struct limpet_block_table table = {.count = 0};

	(void)state;
	assert_int_equal(limpet_block_table_begin(&table, 4), 0);
	limpet_block_table_add(&table, 0x1000, 0x8000); /* over pages in which none starts */
	limpet_block_table_add(&table, 0x8000, 16);     /* overlaps: left out */
	limpet_block_table_add(&table, 0x9ff0, 8);
	limpet_block_table_add(&table, UINT64_C(0x7fff00000000), UINT64_C(5) << 30);
	limpet_block_table_add(&table, UINT64_MAX - 7, 8); /* no address */
	assert_int_equal(limpet_block_table_end(&table), 0);
	assert_int_equal(table.count, 3);
	assert_int_equal(limpet_block_table_find(&table, 0xfff), LIMPET_NO_BLOCK);
	assert_int_equal(limpet_block_table_find(&table, 0x1000), 0);
	assert_int_equal(limpet_block_table_find(&table, 0x8fff), 0);
	assert_int_equal(limpet_block_table_find(&table, 0x9000), LIMPET_NO_BLOCK);
	assert_int_equal(limpet_block_table_pointed(&table, 0x9000), LIMPET_NO_BLOCK);
	assert_int_equal(limpet_block_table_pointed(&table, 0x9ff8), 1);
	assert_int_equal(limpet_block_table_find(&table, 0x9ff7), 1);
	assert_int_equal(limpet_block_table_find(&table, 0x9ff8), LIMPET_NO_BLOCK);
	assert_int_equal(limpet_block_table_find(&table, UINT64_C(0x800000000000)), 2);
	assert_int_equal(limpet_block_table_find(&table, UINT64_C(0x80003fffffff)), 2);
	assert_int_equal(limpet_block_table_find(&table, UINT64_C(0x800040000000)),
			 LIMPET_NO_BLOCK);
	assert_int_equal(limpet_block_table_from(&table, 0x9000), 1);
	assert_int_equal(limpet_block_table_from(&table, 0x8000), 0);
	assert_int_equal(limpet_block_table_from(&table, UINT64_C(0x800040000000)), 3);
	limpet_block_table_done(&table);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_chains),
		cmocka_unit_test(test_circles),
		cmocka_unit_test(test_interior_pointers),
		cmocka_unit_test(test_tags),
		cmocka_unit_test(test_stacks),
		cmocka_unit_test(test_only_candidates_are_judged),
		cmocka_unit_test(test_table),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
