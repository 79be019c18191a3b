/* What is said of memory that belongs to no allocator that is followed, and from where on. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/memory_accounts.h"
#include "injector/elf/memory_owners.h"
#include "test/unit/target_of.h"

#define MIB ((uint64_t)1 << 20)

static struct limpet_memory memory_of(uint64_t rss_bytes, uint64_t unknown_bytes)
{
	return (struct limpet_memory){
		.known = true,
		.bytes = {
			[LIMPET_MEMORY_RSS] = rss_bytes, [LIMPET_MEMORY_UNKNOWN] = unknown_bytes}};
}

static void test_what_is_not_known(void **state)
{
	const struct limpet_memory none = {.known = false}, some = memory_of(84 * MIB, 38 * MIB);
	struct limpet_unfollowed it;

	(void)state;
	it = limpet_unfollowed_judge(NULL, NULL, "");
	assert_false(it.known || it.matters);
	it = limpet_unfollowed_judge(&none, &none, "");
	assert_false(it.known || it.matters);
	it = limpet_unfollowed_judge(&some, &none, "");
	assert_true(it.known && it.is_large && it.matters && !it.has_growth && !it.grows);
	it = limpet_unfollowed_judge(&none, &some, "");
	assert_true(it.known && it.is_large && !it.has_growth && !it.grows);
}

static void test_thresholds(void **state)
{
	const struct {
		uint64_t rss_mib, before_kib, after_kib;
		bool is_large, grows;
	} list[] = {
		{84, 0, 0, false, false},
		/* 4 MiB, and a twentieth */
		{80, 4095, 4095, false, false},
		{80, 4096, 4096, true, false},
		{81, 4096, 4096, false, false},
		/* 1 MiB, and a hundredth; less is no growth */
		{100, 0, 1023, false, false},
		{100, 0, 1024, false, true},
		{101, 0, 1024, false, false},
		{100, 1024, 0, false, false},
		{84, 26 << 10, 38 << 10, true, true},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(list) / sizeof(*list); i++) {
		const struct limpet_memory before =
			memory_of(list[i].rss_mib * MIB, list[i].before_kib << 10);
		const struct limpet_memory after =
			memory_of(list[i].rss_mib * MIB, list[i].after_kib << 10);
		struct limpet_unfollowed it = limpet_unfollowed_judge(&before, &after, "");

		assert_int_equal(it.is_large, list[i].is_large);
		assert_int_equal(it.grows, list[i].grows);
		assert_int_equal(it.matters, list[i].is_large || list[i].grows);
		assert_int_equal(it.growth_bytes,
				 ((int64_t)list[i].after_kib - (int64_t)list[i].before_kib) * 1024);
	}
}

static void test_words(void **state)
{
	struct limpet_memory before = memory_of(72 * MIB, 26 * MIB);
	struct limpet_memory after = memory_of(84 * MIB, 38 * MIB);
	struct limpet_unfollowed it = limpet_unfollowed_judge(&before, &after, "mimalloc in bun");
	char words[256], little[8];

	(void)state;
	limpet_unfollowed_say(&it, words, sizeof(words));
	assert_string_equal(words,
			    "38.0 MiB of 84.0 MiB RSS belong to no allocator that limpet follows; "
			    "they grew by 12.0 MiB (mimalloc in bun)");
	limpet_unfollowed_say(&it, little, sizeof(little));
	assert_int_equal(strlen(little), sizeof(little) - 1);
	it = limpet_unfollowed_judge(&after, &after, "");
	limpet_unfollowed_say(&it, words, sizeof(words));
	assert_string_equal(words,
			    "38.0 MiB of 84.0 MiB RSS belong to no allocator that limpet follows");
	/* One that is there, and holds nothing yet. */
	before = after = memory_of(84 * MIB, 0);
	it = limpet_unfollowed_judge(&before, &after, "mimalloc in bun");
	assert_true(it.matters && !it.is_large && !it.grows);
	limpet_unfollowed_say(&it, words, sizeof(words));
	assert_string_equal(words, "mimalloc in bun cannot be followed: what is allocated there is "
				   "not in the trace");
	limpet_unfollowed_sentence(&it, words, sizeof(words));
	assert_true(words[0] == 'm');
	it.names = "the heap of CPython";
	limpet_unfollowed_sentence(&it, words, sizeof(words));
	assert_string_equal(words, "The heap of CPython cannot be followed: what is allocated "
				   "there is not in the trace");
}

/* Where the program maps much by itself, it may be an allocator inside of it. */
static void test_when_names_are_wanted(void **state)
{
	const struct limpet_memory none = {.known = false};
	struct limpet_memory memory = memory_of(84 * MIB, 0);

	(void)state;
	assert_false(limpet_unfollowed_is_to_be_named(&none, &none));
	assert_false(limpet_unfollowed_is_to_be_named(&memory, &none));
	memory.bytes[LIMPET_MEMORY_MAPPED] = 8 * MIB;
	assert_true(limpet_unfollowed_is_to_be_named(&memory, &none));
	assert_true(limpet_unfollowed_is_to_be_named(&none, &memory));
	memory = memory_of(84 * MIB, 38 * MIB);
	assert_true(limpet_unfollowed_is_to_be_named(&memory, &none));
}

/* Of this process, with `map_mib` of writable and executable memory of which the first `used_mib`
 * were touched: what of it counts as code, and as of no known owner. */
static void with_code(uint64_t map_mib, uint64_t used_mib, struct limpet_memory *ret)
{
	uint8_t *code = mmap(NULL, map_mib * MIB, PROT_READ | PROT_WRITE | PROT_EXEC,
			     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	struct limpet_memory_owners_options options = {.judge_none = true};
	struct limpet_modules modules;

	assert_true(code != MAP_FAILED);
	memset(code, 1, used_mib * MIB);
	assert_int_equal(limpet_modules_read(target_of(getpid()), &modules, NULL), 0);
	options.modules = &modules;
	assert_int_equal(limpet_memory_owners_take(target_of(getpid()), &options, ret), 0);
	limpet_modules_done(&modules);
	munmap(code, map_mib * MIB);
}

/* SBCL's heap is mapped as compilers map their code; but no compiler maps and uses so much. */
static void test_executable_memory(void **state)
{
	struct limpet_memory none, jit, heap;

	(void)state;
	with_code(2, 0, &none);
	with_code(200, 80, &jit);
	assert_true(jit.bytes[LIMPET_MEMORY_CODE] >= none.bytes[LIMPET_MEMORY_CODE] + 80 * MIB);
	with_code(512, 80, &heap);
	assert_in_range(heap.bytes[LIMPET_MEMORY_CODE], 64 * MIB,
			none.bytes[LIMPET_MEMORY_CODE] + 64 * MIB);
	assert_true(heap.bytes[LIMPET_MEMORY_UNKNOWN] >=
		    none.bytes[LIMPET_MEMORY_UNKNOWN] + 15 * MIB);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_what_is_not_known),
		cmocka_unit_test(test_thresholds),
		cmocka_unit_test(test_words),
		cmocka_unit_test(test_when_names_are_wanted),
		cmocka_unit_test(test_executable_memory),
	};

	return cmocka_run_group_tests_name("memory accounts", tests, NULL, NULL);
}
