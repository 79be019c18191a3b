/* What the agent calls at a function's entry leaves vector registers as they were, in each way in
 * which they are saved. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "agent/agent.h"
#include "injector/ptrace/arch.h"
#include "test/targets/target.h"
#include "test/targets/vectors.h"

static struct vectors garbage;

static uint64_t spoil(uint64_t a, uint64_t b, uint64_t c)
{
	vectors_load(&garbage);
	return a << 32 | b << 16 | c;
}

static uint64_t change_nothing(uint64_t a, uint64_t b, uint64_t c)
{
	return a << 32 | b << 16 | c;
}

static void expect_kept(uint64_t level)
{
	static uint64_t (*const functions[])(uint64_t, uint64_t, uint64_t) = {spoil,
									      change_nothing};
	static uint64_t seed = 1;
	struct vectors before, after;

	for (size_t i = 0; i < 2; i++) {
		vectors_fill(&before, level, target_random, &seed);
		after = before;
		assert_int_equal(vectors_call(&after, (uintptr_t)limpet_call_beside, 1, 2, 3,
					      (uintptr_t)functions[i]),
				 0x100020003);
		assert_memory_equal(&after, &before, sizeof(before));
	}
}

static void test_each_way(void **state)
{
	const struct limpet_vectors own = limpet_xstate_vectors();
	uint64_t seed = 2;

	(void)state;
	vectors_fill(&garbage, vectors_best(), target_random, &seed);
	limpet_vectors = own;
	for (uint64_t level = 0; level <= vectors_best(); level++)
		expect_kept(level);
	/* A processor that does not tell what is in use. */
	limpet_vectors.by_hand = 0;
	if (limpet_vectors.bytes < 4096)
		limpet_vectors.bytes = 4096;
	for (uint64_t level = 0; own.mask && level <= vectors_best(); level++)
		expect_kept(level);
	/* One without xsave has SSE alone. */
	limpet_vectors = (struct limpet_vectors){.bytes = own.bytes, .by_hand = 1};
	vectors_fill(&garbage, VECTORS_SSE, target_random, &seed);
	expect_kept(VECTORS_SSE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_each_way),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
