/* When figures condemn a signature, and when they do not. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "collector/stream/plausible.h"
#include "test/unit/target_of.h"

#define OWNER 3u

static const char *name_of(const void *context, uint32_t owner)
{
	assert_int_equal(owner, OWNER);
	return context;
}

static const char *judged(const struct limpet_plausible *plausible)
{
	static char words[160];

	limpet_plausible_judge(plausible, name_of, "pool", words, sizeof(words));
	return words;
}

static void make(struct limpet_plausible *plausible, unsigned count, uint64_t address,
		 uint64_t bytes)
{
	for (unsigned i = 0; i < count; i++)
		limpet_plausible_made(plausible, target_of(getpid()), OWNER, address, bytes);
}

static void test_one_of_sixty_four(void **state)
{
	struct limpet_plausible plausible = {0};

	(void)state;
	make(&plausible, 63, 1 << 20, 1ull << 62);
	assert_string_equal(judged(&plausible), "");
	make(&plausible, 1, 1 << 20, 16);
	assert_string_equal(judged(&plausible), "a signature of allocator pool is wrong: 63 of 64 "
						"blocks are larger than the process");
	make(&plausible, 63 * 64, 1 << 20, 16);
	assert_string_equal(judged(&plausible), "");
}

static void test_blocks_are_somewhere(void **state)
{
	struct limpet_plausible low = {0}, high = {0}, unknown = {0};

	(void)state;
	make(&low, 64, 65535, 1);
	assert_non_null(strstr(judged(&low), "outside of its memory"));
	make(&high, 64, UINT64_MAX - 4095, 1);
	assert_non_null(strstr(judged(&high), "outside of its memory"));
	/* Of functions that nobody named. */
	for (unsigned i = 0; i < 64; i++)
		limpet_plausible_made(&unknown, target_of(getpid()), 0, 8, 1);
	assert_string_equal(judged(&unknown), "");
	for (unsigned i = 0; i < 64; i++)
		limpet_plausible_released(&unknown, 8);
	assert_string_equal(
		judged(&unknown),
		"a signature is wrong: 64 of 64 released blocks are outside of its memory");
}

/* It is what it had that counts: it may have given it back. */
static void test_a_block_may_be_gone(void **state)
{
	const uint64_t bytes = 1ull << 40;
	struct limpet_plausible plausible = {0};
	void *memory =
		mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	(void)state;
	assert_ptr_not_equal(memory, MAP_FAILED);
	munmap(memory, bytes);
	make(&plausible, 64, 1 << 20, bytes);
	assert_string_equal(judged(&plausible), "");
}

static void test_a_process_that_grows(void **state)
{
	const uint64_t bytes = 1ull << 41;
	struct limpet_plausible plausible = {0};
	void *memory;

	(void)state;
	make(&plausible, 1, 1 << 20, bytes);
	memory = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	assert_ptr_not_equal(memory, MAP_FAILED);
	/* It is asked again in a while only. */
	plausible.asked_ns = 0;
	make(&plausible, 127, 1 << 20, bytes);
	munmap(memory, bytes);
	assert_int_equal(plausible.owners[OWNER].too_large, 1);
	assert_string_equal(judged(&plausible), "");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_one_of_sixty_four),
		cmocka_unit_test(test_blocks_are_somewhere),
		cmocka_unit_test(test_a_block_may_be_gone),
		cmocka_unit_test(test_a_process_that_grows),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
