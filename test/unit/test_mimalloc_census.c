/* The blocks in use in segments of mimalloc 2, and in what looks like them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <string.h>

#include "common/err.h"
#include "explain/mimalloc_census.h"

#define BASE UINT64_C(0x20000000000)
#define SLICE ((uint64_t)64 << 10)
#define SECRET UINT64_C(0x8d3f09c7a1e5b624)
/* Of a segment, what is in memory: its head and a page. */
#define HELD_BYTES (3 * SLICE)
enum { SEGMENTS = 3, SLICES = 512, COOKIE = 40, FIRST = 8 * (COOKIE + 6) };

static unsigned char held[SEGMENTS][HELD_BYTES];
static struct limpet_map map;
static const struct limpet_maps maps = {.list = &map, .count = 1};
static const struct limpet_mimalloc mimalloc = {
	.found = true, .offset = COOKIE, .gap = 1, .secret = SECRET};

static int read_memory(void *context, uint64_t address, void *ret, size_t bytes)
{
	const uint64_t at = address % LIMPET_MIMALLOC_SEGMENT_BYTES;
	const uint64_t segment = (address - BASE) / LIMPET_MIMALLOC_SEGMENT_BYTES;

	(void)context;
	if (address < BASE || segment >= SEGMENTS || at + bytes > HELD_BYTES)
		return -ENODATA;
	memcpy(ret, held[segment] + at, bytes);
	return 0;
}

static const struct limpet_memory_reader reader = {.read = read_memory};

static void put(unsigned segment, uint64_t at, uint64_t value, size_t bytes)
{
	memcpy(held[segment] + at, &value, bytes);
}

static uint64_t address_of(unsigned segment, unsigned slice)
{
	return BASE + segment * LIMPET_MIMALLOC_SEGMENT_BYTES + slice * SLICE;
}

/* What differs between releases. */
static const struct release {
	unsigned stride, used, used_bytes, size, size_bytes, start, keys, waiting;
} older = {80, 24, 4, 28, 4, 0, 0, 40}, newer = {96, 32, 2, 40, 8, 48, 0, 56},
  encoded = {112, 32, 2, 40, 8, 48, 56, 72};

static void put_span(const struct release *release, unsigned segment, unsigned slice,
		     unsigned slices)
{
	put(segment, FIRST + (uint64_t)slice * release->stride, slices, 4);
	if (slices > 1)
		put(segment, FIRST + (uint64_t)(slice + slices - 1) * release->stride + 4,
		    (uint64_t)(slices - 1) * release->stride, 4);
}

static void put_page(const struct release *release, unsigned segment, unsigned slice,
		     unsigned slices, uint64_t size, unsigned used)
{
	const uint64_t entry = FIRST + (uint64_t)slice * release->stride;
	const uint64_t room = slices * SLICE / size;

	put_span(release, segment, slice, slices);
	put(segment, entry + 10, used + 1 < room ? used + 1 : room, 2);
	put(segment, entry + 12, room, 2);
	put(segment, entry + release->used, used, release->used_bytes);
	put(segment, entry + release->size, size, release->size_bytes);
	put(segment, entry + release->waiting + 8, BASE, 8);
	if (release->start)
		put(segment, entry + release->start, address_of(segment, slice), 8);
	if (release->keys) {
		put(segment, entry + release->keys, 0x4d, 8);
		put(segment, entry + release->keys + 8, UINT64_C(0x9182736455463728), 8);
	}
}

/* Each has a page of 100 blocks of 64 bytes, one of 6 blocks of 80 KiB, and a block of 1 MiB. */
static void build(const struct release *release)
{
	memset(held, 0, sizeof(held));
	for (unsigned i = 0; i < SEGMENTS; i++) {
		put(i, 8 * (COOKIE - 1), 3, 8);
		put(i, 8 * COOKIE, SECRET ^ address_of(i, 0), 8);
		put(i, 8 * (COOKIE + 1), SLICES, 8);
		put(i, 8 * (COOKIE + 2), 1, 8);
		put(i, 8 * (COOKIE + 4), SLICES, 8);
		put_span(release, i, 0, 1);
		put_page(release, i, 1, 1, 64, 100);
		put_page(release, i, 2, 8, 80 << 10, 6);
		put_page(release, i, 10, 16, 1 << 20, 1);
		put_span(release, i, 26, SLICES - 26);
	}
	map = (struct limpet_map){
		.start = BASE - 4096,
		.end = BASE + SEGMENTS * LIMPET_MIMALLOC_SEGMENT_BYTES,
		.path = (char[]){""},
	};
	memcpy(map.perms, "rw-p", sizeof("rw-p"));
}

static void count(struct limpet_class_tally *tally)
{
	memset(tally, 0, sizeof(*tally));
	assert_int_equal(limpet_mimalloc_count_segments(&reader, &maps, &mimalloc, tally), 0);
}

static void check_all(const struct release *release)
{
	static struct limpet_class_tally tally;

	build(release);
	count(&tally);
	assert_false(tally.is_unknown);
	assert_false(tally.is_cut);
	assert_int_equal(tally.count, 3);
	assert_int_equal(limpet_class_tally_blocks(&tally, 64), 300);
	assert_int_equal(limpet_class_tally_blocks(&tally, 80 << 10), 18);
	assert_int_equal(limpet_class_tally_blocks(&tally, 1 << 20), 3);
	assert_int_equal(limpet_class_tally_blocks(&tally, 128), 0);
}

static void test_releases(void **state)
{
	(void)state;
	check_all(&older);
	check_all(&newer);
	check_all(&encoded);
}

/* internal.h: mi_ptr_encode, with the keys above. */
static uint64_t encode(uint64_t block)
{
	const uint64_t word = block ^ UINT64_C(0x9182736455463728);

	return (word << 13 | word >> 51) + 0x4d;
}

/* Blocks 7 and 9 of segment 1 were freed by another thread, and one more is in the heap's list. */
static void test_blocks_that_other_threads_have_freed(void **state)
{
	static struct limpet_class_tally tally;
	const uint64_t seventh = address_of(1, 1) + 7 * 64, ninth = address_of(1, 1) + 9 * 64;

	(void)state;
	build(&older);
	put(1, FIRST + older.stride + older.waiting, seventh | 2, 8);
	put(1, SLICE + 7 * 64, ninth, 8);
	count(&tally);
	assert_false(tally.is_cut);
	assert_int_equal(limpet_class_tally_blocks(&tally, 64), 297);

	build(&encoded);
	put(1, FIRST + encoded.stride + encoded.waiting, seventh, 8);
	put(1, SLICE + 7 * 64, encode(ninth), 8);
	/* The end: the address of the description. */
	put(1, SLICE + 9 * 64, encode(address_of(1, 0) + FIRST + encoded.stride), 8);
	count(&tally);
	assert_false(tally.is_cut);
	assert_int_equal(limpet_class_tally_blocks(&tally, 64), 298);

	/* The list leads elsewhere: of that page nothing is known. */
	put(1, SLICE + 7 * 64, encode(BASE), 8);
	count(&tally);
	assert_true(tally.is_unknown || tally.is_cut);
	/* Or in a circle. */
	put(1, SLICE + 7 * 64, encode(seventh), 8);
	count(&tally);
	assert_true(tally.is_unknown || tally.is_cut);
}

/* A page that a thread is about to make: it has no blocks yet, or not even room for them. */
static void test_a_page_that_is_being_made(void **state)
{
	static struct limpet_class_tally tally;
	const uint64_t entry = FIRST + newer.stride;

	(void)state;
	build(&newer);
	put(1, entry + 10, 0, 2);
	put(1, entry + newer.used, 0, 2);
	count(&tally);
	assert_false(tally.is_unknown || tally.is_cut);
	assert_int_equal(limpet_class_tally_blocks(&tally, 64), 200);
	put(1, entry + 12, 0, 2);
	put(1, entry + newer.size, SLICE, 8);
	count(&tally);
	assert_false(tally.is_unknown || tally.is_cut);
	assert_int_equal(limpet_class_tally_blocks(&tally, 64), 200);
}

/* A segment that was given back, and one whose memory is not there. */
static void test_segments_without_pages(void **state)
{
	static struct limpet_class_tally tally;

	(void)state;
	build(&newer);
	put(1, 8 * (COOKIE - 1), 0, 8);
	count(&tally);
	assert_false(tally.is_unknown || tally.is_cut);
	assert_int_equal(limpet_class_tally_blocks(&tally, 64), 200);
	put(2, 8 * COOKIE, 0, 8);
	count(&tally);
	assert_int_equal(limpet_class_tally_blocks(&tally, 64), 100);
	put(0, 8 * COOKIE, 0, 8);
	count(&tally);
	assert_true(tally.is_unknown);
}

/* What does not match in one respect, in all segments. */
static void test_what_looks_like_segments(void **state)
{
	static struct limpet_class_tally tally;
	const struct {
		unsigned at; /* of the entry */
		uint64_t value;
		unsigned bytes;
	} bad[] = {{0, 2, 4},
		   {4, 96, 4},
		   {10, 0, 2},
		   {10, 2000, 2},
		   {12, 0, 2},
		   {12, 2000, 2},
		   {16, BASE, 8},
		   {32, 200, 2},
		   {34, 7, 1},
		   {40, 72, 8},
		   {40, 88, 8},
		   {40, 1 << 20, 8},
		   {48, BASE - SLICE, 8},
		   {48, 0, 8},
		   {56, BASE, 8},
		   {64, 3, 8}};

	(void)state;
	for (size_t i = 0; i < LIMPET_COUNT_OF(bad); i++) {
		build(&newer);
		for (unsigned k = 0; k < SEGMENTS; k++)
			put(k, FIRST + newer.stride + bad[i].at, bad[i].value, bad[i].bytes);
		count(&tally);
		assert_true(tally.is_unknown);
	}
	/* The number of pages. */
	build(&newer);
	for (unsigned k = 0; k < SEGMENTS; k++)
		put(k, 8 * (COOKIE - 1), 4, 8);
	count(&tally);
	assert_true(tally.is_unknown);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_releases),
		cmocka_unit_test(test_blocks_that_other_threads_have_freed),
		cmocka_unit_test(test_a_page_that_is_being_made),
		cmocka_unit_test(test_segments_without_pages),
		cmocka_unit_test(test_what_looks_like_segments),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
