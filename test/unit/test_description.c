/* Descriptions of stacks with frames of a runtime: what their function slots had comes with them,
 * and what such a frame stands for may change. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "collector/stream/description.h"
#include "common/array.h"

#define WORD (LIMPET_FRAME_INTERPRETED | UINT64_C(7) << LIMPET_FRAME_BYTECODE_BITS | 0x1000)
#define SLOT UINT64_C(0x7f0000001231)

struct told {
	uint64_t frames[4], functions[4];
	unsigned count;
};

static void tell(void *context, const struct limpet_stack_node *frame, uint64_t function)
{
	struct told *told = context;

	assert_in_range(told->count, 0, 3);
	told->frames[told->count] = frame->address;
	told->functions[told->count++] = function;
}

static struct limpet_description describe(uint32_t number, uint32_t flags, uint32_t functions)
{
	/* Outermost first. */
	static const uint64_t words[] = {0x1000,
					 WORD,
					 0x3000,
					 LIMPET_FUNCTION_WORD(1, SLOT),
					 LIMPET_FUNCTION_WORD(0, SLOT + 8),
					 LIMPET_FUNCTION_WORD(9, SLOT)};
	struct limpet_description description = {.number = number,
						 .count = 3 + functions,
						 .flags = flags |
							  LIMPET_STACK_FUNCTIONS_FLAG(functions)};

	memcpy(description.words, words, sizeof(words));
	return description;
}

static void test_functions_are_told(void **state)
{
	struct limpet_stack_tree *tree = limpet_stack_tree_new();
	struct limpet_description description = describe(1, 0, 3);
	struct limpet_description_base base = {0, 0};
	struct told told = {.count = 0};

	(void)state;
	assert_non_null(tree);
	tree->on_function = tell;
	tree->context = &told;
	assert_true(limpet_description_enter(&description, tree, &base));
	assert_int_equal(base.depth, 3);
	/* The third is of no frame. */
	assert_int_equal(told.count, 2);
	assert_int_equal(told.frames[0], WORD);
	assert_int_equal(told.functions[0], SLOT);
	assert_int_equal(told.frames[1], 0x3000);
	assert_int_equal(told.functions[1], SLOT + 8);
	/* They are no part of the stack; nor does anything else take them. */
	description = describe(2, 0, 0);
	assert_true(limpet_description_enter(&description, tree, &base));
	assert_int_equal(limpet_stack_tree_find(tree, 2), limpet_stack_tree_find(tree, 1));
	limpet_stack_tree_free(tree);
}

static void test_numbers_that_lie(void **state)
{
	struct limpet_stack_tree *tree = limpet_stack_tree_new();
	struct limpet_description_base base = {0, 0};
	struct limpet_description description = describe(1, 0, 3);

	(void)state;
	assert_non_null(tree);
	description.flags = LIMPET_STACK_FUNCTIONS_FLAG(7);
	assert_false(limpet_description_enter(&description, tree, &base));
	description.flags = LIMPET_STACK_FUNCTIONS_FLAG(LIMPET_STACK_FUNCTIONS_MAX + 1);
	description.count = 3 + LIMPET_STACK_FUNCTIONS_MAX + 1;
	assert_false(limpet_description_enter(&description, tree, &base));
	/* All of it are functions, and none is a frame. */
	description = describe(1, 0, 3);
	description.flags = LIMPET_STACK_FUNCTIONS_FLAG(6);
	assert_false(limpet_description_enter(&description, tree, &base));
	description = describe(1, LIMPET_STACK_GONE, 2);
	assert_false(limpet_description_enter(&description, tree, &base));
	assert_int_equal(limpet_stack_tree_find(tree, 1), LIMPET_STACK_UNSEEN);
	limpet_stack_tree_free(tree);
}

static bool is_word(void *context, const struct limpet_stack_node *frame)
{
	(void)context;
	return frame->address == WORD;
}

static void test_stacks_that_are_doubted(void **state)
{
	struct limpet_stack_tree *tree = limpet_stack_tree_new();
	const uint32_t outer = limpet_stack_tree_child(tree, 0, 0x1000, 0);
	const uint32_t frame =
		limpet_stack_tree_child(tree, outer, WORD, LIMPET_STACK_NODE_TRUNCATED);
	const uint32_t inner = limpet_stack_tree_child(tree, frame, 0x3000, 0);
	const uint32_t beside = limpet_stack_tree_child(tree, outer, 0x4000, 0);
	uint32_t again;

	(void)state;
	assert_true(outer && frame && inner && beside);
	limpet_stack_tree_doubt(tree, is_word, NULL);
	assert_false(limpet_stack_tree_is_doubted(tree, outer));
	assert_true(limpet_stack_tree_is_doubted(tree, frame));
	assert_true(limpet_stack_tree_is_doubted(tree, inner));
	assert_false(limpet_stack_tree_is_doubted(tree, beside));
	/* It is the same node, whatever is thought of it; and what comes on it later is like it. */
	assert_int_equal(limpet_stack_tree_child(tree, frame, 0x3000, 0), inner);
	assert_true(limpet_stack_tree_is_doubted(tree,
						 limpet_stack_tree_child(tree, inner, 0x5000, 0)));
	again = limpet_stack_tree_again(tree, outer, frame, LIMPET_FRAME_INTERPRETED);
	assert_true(again && again != frame);
	assert_false(limpet_stack_tree_is_doubted(tree, again));
	assert_true(limpet_stack_tree_node(tree, again)->flags & LIMPET_STACK_NODE_TRUNCATED);
	limpet_stack_tree_free(tree);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_functions_are_told),
		cmocka_unit_test(test_numbers_that_lie),
		cmocka_unit_test(test_stacks_that_are_doubted),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
