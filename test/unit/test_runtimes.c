/* What the heaps of runtimes look like at the start of a page, and what does not look so; and
 * ranges of pages. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <string.h>

#include "common/err.h"
#include "explain/mimalloc.h"
#include "explain/present.h"
#include "explain/runtimes.h"
#include "explain/runtimes/v8_pages.h"

#define AT UINT64_C(0x47f2500000)

static int read_nothing(void *context, uint64_t address, void *ret, size_t bytes)
{
	(void)context;
	(void)address;
	memset(ret, 0, bytes);
	return -ENODATA;
}

static void test_a_page_of_v8(void **state)
{
	/* Of node 20. */
	const uint64_t good[LIMPET_V8_HEAD_WORDS] = {0x40000,      0x4,     0x118240e0, AT + 0x1148,
						     AT + 0x40000, 0x3eeb8, 0x10};
	const struct {
		unsigned word;
		uint64_t value;
	} bad[] = {{0, 0},          {0, 0x1000}, {0, 0x40008},      {0, UINT64_MAX},
		   {1, UINT64_MAX}, {2, 3},      {3, AT},           {3, AT + 0x30000},
		   {3, 0},          {4, AT},     {4, AT + 0x40008}, {4, AT + 0x2000}};
	uint64_t words[LIMPET_V8_HEAD_WORDS];
	struct limpet_v8_page page;

	(void)state;
	assert_true(limpet_v8_judge_head(AT, good, &page));
	assert_int_equal(page.bytes, 0x40000);
	assert_int_equal(page.allocated_bytes, 0x3eeb8);
	assert_false(page.flags & LIMPET_V8_FLAGS_YOUNG);
	assert_false(limpet_v8_page_is_large(&page));
	assert_false(limpet_v8_judge_head(AT + 0x1000, good, &page));
	for (size_t i = 0; i < LIMPET_COUNT_OF(bad); i++) {
		memcpy(words, good, sizeof(words));
		words[bad[i].word] = bad[i].value;
		assert_false(limpet_v8_judge_head(AT, words, &page));
	}
	memcpy(words, good, sizeof(words));
	words[1] = 0x12;
	assert_true(limpet_v8_judge_head(AT, words, &page));
	assert_true(page.flags & LIMPET_V8_FLAGS_YOUNG);
	words[0] = 0x9f5000;
	words[4] = AT + 0x9f45e0;
	assert_true(limpet_v8_judge_head(AT, words, &page));
	assert_int_equal(page.bytes, 0x9f5000);
	assert_true(limpet_v8_page_is_large(&page));
	/* Cut to what it holds. */
	words[0] = 0x25000;
	words[4] = AT + 0x25000;
	assert_true(limpet_v8_judge_head(AT, words, &page));
}

static void test_newer_pages_of_v8(void **state)
{
	/* Of node 22. */
	uint64_t head[LIMPET_V8_HEAD_WORDS] = {0x8012,      AT,           0x40000, 0x28968ea0,
					       AT + 0x1140, AT + 0x40000, 0x3eec0};
	/* Of node 24. */
	uint64_t metadata[LIMPET_V8_METADATA_WORDS] = {0x6b8ed90,  AT,       0x40000, 0x3ffb0,
						       0x40,       0x3fff8,  0x40000, AT + 0x40000,
						       0x46534ff8, AT + 0x10};
	struct limpet_v8_page page;

	(void)state;
	assert_true(limpet_v8_judge_head(AT, head, &page));
	assert_int_equal(page.bytes, 0x40000);
	assert_true(page.flags & LIMPET_V8_FLAGS_YOUNG);
	head[1] += 0x40000;
	assert_false(limpet_v8_judge_head(AT, head, &page));
	assert_true(limpet_v8_judge_metadata(AT, 0x104, metadata, &page));
	assert_int_equal(page.bytes, 0x40000);
	assert_int_equal(page.allocated_bytes, 0x3ffb0);
	assert_false(limpet_v8_judge_metadata(AT + 0x40000, 0x104, metadata, &page));
	metadata[7] = AT + 0x50000;
	assert_false(limpet_v8_judge_metadata(AT, 0x104, metadata, &page));
	/* What is never written belongs to no heap. */
	metadata[1] = metadata[8] = 0;
	metadata[7] = AT + 0x40000;
	assert_true(limpet_v8_judge_metadata(AT, 0x104, metadata, &page));
	assert_int_equal(page.heap, 0);
}

static void test_a_pool_of_python(void **state)
{
	/* Objects of 64 bytes, class 3, in a pool of 16 KiB. */
	const uint64_t good[] = {5,  AT + 0x70,         AT,
				 AT, UINT64_C(3) << 32, 0x170 | (UINT64_C(0x4000) - 64) << 32};
	const struct {
		unsigned word;
		uint64_t value;
	} bad[] = {{0, 256},
		   {0, UINT32_MAX},
		   {1, 8},
		   {1, AT},
		   {1, AT + 0x4000},
		   {1, AT + 0x71},
		   {4, UINT64_C(4) << 32},
		   {4, UINT64_C(32) << 32},
		   {5, 0x4001 | (UINT64_C(0x4000) - 64) << 32},
		   {5, 0}};
	uint64_t words[LIMPET_PYTHON_WORDS], used = 0;

	(void)state;
	assert_int_equal(limpet_runtimes_python_pool(AT, good, &used), 0x4000);
	assert_int_equal(used, 5 * 64);
	/* Not aligned to its size. */
	assert_int_equal(limpet_runtimes_python_pool(AT + 0x1000, good, &used), 0);
	for (size_t i = 0; i < LIMPET_COUNT_OF(bad); i++) {
		memcpy(words, good, sizeof(words));
		words[bad[i].word] = bad[i].value;
		assert_int_equal(limpet_runtimes_python_pool(AT, words, &used), 0);
	}
	/* Before 3.10. */
	memcpy(words, good, sizeof(words));
	words[5] = 0x170 | (UINT64_C(0x1000) - 64) << 32;
	assert_int_equal(limpet_runtimes_python_pool(AT, words, &used), 0x1000);
	memset(words, 0, sizeof(words));
	assert_int_equal(limpet_runtimes_python_pool(AT, words, &used), 0);
}

static void test_an_extent_of_jemalloc(void **state)
{
	const uint64_t entry = UINT64_C(0x000e7fd1b8d0d101);
	/* A slab of 3 pages for blocks of 384 bytes, 20 of them free. */
	const uint64_t good[] = {UINT64_C(0x140e0b000), UINT64_C(0x7fd1ad38a000), 0x3001};
	const struct {
		unsigned word;
		uint64_t value;
	} bad[] = {{0, UINT64_C(0x140f0b000)},
		   {0, UINT64_C(0x14020b000)},
		   {0, UINT64_C(0x3ff0e0b000)},
		   {0, UINT64_C(0x140e8b000)},
		   {1, 0},
		   {1, 0xfff},
		   {2, 0},
		   {2, 0xfff},
		   {2, UINT64_MAX}};
	const uint64_t large = (entry & UINT64_C(0xffffffffff80)) | UINT64_C(36) << 48;
	uint64_t words[LIMPET_JEMALLOC_WORDS];
	struct limpet_jemalloc_extent extent = {0};

	(void)state;
	assert_int_equal(limpet_jemalloc_extent_address(entry), UINT64_C(0x7fd1b8d0d100));
	assert_int_equal(limpet_jemalloc_extent_address(UINT64_C(0x0001ffff12345680)),
			 UINT64_C(0xffffffff12345680));
	assert_true(limpet_jemalloc_judge(entry, good[1], good, &extent));
	assert_int_equal(extent.start, UINT64_C(0x7fd1ad38a000));
	assert_int_equal(extent.end, UINT64_C(0x7fd1ad38d000));
	assert_true(extent.in_use);
	assert_int_equal(extent.free_bytes, 20 * 384);
	assert_int_equal(extent.block_bytes, 384);
	assert_int_equal(extent.blocks, 3 * 4096 / 384 - 20);
	for (size_t i = 0; i < LIMPET_COUNT_OF(bad); i++) {
		memcpy(words, good, sizeof(words));
		words[bad[i].word] = bad[i].value;
		assert_false(limpet_jemalloc_judge(entry, good[1], words, &extent));
	}
	/* Entries of pages before it and behind it. */
	assert_false(limpet_jemalloc_judge(entry, good[1] - 4096, good, &extent));
	assert_false(limpet_jemalloc_judge(entry, good[1] + 3 * 4096, good, &extent));
	/* Dirty pages. The entry's size class is that of the block before. */
	memcpy(words, good, sizeof(words));
	words[0] = UINT64_C(0xe82a000);
	assert_true(limpet_jemalloc_judge(entry | 1 << 2, good[1], words, &extent));
	assert_false(extent.in_use);
	assert_false(extent.retained);
	/* Retained ones: a purge does not return them. */
	words[0] = UINT64_C(0xe86a000);
	assert_true(limpet_jemalloc_judge(entry | 3 << 2, good[1], words, &extent));
	assert_false(extent.in_use);
	assert_true(extent.retained);
	assert_int_equal(extent.blocks, 0);
	/* A large block of 16 KiB, in five pages; one that waits for use again is of no known size.
	 */
	words[0] = UINT64_C(36) << 20;
	words[2] = 5 * 4096;
	assert_true(limpet_jemalloc_judge(large, good[1], words, &extent));
	assert_int_equal(extent.block_bytes, 16384);
	assert_int_equal(extent.blocks, 1);
	words[0] = UINT64_C(232) << 20;
	assert_true(limpet_jemalloc_judge(large, good[1], words, &extent));
	assert_true(extent.in_use);
	assert_int_equal(extent.block_bytes, 0);
}

/* What the entry says of an extent, and what the extent says itself. */
static void test_an_entry_of_jemalloc_agrees_with_its_extent(void **state)
{
	const uint64_t at = UINT64_C(0x7fd1ad38a000), extent = UINT64_C(0x7fd1b8d0d100);
	const uint64_t head = UINT64_C(1) << 44, slab = UINT64_C(1) << 12;
	const struct {
		uint64_t entry, page, bits;
		bool agree;
	} cases[] = {/* A slab, a head, of blocks of 384 bytes: in the midst of it, no head. */
		     {UINT64_C(14) << 48 | 3, 0, UINT64_C(14) << 20 | slab | head, true},
		     {UINT64_C(14) << 48 | 1, 4096, UINT64_C(14) << 20 | slab | head, true},
		     {UINT64_C(14) << 48 | 1, 0, UINT64_C(14) << 20 | slab | head, false},
		     {UINT64_C(14) << 48 | 3, 4096, UINT64_C(14) << 20 | slab, false},
		     {UINT64_C(14) << 48, 0, UINT64_C(14) << 20 | slab, false},
		     {UINT64_C(15) << 48 | 1, 4096, UINT64_C(14) << 20 | slab, false},
		     /* A large block. Its last page has what was there before. */
		     {UINT64_C(36) << 48, 0, UINT64_C(36) << 20, true},
		     {UINT64_C(14) << 48 | 1, 8192, UINT64_C(36) << 20, true},
		     {UINT64_C(14) << 48, 0, UINT64_C(36) << 20, false},
		     {UINT64_C(36) << 48 | 1, 0, UINT64_C(36) << 20, false},
		     {UINT64_C(36) << 48, 0, UINT64_C(36) << 20 | head, false},
		     /* Free pages, that were a slab. */
		     {UINT64_C(14) << 48 | 1 << 2, 0, UINT64_C(232) << 20 | 1 << 17 | slab, true},
		     {UINT64_C(232) << 48 | 2 << 2, 0, UINT64_C(232) << 20 | 1 << 17, false},
		     {UINT64_C(232) << 48, 0, UINT64_C(232) << 20 | 1 << 17, false},
		     /* Of 5.2.1, as it ran: slabs, large blocks, free pages and retained ones. */
		     {UINT64_C(14) << 48 | 1, 0, UINT64_C(14) << 18 | slab | 0xe000, false},
		     {UINT64_C(12) << 48 | 1, 0, UINT64_C(12) << 18 | slab | 0xe000, false},
		     {UINT64_C(36) << 48, 0, UINT64_C(36) << 18 | 0xe000, false},
		     {UINT64_C(40) << 48, 0, UINT64_C(40) << 18 | 0x6000, false},
		     {UINT64_C(232) << 48, 0, UINT64_C(232) << 18 | 1 << 16 | 0xe000, false},
		     {UINT64_C(232) << 48, 0, UINT64_C(232) << 18 | 2 << 16 | 0x6000, false},
		     {UINT64_C(232) << 48, 0, UINT64_C(232) << 18 | 3 << 16 | 0xe000, false}};

	(void)state;
	for (size_t i = 0; i < LIMPET_COUNT_OF(cases); i++) {
		const uint64_t words[] = {cases[i].bits, at, 3 * 4096 + 1};
		struct limpet_jemalloc_extent found;

		if (limpet_jemalloc_judge(cases[i].entry | extent, at + cases[i].page, words,
					  &found) != cases[i].agree)
			fail_msg("case %zu", i);
	}
}

static void test_segments_of_mimalloc(void **state)
{
	static struct limpet_mimalloc_head heads[3];
	const uint64_t secret = UINT64_C(0xbc8bff903628550);
	struct limpet_mimalloc found = {.found = false};

	(void)state;
	for (unsigned i = 0; i < 3; i++) {
		heads[i].address = AT + i * LIMPET_MIMALLOC_SEGMENT_BYTES;
		heads[i].words[3] = heads[i].address + 0x100; /* points into itself */
		heads[i].words[4] = 512;
		heads[i].words[27] = heads[i].address ^ secret;
		heads[i].words[28] = 512;
	}
	assert_true(limpet_mimalloc_judge(heads, 3, &found));
	assert_int_equal(found.offset, 27);
	assert_int_equal(found.secret, secret);
	/* One of three is something else. */
	heads[1].words[27] = 0;
	assert_true(limpet_mimalloc_judge(heads, 3, &found));
	assert_false(limpet_mimalloc_judge(heads, 2, &found));
	heads[2].words[28] = 511;
	assert_false(limpet_mimalloc_judge(heads, 3, &found));
	/* Newer ones have two words between. */
	heads[0].words[30] = heads[2].words[30] = 512;
	assert_true(limpet_mimalloc_judge(heads, 3, &found));
	assert_int_equal(found.offset, 27);
	assert_int_equal(found.gap, 3);
}

/* As in programs built with two of its releases, one of which has a pointer more. */
static void test_arenas_of_mimalloc(void **state)
{
	const uint64_t address = UINT64_C(0x5688b400000), gib = (uint64_t)1 << 30;
	const uint64_t newer[LIMPET_MIMALLOC_ARENA_WORDS] = {
		address, gib,       UINT64_C(0x1010000000004), UINT64_C(0x7f407bfb09c0), 0, 0x4000,
		0x21,    UINT32_MAX};
	const uint64_t older[LIMPET_MIMALLOC_ARENA_WORDS] = {
		address, gib, UINT64_C(0x1010000000003), 0x69ddc00, 0, address, 0x4000, 0x2b, 3};
	uint64_t words[LIMPET_MIMALLOC_ARENA_WORDS];
	/* Another address, another size, other numbers. */
	static const struct {
		unsigned word;
		uint64_t value;
	} wrong[] = {{0, 0x10000}, {1, 0}, {1, 65536},  {1, UINT64_MAX}, {1, 0x40000001},
		     {5, 0x3fff},  {6, 0}, {6, 0x4000}, {7, 1024},       {7, 1u << 31}};

	(void)state;
	assert_int_equal(limpet_mimalloc_judge_arena(address, newer), gib);
	assert_int_equal(limpet_mimalloc_judge_arena(address, older), gib);
	assert_int_equal(limpet_mimalloc_judge_arena(address + 65536, newer), 0);
	for (size_t i = 0; i < LIMPET_COUNT_OF(wrong); i++) {
		memcpy(words, newer, sizeof(words));
		words[wrong[i].word] = wrong[i].value;
		assert_int_equal(limpet_mimalloc_judge_arena(address, words), 0);
	}
}

/* What is in a heap is the heap's, even if the program has named it; the rest keeps its name. */
static void test_named_memory_in_a_heap(void **state)
{
	enum { START = 0x7f0000000000 >> 12 };
	const uint64_t start = (uint64_t)START << 12, end = start + 0x8000;
	struct limpet_heap_range range = {.start = start, .end = start + 0x4000};
	struct limpet_go go = {.ranges = {.list = &range, .count = 1}};
	struct limpet_jemalloc jemalloc = {.count = 0};
	struct limpet_tcmalloc tcmalloc = {.is_cut = false};
	struct limpet_gperftools gperftools = {.count = 0};
	const struct limpet_runtimes_heaps heaps = {
		.jemalloc = &jemalloc, .tcmalloc = &tcmalloc, .gperftools = &gperftools, .go = &go};
	const struct limpet_memory_reader none = {.read = read_nothing};
	struct limpet_modules modules = {.count = 0};
	struct limpet_memory_ranges pieces = {.count = 0};
	struct limpet_runtimes_marked unused;

	(void)state;
	limpet_memory_ranges_add(
		&pieces, &(struct limpet_memory_range){
				 .start = start, .end = end, .account = LIMPET_MEMORY_NAMED});
	assert_int_equal(limpet_runtimes_mark(&none, &modules, &heaps, &pieces, &unused), 0);
	assert_int_equal(pieces.count, 2);
	assert_string_equal(pieces.list[0].kind, LIMPET_KIND_GO);
	assert_int_equal(pieces.list[0].account, LIMPET_MEMORY_UNKNOWN);
	assert_int_equal(pieces.list[0].end, start + 0x4000);
	assert_null(pieces.list[1].kind);
	assert_int_equal(pieces.list[1].account, LIMPET_MEMORY_NAMED);
	limpet_memory_ranges_done(&pieces);
}

/* The head of an arena of 128 KiB at each address. */
static int read_head(void *context, uint64_t address, void *ret, size_t bytes)
{
	const uint64_t words[LIMPET_MIMALLOC_ARENA_WORDS] = {address, 0x20000, 0, 0, 2, 1, 0};

	(void)context;
	if (bytes > sizeof(words))
		return -ENODATA;
	memcpy(ret, words, bytes);
	return 0;
}

/* A large heap of mimalloc 3 has many arenas: all of them are known, or it is said. */
static void test_all_arenas_are_noted(void **state)
{
	const uint64_t start = UINT64_C(0x7f0000000000), arena = 0x20000;
	struct limpet_go go = {.is_there = false};
	struct limpet_jemalloc jemalloc = {.count = 0};
	struct limpet_tcmalloc tcmalloc = {.is_cut = false};
	struct limpet_gperftools gperftools = {.count = 0};
	const struct limpet_runtimes_heaps heaps = {
		.jemalloc = &jemalloc, .tcmalloc = &tcmalloc, .gperftools = &gperftools, .go = &go};
	const struct limpet_memory_reader reader = {.read = read_head};

	(void)state;
	for (size_t count = 17; count < 1000; count += LIMPET_MIMALLOC_ARENAS) {
		struct limpet_map map = {.start = start,
					 .end = start + count * arena,
					 .perms = "rw-p",
					 .path = (char[]){""}};
		struct limpet_modules modules = {.maps = {.list = &map, .count = 1}};
		struct limpet_memory_ranges pieces = {.count = 0};
		struct limpet_runtimes_marked marked;

		limpet_memory_ranges_add(
			&pieces, &(struct limpet_memory_range){.start = map.start,
							       .end = map.end,
							       .account = LIMPET_MEMORY_UNKNOWN});
		assert_int_equal(limpet_runtimes_mark(&reader, &modules, &heaps, &pieces, &marked),
				 0);
		assert_int_equal(marked.arenas.is_cut, count > LIMPET_MIMALLOC_ARENAS);
		assert_int_equal(marked.arenas.count,
				 count > LIMPET_MIMALLOC_ARENAS ? LIMPET_MIMALLOC_ARENAS : count);
		for (size_t i = 0; i < marked.arenas.count; i++)
			assert_int_equal(marked.arenas.list[i], start + i * arena);
		limpet_memory_ranges_done(&pieces);
	}
}

/* Heads of segments of 32 MiB, at multiples of that. */
static int read_segment(void *context, uint64_t address, void *ret, size_t bytes)
{
	const uint64_t secret = UINT64_C(0xbc8bff903628550);
	const uint64_t start =
		address / LIMPET_MIMALLOC_SEGMENT_BYTES * LIMPET_MIMALLOC_SEGMENT_BYTES;
	uint64_t words[LIMPET_MIMALLOC_HEAD_WORDS] = {[27] = start ^ secret, [28] = 512};

	(void)context;
	if (address - start + bytes > sizeof(words))
		return -ENODATA;
	memcpy(ret, (char *)words + (address - start), bytes);
	return 0;
}

/* mimalloc makes the beginning of a segment accessible, and the rest when it needs it. */
static void test_segments_that_are_accessible_in_part(void **state)
{
	enum { SEGMENTS = 3 };
	const uint64_t start = UINT64_C(0x7f0000000000), open = 25 << 20;
	struct limpet_go go = {.is_there = false};
	struct limpet_jemalloc jemalloc = {.count = 0};
	struct limpet_tcmalloc tcmalloc = {.is_cut = false};
	struct limpet_gperftools gperftools = {.count = 0};
	const struct limpet_runtimes_heaps heaps = {
		.jemalloc = &jemalloc, .tcmalloc = &tcmalloc, .gperftools = &gperftools, .go = &go};
	const struct limpet_memory_reader reader = {.read = read_segment};
	struct limpet_map list[2 * SEGMENTS + 1];
	struct limpet_modules modules = {.maps = {.list = list, .count = LIMPET_COUNT_OF(list)}};
	struct limpet_memory_ranges pieces = {.count = 0};
	struct limpet_runtimes_marked unused;
	char nothing[] = "";

	(void)state;
	for (size_t i = 0; i < LIMPET_COUNT_OF(list); i++) {
		const uint64_t segment = start + i / 2 * LIMPET_MIMALLOC_SEGMENT_BYTES;

		list[i] = (struct limpet_map){.start = i % 2 ? segment + open : segment,
					      .end = i % 2 ? segment + LIMPET_MIMALLOC_SEGMENT_BYTES
							   : segment + open,
					      .path = nothing};
		memcpy(list[i].perms, i % 2 ? "---p" : "rw-p", 5);
		if (i % 2 == 0 && i + 1 < LIMPET_COUNT_OF(list))
			limpet_memory_ranges_add(
				&pieces,
				&(struct limpet_memory_range){.start = list[i].start,
							      .end = list[i].end,
							      .account = LIMPET_MEMORY_UNKNOWN});
	}
	/* Nothing is mapped with the last one, and what follows it is somebody else's. */
	list[2 * SEGMENTS].end = list[2 * SEGMENTS].start + 8192;
	limpet_memory_ranges_add(&pieces,
				 &(struct limpet_memory_range){.start = list[2 * SEGMENTS].start,
							       .end = list[2 * SEGMENTS].end + 4096,
							       .account = LIMPET_MEMORY_UNKNOWN});
	assert_int_equal(limpet_runtimes_mark(&reader, &modules, &heaps, &pieces, &unused), 0);
	assert_int_equal(pieces.count, SEGMENTS + 2);
	for (size_t i = 0; i <= SEGMENTS; i++) {
		assert_string_equal(pieces.list[i].kind, LIMPET_KIND_MIMALLOC);
		assert_int_equal(pieces.list[i].start, list[2 * i].start);
		assert_int_equal(pieces.list[i].end, list[2 * i].end);
	}
	assert_null(pieces.list[SEGMENTS + 1].kind);
	limpet_memory_ranges_done(&pieces);
}

static void test_present_ranges(void **state)
{
	struct limpet_present present = {0};

	(void)state;
	assert_int_equal(limpet_present_bytes(&present, 0, UINT64_MAX), 0);
	assert_int_equal(limpet_present_end(&present, 0x1000), 0);
	assert_int_equal(limpet_present_add(&present, 0x2000, 0x3000), 0);
	assert_int_equal(limpet_present_add(&present, 0x3000, 0x4000), 0);
	assert_int_equal(limpet_present_add(&present, 0x8000, 0x9000), 0);
	assert_int_equal(present.count, 2);
	assert_int_equal(limpet_present_add(&present, 0x8000, 0x9000), -EINVAL);
	assert_int_equal(limpet_present_add(&present, 0x9000, 0x9000), -EINVAL);
	assert_int_equal(limpet_present_end(&present, 0x1fff), 0);
	assert_int_equal(limpet_present_end(&present, 0x2000), 0x4000);
	assert_int_equal(limpet_present_end(&present, 0x4000), 0);
	assert_int_equal(limpet_present_bytes(&present, 0, UINT64_MAX), 0x3000);
	assert_int_equal(limpet_present_bytes(&present, 0x2800, 0x8800), 0x2000);
	assert_int_equal(limpet_present_bytes(&present, 0x4000, 0x8000), 0);
	assert_int_equal(limpet_present_bytes(&present, 0x8800, 0x8000), 0);
	limpet_present_done(&present);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_page_of_v8),
		cmocka_unit_test(test_newer_pages_of_v8),
		cmocka_unit_test(test_a_pool_of_python),
		cmocka_unit_test(test_an_extent_of_jemalloc),
		cmocka_unit_test(test_an_entry_of_jemalloc_agrees_with_its_extent),
		cmocka_unit_test(test_segments_of_mimalloc),
		cmocka_unit_test(test_arenas_of_mimalloc),
		cmocka_unit_test(test_named_memory_in_a_heap),
		cmocka_unit_test(test_all_arenas_are_noted),
		cmocka_unit_test(test_segments_that_are_accessible_in_part),
		cmocka_unit_test(test_present_ranges),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
