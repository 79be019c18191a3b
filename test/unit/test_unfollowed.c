/* What is said of memory that belongs to no allocator that is followed, and from where on. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/unfollowed.h"
#include "injector/elf/memory_owners.h"
#include "test/unit/target_of.h"

#define MIB ((uint64_t)1 << 20)

static struct limpet_unfollowed_part part_of(uint64_t rss_bytes, uint64_t bytes)
{
	return (struct limpet_unfollowed_part){true, bytes, rss_bytes, 0};
}

static void test_what_is_not_known(void **state)
{
	const struct limpet_unfollowed_part none = {0}, some = part_of(84 * MIB, 38 * MIB);
	struct limpet_unfollowed it;

	(void)state;
	it = limpet_unfollowed_judge(&none, &none, 0, "");
	assert_false(it.known || it.matters);
	it = limpet_unfollowed_judge(&some, &none, 0, "");
	assert_true(it.known && it.is_large && it.matters && !it.has_growth && !it.grows);
	it = limpet_unfollowed_judge(&none, &some, 0, "");
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
		const struct limpet_unfollowed_part before =
			part_of(list[i].rss_mib * MIB, list[i].before_kib << 10);
		const struct limpet_unfollowed_part after =
			part_of(list[i].rss_mib * MIB, list[i].after_kib << 10);
		struct limpet_unfollowed it = limpet_unfollowed_judge(&before, &after, 0, "");

		assert_int_equal(it.is_large, list[i].is_large);
		assert_int_equal(it.grows, list[i].grows);
		assert_int_equal(it.matters, list[i].is_large || list[i].grows);
		assert_int_equal(it.growth_bytes,
				 ((int64_t)list[i].after_kib - (int64_t)list[i].before_kib) * 1024);
	}
}

static void test_words(void **state)
{
	struct limpet_unfollowed_part before = part_of(72 * MIB, 26 * MIB);
	struct limpet_unfollowed_part after = part_of(84 * MIB, 38 * MIB);
	struct limpet_unfollowed it =
		limpet_unfollowed_judge(&before, &after, 0, "mimalloc in bun");
	char words[256], little[8];

	(void)state;
	limpet_unfollowed_format(&it, words, sizeof(words));
	assert_string_equal(words,
			    "38.0 MiB of 84.0 MiB RSS belong to no allocator that limpet follows; "
			    "they grew by 12.0 MiB (mimalloc in bun)");
	limpet_unfollowed_format(&it, little, sizeof(little));
	assert_int_equal(strlen(little), sizeof(little) - 1);
	it = limpet_unfollowed_judge(&after, &after, 0, "");
	limpet_unfollowed_format(&it, words, sizeof(words));
	assert_string_equal(words,
			    "38.0 MiB of 84.0 MiB RSS belong to no allocator that limpet follows");
	/* One that is there, and holds nothing yet. */
	before = after = part_of(84 * MIB, 0);
	it = limpet_unfollowed_judge(&before, &after, 0, "mimalloc in bun");
	assert_true(it.matters && !it.is_large && !it.grows);
	limpet_unfollowed_format(&it, words, sizeof(words));
	assert_string_equal(words, "mimalloc in bun cannot be followed: what is allocated there is "
				   "not in the trace");
	limpet_unfollowed_sentence(&it, words, sizeof(words));
	assert_true(words[0] == 'm');
	it.names = "the heap of CPython";
	limpet_unfollowed_sentence(&it, words, sizeof(words));
	assert_string_equal(words, "The heap of CPython cannot be followed: what is allocated "
				   "there is not in the trace");
}

/* Of an account: heaps of others, and what is of no known owner; what came of that may be what was
 * seen to be mapped. */
static void test_which_rows_count(void **state)
{
	struct limpet_resident_row rows[] = {{.kind = "glibc-main-heap", .bytes = 40 * MIB},
					     {.kind = "v8-heap", .bytes = 20 * MIB},
					     {.kind = "mimalloc-heap", .bytes = 4 * MIB},
					     {.kind = "limpet", .bytes = 2 * MIB},
					     {.kind = "file-pages", .bytes = 8 * MIB},
					     {.kind = "unknown", .bytes = 6 * MIB}};
	struct limpet_resident_account account = {
		.known = true, .rss_bytes = 80 * MIB, .rows = rows, .count = 6};
	const struct limpet_unfollowed_part first = limpet_unfollowed_of(&account), none = {0};
	struct limpet_unfollowed_part last;

	(void)state;
	assert_true(first.known && first.bytes == 30 * MIB && first.rss_bytes == 78 * MIB);
	rows[5].bytes = 16 * MIB;
	last = limpet_unfollowed_of(&account);
	assert_int_equal(limpet_unfollowed_judge(&first, &last, 0, "").growth_bytes, 10 * MIB);
	assert_int_equal(limpet_unfollowed_judge(&first, &last, 4 * MIB, "").growth_bytes, 6 * MIB);
	assert_int_equal(limpet_unfollowed_judge(&first, &last, 99 * MIB, "").growth_bytes, 0);
	assert_int_equal(limpet_unfollowed_judge(&none, &last, 99 * MIB, "").bytes, 24 * MIB);
	account = (struct limpet_resident_account){0};
	assert_false(limpet_unfollowed_of(&account).known);
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
	assert_int_equal(limpet_memory_owners_read(target_of(getpid()), &options, ret), 0);
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

/* A block of glibc's with a mapping of its own, as realloc(3) leaves it. */
struct growing {
	uint64_t *block;
	size_t from, to; /* bytes */
	bool grows;      /* after the mappings were listed */
	enum limpet_memory_account found;
};

static void see_growing(void *context, enum limpet_memory_account account, uint64_t start,
			uint64_t end)
{
	struct growing *growing = context;
	const uint64_t block = (uintptr_t)growing->block;

	if (block >= start && block < end)
		growing->found = account;
	if (growing->grows)
		assert_true(mmap((char *)growing->block + growing->from,
				 growing->to - growing->from, PROT_READ | PROT_WRITE,
				 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != MAP_FAILED);
	growing->grows = false;
}

static enum limpet_memory_account account_of_block(size_t says_bytes, size_t counted_bytes,
						   bool grows)
{
	struct growing growing = {.from = 4 * MIB, .to = 5 * MIB, .grows = grows};
	struct limpet_memory_owners_options options = {.has_glibc = true,
						       .blocks_known = true,
						       .blocks_bytes = counted_bytes,
						       .visit = see_growing,
						       .context = &growing};
	struct limpet_modules modules;
	struct limpet_memory memory;

	assert_int_equal(limpet_modules_read(target_of(getpid()), &modules, NULL), 0);
	options.modules = &modules;
	growing.block = mmap(NULL, growing.to + MIB, PROT_READ | PROT_WRITE,
			     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_true(growing.block != MAP_FAILED);
	assert_int_equal(munmap((char *)growing.block + growing.from, 2 * MIB), 0);
	memset(growing.block, 1, growing.from);
	growing.block[0] = 0;
	growing.block[1] = says_bytes | 2;
	assert_int_equal(limpet_memory_owners_read(target_of(getpid()), &options, &memory), 0);
	munmap(growing.block, growing.to);
	limpet_modules_done(&modules);
	return growing.found;
}

/* It grows while it is looked at: what was read before it is too small for it. */
static void test_a_block_that_grows(void **state)
{
	(void)state;
	assert_int_equal(account_of_block(4 * MIB, 4 * MIB, false), LIMPET_MEMORY_HEAP);
	assert_int_equal(account_of_block(5 * MIB, 4 * MIB, true), LIMPET_MEMORY_HEAP);
	assert_int_equal(account_of_block(4 * MIB, 3 * MIB, false), LIMPET_MEMORY_HEAP);
	assert_int_equal(account_of_block(5 * MIB, 4 * MIB, false), LIMPET_MEMORY_UNKNOWN);
	assert_int_equal(account_of_block(5 * MIB, MIB, true), LIMPET_MEMORY_UNKNOWN);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_what_is_not_known),
		cmocka_unit_test(test_thresholds),
		cmocka_unit_test(test_words),
		cmocka_unit_test(test_which_rows_count),
		cmocka_unit_test(test_executable_memory),
		cmocka_unit_test(test_a_block_that_grows),
	};

	return cmocka_run_group_tests_name("memory accounts", tests, NULL, NULL);
}
