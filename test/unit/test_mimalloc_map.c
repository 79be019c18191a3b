/* The blocks in use in arenas of mimalloc 3, and in what looks like them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/err.h"
#include "explain/mimalloc_census.h"
#include "test/unit/target_of.h"

#define BASE UINT64_C(0x200000000000)
#define SLICE ((uint64_t)64 << 10)
/* The map's root and its one part, and the arena, which has its descriptions in its first slice. */
#define ROOT BASE
#define PART (BASE + ((uint64_t)4 << 20))
#define ARENA (BASE + ((uint64_t)8 << 20))
#define BYTES ((uint64_t)32 << 20)
#define SMALL (ARENA + SLICE)
#define MEDIUM (ARENA + 2 * SLICE)
#define ALONE (ARENA + 10 * SLICE)
enum { LONG_SLICES = 63 };

/* One more candidate than are looked at. */
enum { CANDIDATES = 65536, DATA_WORDS = CANDIDATES + 512 };
static _Alignas(4096) uint64_t data[DATA_WORDS];
static struct limpet_map list[2];
static const struct limpet_maps maps = {.list = list, .count = 2};
static struct limpet_mimalloc_arenas arenas = {.list = {ARENA}, .count = 1};
static struct limpet_pages *pages;

static uint64_t absent; /* a word that cannot be read alone; 0: none */

static int read_memory(void *context, uint64_t address, void *ret, size_t bytes)
{
	(void)context;
	if (absent && address == absent && bytes == sizeof(absent))
		return -ENODATA;
	for (size_t i = 0; i < maps.count; i++)
		if (address >= list[i].start && address + bytes <= list[i].end) {
			memcpy(ret, (void *)(uintptr_t)address, bytes);
			return 0;
		}
	return -ENODATA;
}

static const struct limpet_memory_reader reader = {.read = read_memory};

static void put(uint64_t address, uint64_t value, size_t bytes)
{
	memcpy((void *)(uintptr_t)address, &value, bytes);
}

static uint64_t description_of(uint64_t page, bool separate)
{
	return separate ? ARENA + 4096 + (page - ARENA) / SLICE * 128 : page;
}

/* `words`: as in 3.4, the start is an offset, and descriptions are apart. */
static void put_page(uint64_t page, unsigned slices, uint64_t size, unsigned reserved,
		     unsigned used, bool words)
{
	const uint64_t at = description_of(page, words), start = words ? page : page + 4096;

	put(at + 16, used, 2);
	put(at + 18, used + 1 < reserved ? used + 1 : reserved, 2);
	put(at + 20, reserved, 2);
	put(at + 32, 1, 8);
	put(at + 40, size, 8);
	if (words)
		put(at + 48, (start - at) / 8, 4);
	else
		put(at + 48, start, 8);
	put(at + 64, BASE, 8);
	for (unsigned i = 0; i < slices; i++)
		put(PART + 8 * ((page / SLICE + i) % 8192), at, 8);
}

static void build(bool words)
{
	memset((void *)(uintptr_t)BASE, 0, BYTES);
	data[100] = ROOT;
	put(ROOT + 8 * (ARENA >> 29), PART, 8);
	put_page(SMALL, 1, 64, 900, 100, words);
	put_page(MEDIUM, 8, 10240, 50, 6, words);
	put_page(ALONE, LONG_SLICES, 8 << 20, 1, 1, words);
}

static int begin(void **state)
{
	/* The program may have named it. */
	static char named[] = "[anon:heap]", library[] = "/lib/mimalloc.so";

	(void)state;
	if (mmap((void *)(uintptr_t)BASE, BYTES, PROT_READ | PROT_WRITE,
		 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE | MAP_NORESERVE, -1,
		 0) != (void *)(uintptr_t)BASE)
		return -1;
	list[0] = (struct limpet_map){.start = BASE, .end = BASE + BYTES, .path = named};
	list[1] = (struct limpet_map){.start = (uintptr_t)data,
				      .end = (uintptr_t)data + sizeof(data),
				      .inode = 7,
				      .path = library};
	for (size_t i = 0; i < maps.count; i++)
		memcpy(list[i].perms, "rw-p", sizeof("rw-p"));
	return limpet_pages_new(target_of(getpid()), LIMPET_PAGES_SCAN, &pages);
}

static int end(void **state)
{
	(void)state;
	limpet_pages_free(pages);
	return munmap((void *)(uintptr_t)BASE, BYTES);
}

static void count(struct limpet_class_tally *tally)
{
	memset(tally, 0, sizeof(*tally));
	assert_int_equal(limpet_mimalloc_count_map(&reader, &maps, pages, &arenas, tally), 0);
}

static void test_releases(void **state)
{
	static struct limpet_class_tally tally;

	(void)state;
	for (int words = 0; words < 2; words++) {
		build(words);
		count(&tally);
		assert_false(tally.is_unknown);
		assert_false(tally.is_cut);
		assert_int_equal(tally.count, 3);
		assert_int_equal(limpet_class_tally_blocks(&tally, 64), 100);
		assert_int_equal(limpet_class_tally_blocks(&tally, 10240), 6);
		assert_int_equal(limpet_class_tally_blocks(&tally, 8 << 20), 1);
	}
}

static void test_blocks_that_other_threads_have_freed(void **state)
{
	static struct limpet_class_tally tally;
	const uint64_t third = SMALL + 4096 + 3 * 64, ninth = SMALL + 4096 + 9 * 64;

	(void)state;
	build(false);
	put(SMALL + 32, third | 1, 8);
	put(third, ninth, 8);
	put(ninth, 0, 8);
	count(&tally);
	assert_false(tally.is_cut);
	assert_int_equal(limpet_class_tally_blocks(&tally, 64), 98);
	/* In a circle; and it cannot be asked whether the page is there still. */
	put(ninth, third, 8);
	for (int i = 0; i < 2; i++) {
		count(&tally);
		assert_true(tally.is_unknown || tally.is_cut);
		absent = PART + 8 * (SMALL / SLICE % 8192);
	}
	absent = 0;
}

/* What does not match in one respect. */
static void test_what_looks_like_a_map(void **state)
{
	static struct limpet_class_tally tally;
	const struct {
		unsigned at; /* of the description */
		uint64_t value;
		unsigned bytes;
	} bad[] = {{8, BASE, 8},      {16, 500, 2},
		   {18, 0, 2},        {18, 901, 2},
		   {20, 0, 2},        {20, 2000, 2},
		   {32, BASE, 8},     {40, 72, 8},
		   {40, 68, 8},       {40, 0, 8},
		   {48, BASE, 8},     {48, MEDIUM, 8},
		   {64, BASE + 3, 8}, {64, UINT64_C(1) << 50, 8}};

	(void)state;
	for (size_t i = 0; i < LIMPET_COUNT_OF(bad); i++) {
		build(false);
		put(SMALL + bad[i].at, bad[i].value, bad[i].bytes);
		count(&tally);
		assert_true(tally.is_unknown);
	}
	/* No map leads there. */
	build(false);
	data[100] = 0;
	count(&tally);
	assert_true(tally.is_unknown);
	/* Only one page: that may be chance. */
	build(false);
	memset((void *)(uintptr_t)PART, 0, 65536);
	put_page(SMALL, 1, 64, 900, 100, false);
	count(&tally);
	assert_true(tally.is_unknown);
}

/* Words that could lead to a map, before the one that does or behind it. */
static void test_more_candidates_than_are_looked_at(void **state)
{
	static struct limpet_class_tally tally;

	(void)state;
	for (int before = 0; before < 2; before++) {
		build(false);
		for (size_t i = 0; i < CANDIDATES; i++)
			data[i + !before] = BASE + BYTES - 4096;
		data[before ? CANDIDATES : 0] = ROOT;
		count(&tally);
		assert_true(tally.is_cut);
		assert_false(tally.is_unknown);
		assert_int_equal(limpet_class_tally_blocks(&tally, 64), before ? 0 : 100);
		memset(data, 0, sizeof(data));
	}
}

static void test_more_arenas_than_there_is_room_for(void **state)
{
	static struct limpet_class_tally tally;

	(void)state;
	build(false);
	while (arenas.count < LIMPET_MIMALLOC_ARENAS)
		limpet_mimalloc_arenas_add(&arenas, ARENA);
	count(&tally);
	assert_false(tally.is_cut);
	limpet_mimalloc_arenas_add(&arenas, ARENA);
	count(&tally);
	assert_true(tally.is_cut);
	assert_false(tally.is_unknown);
	assert_int_equal(limpet_class_tally_blocks(&tally, 64), 100);
	/* One that no map leads to, behind those by which a map is found. */
	arenas.is_cut = false;
	arenas.list[20] = ARENA + 16 * SLICE;
	count(&tally);
	assert_true(tally.is_cut);
	arenas = (struct limpet_mimalloc_arenas){.list = {ARENA}, .count = 1};
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_releases),
		cmocka_unit_test(test_blocks_that_other_threads_have_freed),
		cmocka_unit_test(test_what_looks_like_a_map),
		cmocka_unit_test(test_more_candidates_than_are_looked_at),
		cmocka_unit_test(test_more_arenas_than_there_is_room_for),
	};

	return cmocka_run_group_tests(tests, begin, end);
}
