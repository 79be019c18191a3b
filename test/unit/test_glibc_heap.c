/* glibc's heap from outside: arenas, lists and chunks, in images of memory that are built here, as
 * malloc leaves them and as no malloc would. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/err.h"
#include "explain/glibc_heaps.h"
#include "explain/glibc_regions.h"

#define BASE UINT64_C(0x7000000000)
#define BYTES ((uint64_t)1 << 20)
#define PAGE UINT64_C(4096)
#define USED UINT64_C(1) /* the chunk before is in use */

static uint64_t image[BYTES / 8];
static unsigned reads;
static uint64_t absent_page; /* 0: none */

static int read_image(void *context, uint64_t address, void *ret, size_t bytes)
{
	(void)context;
	reads++;
	if (address < BASE || bytes > BYTES || address - BASE > BYTES - bytes)
		return -EFAULT;
	if (absent_page && address < absent_page + PAGE && address + bytes > absent_page)
		return -ENODATA;
	memcpy(ret, (const char *)image + (address - BASE), bytes);
	return 0;
}

static const struct limpet_memory_reader memory = {.read = read_image};

struct heap {
	struct limpet_present present;
	struct limpet_glibc_reader *reader;
	struct limpet_glibc_fast fast;
	struct limpet_glibc_figures figures;
	uint64_t at; /* where the next chunk will begin */
};

static void put(uint64_t address, uint64_t word)
{
	image[(address - BASE) / 8] = word;
}

static int begin(void **state)
{
	struct heap *heap = calloc(1, sizeof(*heap));

	memset(image, 0, sizeof(image));
	absent_page = 0;
	assert_int_equal(limpet_present_add(&heap->present, BASE, BASE + BYTES), 0);
	assert_int_equal(limpet_glibc_reader_new(&memory, &heap->present, &heap->reader), 0);
	heap->fast.is_whole = true;
	heap->at = BASE;
	*state = heap;
	return 0;
}

static int end(void **state)
{
	struct heap *heap = *state;

	limpet_glibc_fast_done(&heap->fast);
	limpet_glibc_reader_free(heap->reader);
	limpet_present_done(&heap->present);
	free(heap);
	return 0;
}

/* A chunk after the last one; `flags` say whether that one is in use. Returns its address. */
static uint64_t chunk(struct heap *heap, uint64_t bytes, uint64_t flags)
{
	uint64_t at = heap->at;

	put(at + 8, bytes | flags);
	heap->at += bytes;
	return at;
}

static void set_top(struct limpet_glibc_region *span, uint64_t top)
{
	span->top = top;
	span->top_head = top < BASE || top >= BASE + BYTES ? 0 : image[(top + 8 - BASE) / 8];
}

static int walk(struct heap *heap, uint64_t top, bool shrinks, uint64_t bytes)
{
	struct limpet_glibc_region span = {
		.start = BASE, .end = BASE + bytes, .is_main = true, .shrinks = shrinks};

	set_top(&span, top);
	limpet_glibc_reader_forget(heap->reader);
	return limpet_glibc_walk(heap->reader, &heap->present, &span, &heap->fast, &heap->figures);
}

static void test_chunks_are_counted(void **state)
{
	struct heap *heap = *state;
	uint64_t top;

	chunk(heap, 0x290, USED);
	chunk(heap, 16 * PAGE, USED); /* free */
	chunk(heap, 0x40, 0);
	chunk(heap, 0x30, USED);
	top = chunk(heap, BASE + 64 * PAGE - heap->at, USED);
	assert_int_equal(walk(heap, top, true, 64 * PAGE), 0);
	assert_int_equal(heap->figures.chunks, 4);
	assert_int_equal(heap->figures.free_chunks, 1);
	assert_int_equal(heap->figures.free_bytes, 16 * PAGE + 64 * PAGE - (top - BASE));
	assert_int_equal(heap->figures.top_bytes, 64 * PAGE - (top - BASE));
	assert_int_equal(heap->figures.resident_bytes, 64 * PAGE);
	/* Of the free chunk, from page 1 to its end in page 16; of the top, all pages after 16. */
	assert_int_equal(heap->figures.returned_bytes, 15 * PAGE + 47 * PAGE);
	/* The top of an arena without brk(2) is not returned. */
	assert_int_equal(walk(heap, top, false, 64 * PAGE), 0);
	assert_int_equal(heap->figures.returned_bytes, 15 * PAGE);
}

static void test_used_chunks_are_listed(void **state)
{
	struct heap *heap = *state;
	struct limpet_glibc_chunks used = {0};
	struct limpet_glibc_region span = {
		.start = BASE, .end = BASE + 16 * PAGE, .is_main = true, .used = &used};
	uint64_t first, fast, last;

	first = chunk(heap, 0x290, USED);
	chunk(heap, 2 * PAGE, USED); /* free */
	fast = chunk(heap, 0x40, 0);
	last = chunk(heap, 0x30, USED);
	set_top(&span, chunk(heap, BASE + 16 * PAGE - heap->at, USED));
	heap->fast.list = malloc(sizeof(fast));
	assert_non_null(heap->fast.list);
	heap->fast.list[0] = fast;
	heap->fast.count = heap->fast.capacity = 1;
	for (unsigned i = 0; i < 2; i++) {
		assert_int_equal(limpet_glibc_walk(heap->reader, &heap->present, &span, &heap->fast,
						   &heap->figures),
				 0);
		assert_int_equal(used.count, 2 * (i + 1));
		assert_int_equal(used.list[2 * i].start, first);
		assert_int_equal(used.list[2 * i].bytes, 0x290);
		assert_int_equal(used.list[2 * i + 1].start, last);
		assert_int_equal(used.list[2 * i + 1].bytes, 0x30);
	}
	/* A walk that fails leaves the list as it was. */
	put(last + 8, 0x38 | USED);
	limpet_glibc_reader_forget(heap->reader);
	assert_int_equal(
		limpet_glibc_walk(heap->reader, &heap->present, &span, &heap->fast, &heap->figures),
		-EBADMSG);
	assert_int_equal(used.count, 4);
	limpet_glibc_chunks_done(&used);
}

/* The cache of a thread, with counters of two bytes, and two chunks of 0x40 bytes in it. */
static uint64_t make_cache(struct heap *heap, uint64_t ret_chunks[2])
{
	const uint64_t cache = chunk(heap, 0x290, USED), counters = cache + 16;

	for (unsigned i = 0; i < 2; i++)
		ret_chunks[i] = chunk(heap, 0x40, USED);
	/* The third size. */
	put(counters, (uint64_t)2 << 32);
	put(counters + 128 + 2 * 8, ret_chunks[1] + 16);
	put(ret_chunks[1] + 16, (ret_chunks[0] + 16) ^ ((ret_chunks[1] + 16) >> 12));
	put(ret_chunks[0] + 16, (ret_chunks[0] + 16) >> 12);
	return cache;
}

/* Of each call of madvise(2) what comes before locked memory is returned. */
static void test_what_is_locked_is_not_returned(void **state)
{
	struct heap *heap = *state;
	struct limpet_glibc_arena arena = {.is_main = true};
	struct limpet_glibc_returns *returns = &arena.returns;
	struct limpet_glibc_region span = {
		.start = BASE, .end = BASE + 64 * PAGE, .is_main = true, .returns = returns};

	(void)chunk(heap, 0x30, USED);
	for (unsigned i = 0; i < 3; i++) {
		(void)chunk(heap, 8 * PAGE, USED); /* free */
		(void)chunk(heap, 0x30, 0);
	}
	set_top(&span, chunk(heap, BASE + 64 * PAGE - heap->at, USED));
	for (unsigned i = 0; i < 2; i++) {
		returns->count = 0;
		limpet_glibc_reader_forget(heap->reader);
		assert_int_equal(limpet_glibc_walk(heap->reader, &heap->present, &span, &heap->fast,
						   &heap->figures),
				 0);
	}
	assert_int_equal(returns->count, 3);
	for (unsigned i = 0; i < 3; i++) {
		assert_int_equal(returns->list[i].start, BASE + (8 * i + 1) * PAGE);
		assert_int_equal(returns->list[i].end, BASE + (8 * i + 8) * PAGE);
		assert_int_equal(returns->list[i].resident_bytes, 7 * PAGE);
	}
	assert_int_equal(heap->figures.returned_bytes, 21 * PAGE);
	/* The end of the first one, and the middle of the third one, which ends its call. */
	limpet_glibc_arena_lock(&arena, BASE + 6 * PAGE, BASE + 9 * PAGE);
	assert_int_equal(arena.locked_returned_bytes, 2 * PAGE);
	limpet_glibc_arena_lock(&arena, BASE + 19 * PAGE, BASE + 20 * PAGE);
	assert_int_equal(arena.locked_returned_bytes, 7 * PAGE);
	limpet_glibc_arena_lock(&arena, BASE + 20 * PAGE, BASE + 64 * PAGE);
	assert_int_equal(arena.locked_returned_bytes, 7 * PAGE);
	/* A walk that fails adds nothing. */
	put(span.top + 8, 0);
	put(span.top - 0x30 + 8, 0x38 | USED);
	limpet_glibc_reader_forget(heap->reader);
	assert_true(limpet_glibc_walk(heap->reader, &heap->present, &span, &heap->fast,
				      &heap->figures) < 0);
	assert_int_equal(returns->count, 3);
	limpet_glibc_returns_done(returns);
}

static void test_the_chunks_in_a_cache(void **state)
{
	struct heap *heap = *state;
	struct limpet_glibc_fast *list = &heap->fast;
	uint64_t chunks[2], cache = make_cache(heap, chunks), bytes;

	assert_true(limpet_glibc_may_be_cache(0x290));
	assert_int_equal(limpet_glibc_cache_read(heap->reader, cache, 0x290, &bytes),
			 LIMPET_GLIBC_CACHE);
	assert_int_equal(bytes, 2 * 0x40);
	assert_int_equal(limpet_glibc_cache_list(heap->reader, cache, 0x290, list), 0);
	assert_true(list->is_whole);
	assert_int_equal(list->count, 2);
	assert_int_equal(list->list[0], chunks[1]);
	assert_int_equal(list->list[1], chunks[0]);
	/* A list that is longer or shorter than its counter, or leads nowhere, is not whole. */
	for (unsigned i = 0; i < 3; i++) {
		put(cache + 16, (uint64_t)(i == 0 ? 1 : i == 1 ? 3 : 2) << 32);
		if (i == 2)
			put(chunks[1] + 16, 0x123450);
		limpet_glibc_reader_forget(heap->reader);
		list->count = 0;
		list->is_whole = true;
		assert_int_equal(limpet_glibc_cache_list(heap->reader, cache, 0x290, list), 0);
		assert_false(list->is_whole);
	}
}

static void test_fast_chunks_merge_with_free_ones(void **state)
{
	struct heap *heap = *state;
	uint64_t top, list[2];

	chunk(heap, PAGE - 0x80, USED);
	list[0] = chunk(heap, 0x40, USED); /* 48 bytes of head from here on reach page 1 */
	chunk(heap, 4 * PAGE, USED);
	list[1] = chunk(heap, 0x80, 0);
	chunk(heap, 0x20, USED);
	top = chunk(heap, BASE + 16 * PAGE - heap->at, USED);
	assert_int_equal(walk(heap, top, true, 16 * PAGE), 0);
	assert_int_equal(heap->figures.fast_bytes, 0);
	assert_int_equal(heap->figures.returned_bytes, 3 * PAGE + 10 * PAGE);
	heap->fast.list = malloc(sizeof(list));
	memcpy(heap->fast.list, list, sizeof(list));
	heap->fast.count = 2;
	assert_int_equal(walk(heap, top, true, 16 * PAGE), 0);
	assert_int_equal(heap->figures.fast_bytes, 0xc0);
	assert_int_equal(heap->figures.returned_bytes, 4 * PAGE + 10 * PAGE);
}

static void test_a_free_chunk_before_the_top_joins_it(void **state)
{
	struct heap *heap = *state;
	uint64_t top;

	heap->fast.list = malloc(sizeof(uint64_t));
	chunk(heap, 4 * PAGE, USED);
	heap->fast.list[heap->fast.count++] = chunk(heap, 0x80, USED);
	top = chunk(heap, 4 * PAGE - 0x80, USED);
	assert_int_equal(walk(heap, top, true, 8 * PAGE), 0);
	/* MINSIZE stays, so three of the four pages go. */
	assert_int_equal(heap->figures.returned_bytes, 3 * PAGE);
}

static void test_only_present_pages_count(void **state)
{
	struct heap *heap = *state;
	uint64_t top;

	chunk(heap, 16 * PAGE, USED);
	chunk(heap, 0x40, 0);
	top = chunk(heap, BASE + 32 * PAGE - heap->at, USED);
	limpet_present_done(&heap->present);
	assert_int_equal(limpet_present_add(&heap->present, BASE, BASE + 4 * PAGE), 0);
	assert_int_equal(limpet_present_add(&heap->present, BASE + 16 * PAGE, BASE + 18 * PAGE), 0);
	assert_int_equal(walk(heap, top, true, 32 * PAGE), 0);
	assert_int_equal(heap->figures.resident_bytes, 6 * PAGE);
	assert_int_equal(heap->figures.free_resident_bytes, 6 * PAGE - 0x40);
	assert_int_equal(heap->figures.returned_bytes, 3 * PAGE + PAGE);
	/* A head in a page that is swapped out is not read. */
	limpet_present_done(&heap->present);
	assert_int_equal(limpet_present_add(&heap->present, BASE, BASE + 4 * PAGE), 0);
	assert_int_equal(walk(heap, top, true, 32 * PAGE), -ENODATA);
}

static void test_an_older_heap_ends_with_marks(void **state)
{
	struct heap *heap = *state;

	chunk(heap, 8 * PAGE - 0x20, USED);
	chunk(heap, 0x10, 0);
	put(heap->at + 8, USED);
	assert_int_equal(walk(heap, 0, false, 8 * PAGE), 0);
	assert_int_equal(heap->figures.free_bytes, 8 * PAGE - 0x20);
	assert_int_equal(heap->figures.returned_bytes, 6 * PAGE);
	/* The same marks in the middle are no end. */
	assert_int_equal(walk(heap, 0, false, 16 * PAGE), -EBADMSG);
}

/* Since malloc got it, somebody else has called sbrk(2). */
static void test_what_is_behind_the_top_is_not_the_heaps(void **state)
{
	struct limpet_glibc_region span = {.start = BASE,
					   .end = BASE + 64 * PAGE,
					   .is_main = true,
					   .is_brk = true,
					   .shrinks = true};
	struct heap *heap = *state;

	chunk(heap, 0x40, USED);
	set_top(&span, chunk(heap, 16 * PAGE - 0x40, USED));
	assert_int_equal(
		limpet_glibc_walk(heap->reader, &heap->present, &span, &heap->fast, &heap->figures),
		0);
	assert_int_equal(heap->figures.end, BASE + 16 * PAGE);
	assert_int_equal(heap->figures.resident_bytes, 16 * PAGE);
	assert_int_equal(heap->figures.returned_bytes, 0);
}

/* Two marks close a region; another one follows behind other memory, and the top is in it. */
static void test_regions_are_found(void **state)
{
	struct limpet_glibc_region span = {
		.start = BASE, .end = BASE + 64 * PAGE, .in_parts = true, .is_main = true};
	struct limpet_glibc_regions regions = {0};
	struct heap *heap = *state;

	chunk(heap, 0x1000, USED);
	chunk(heap, PAGE - 0x20, USED);
	chunk(heap, 0x10, 0);
	chunk(heap, 0x10, USED);
	memset(&image[2 * PAGE / 8], 0xff, 3 * PAGE);
	heap->at = BASE + 5 * PAGE;
	chunk(heap, 0x800, USED);
	set_top(&span, chunk(heap, 2 * PAGE - 0x800, USED));
	assert_int_equal(limpet_glibc_regions_find(heap->reader, &heap->present, &span, &heap->fast,
						   &regions),
			 0);
	assert_int_equal(regions.count, 2);
	assert_int_equal(regions.list[0].start, BASE);
	assert_int_equal(regions.list[0].end, BASE + 2 * PAGE);
	assert_int_equal(regions.list[1].start, BASE + 5 * PAGE);
	assert_int_equal(regions.list[1].end, BASE + 7 * PAGE);
	assert_int_equal(regions.figures.chunks, 3);
	assert_int_equal(regions.figures.free_bytes, PAGE - 0x20 + 2 * PAGE - 0x800);
	limpet_glibc_regions_done(&regions);
}

static void test_what_is_no_heap_is_refused(void **state)
{
	static const uint64_t heads[] = {
		0,          1,           8 | USED,   0x18 | USED,     0x28 | USED,       0x1000 | 2,
		0x1000 | 4, 0x10 | USED, UINT64_MAX, UINT64_MAX - 15, UINT64_C(1) << 63, BYTES * 2};
	struct heap *heap = *state;
	uint64_t top;

	chunk(heap, 0x40, USED);
	chunk(heap, 0x1000, USED);
	top = chunk(heap, BASE + 16 * PAGE - heap->at, USED);
	assert_int_equal(walk(heap, top, true, 16 * PAGE), 0);
	for (size_t i = 0; i < LIMPET_COUNT_OF(heads); i++) {
		put(BASE + 0x40 + 8, heads[i]);
		assert_int_equal(walk(heap, top, true, 16 * PAGE), -EBADMSG);
	}
	put(BASE + 0x40 + 8, 0x1000 | USED);
	/* Tops that are no chunk, or outside. */
	assert_int_equal(walk(heap, top + 16, true, 16 * PAGE), -EBADMSG);
	assert_int_equal(walk(heap, BASE + 32 * PAGE, true, 16 * PAGE), -EBADMSG);
	assert_int_equal(walk(heap, BASE - 16, true, 16 * PAGE), -EBADMSG);
	assert_int_equal(walk(heap, top, true, 0), -EBADMSG);
	put(top + 8, 64 * PAGE | USED);
	assert_int_equal(walk(heap, top, true, 16 * PAGE), -EBADMSG);
}

/* It ends well, with figures that its memory has room for, or is refused. */
static void walk_any(struct heap *heap, uint64_t top)
{
	int answer = walk(heap, top, true, 8 * PAGE);

	if (answer) {
		assert_int_equal(answer, -EBADMSG);
		return;
	}
	assert_in_range(heap->figures.chunks, 1, 8 * PAGE / 16);
	assert_in_range(heap->figures.free_bytes, 0, 8 * PAGE);
	assert_in_range(heap->figures.resident_bytes, 1, 8 * PAGE);
}

static void test_any_bytes_end_the_walk(void **state)
{
	struct heap *heap = *state;
	uint64_t random = 1;

	for (int round = 0; round < 300; round++) {
		for (size_t i = 0; i < 8 * PAGE / 8; i++) {
			random = random * UINT64_C(6364136223846793005) + 1442695040888963407u;
			/* Small sizes, mostly plausible. */
			image[i] = random >> 33 & (round % 2 ? 0xff1 : 0x3f3);
		}
		walk_any(heap, BASE + (random >> 40 & 0x7ff0));
		walk_any(heap, 0);
	}
}

/* ------------------------------------------------------------------ lists */

static uint64_t protect(uint64_t at, uint64_t next)
{
	return at >> 12 ^ next;
}

static void test_fastbins_are_followed(void **state)
{
	struct heap *heap = *state;
	struct limpet_glibc_state arena = {.address = 0};
	uint64_t first = BASE + 0x400, second = BASE + 0x200;

	put(first + 8, 0x20 | USED);
	put(second + 8, 0x20 | USED);
	put(first + 16, protect(first + 16, second));
	put(second + 16, protect(second + 16, 0));
	arena.fastbins[0] = first;
	assert_int_equal(limpet_glibc_fast_read(heap->reader, &arena, &heap->fast), 0);
	assert_true(heap->fast.is_whole);
	assert_int_equal(heap->fast.count, 2);
	assert_int_equal(heap->fast.list[0], second);
	assert_int_equal(heap->fast.list[1], first);
	/* Before 2.32 links were plain. */
	put(first + 16, second);
	put(second + 16, 0);
	limpet_glibc_reader_forget(heap->reader);
	assert_int_equal(limpet_glibc_fast_read(heap->reader, &arena, &heap->fast), 0);
	assert_true(heap->fast.is_whole);
	assert_int_equal(heap->fast.count, 2);
}

static void test_fastbins_that_lead_astray_end(void **state)
{
	static const uint64_t links[] = {BASE + 0x400, 8, BASE + 0x208, BASE + BYTES,
					 UINT64_MAX & ~UINT64_C(15)};
	struct heap *heap = *state;
	struct limpet_glibc_state arena = {.address = 0};

	put(BASE + 0x400 + 8, 0x20 | USED);
	arena.fastbins[0] = BASE + 0x400;
	for (size_t i = 0; i < LIMPET_COUNT_OF(links); i++) {
		put(BASE + 0x400 + 16, links[i]);
		limpet_glibc_reader_forget(heap->reader);
		assert_int_equal(limpet_glibc_fast_read(heap->reader, &arena, &heap->fast), 0);
		assert_false(heap->fast.is_whole);
		assert_true(heap->fast.count < 1000);
	}
	arena.fastbins[0] = 8;
	assert_int_equal(limpet_glibc_fast_read(heap->reader, &arena, &heap->fast), 0);
	assert_false(heap->fast.is_whole);
	assert_int_equal(heap->fast.count, 0);
}

static enum limpet_glibc_cache cache_of(struct heap *heap, uint64_t chunk, uint64_t chunk_bytes,
					uint64_t *ret_bytes)
{
	limpet_glibc_reader_forget(heap->reader);
	return limpet_glibc_cache_read(heap->reader, chunk, chunk_bytes, ret_bytes);
}

static void test_caches_of_threads(void **state)
{
	struct heap *heap = *state;
	uint64_t cache = BASE, cached = BASE + 0x400, bytes;

	put(cache + 8, 0x290 | USED);
	put(cached + 8, 0x30 | USED);
	put(cache + 16, UINT64_C(3) << 16); /* three chunks of the second size */
	put(cache + 16 + 128 + 8, cached + 16);
	assert_int_equal(cache_of(heap, cache, 0x290, &bytes), LIMPET_GLIBC_CACHE);
	assert_int_equal(bytes, 3 * 0x30);
	/* A list without a count: it was just changing. Several are none. */
	for (unsigned i = 2; i < 5; i++) {
		put(cache + 16 + 128 + 8 * (uint64_t)i, cached + 16);
		assert_int_equal(cache_of(heap, cache, 0x290, &bytes),
				 i < 4 ? LIMPET_GLIBC_CACHE_UNREAD : LIMPET_GLIBC_NO_CACHE);
	}
	for (unsigned i = 2; i < 5; i++)
		put(cache + 16 + 128 + 8 * (uint64_t)i, 0);
	/* The only list begins with a chunk of another size. */
	put(cached + 8, 0x40 | USED);
	assert_int_equal(cache_of(heap, cache, 0x290, &bytes), LIMPET_GLIBC_NO_CACHE);
	/* As many as glibc.malloc.tcache_count may say. */
	put(cached + 8, 0x30 | USED);
	put(cache + 16, UINT64_C(65535) << 16);
	assert_int_equal(cache_of(heap, cache, 0x290, &bytes), LIMPET_GLIBC_CACHE);
	assert_int_equal(bytes, 65535 * 0x30);
	absent_page = BASE;
	assert_int_equal(cache_of(heap, cache, 0x290, &bytes), LIMPET_GLIBC_CACHE_UNREAD);
}

/* Since 2.42 a counter says how many more chunks a list takes; there are lists of larger ones. */
static void test_caches_that_count_what_they_take_yet(void **state)
{
	struct heap *heap = *state;
	uint64_t cache = BASE, slots = cache + 16, lists = slots + 152, small = BASE + 0x400,
		 other = BASE + 0x440, large = BASE + 0x1000, bytes;
	uint16_t *counters = (uint16_t *)(void *)&image[(slots - BASE) / 8];

	put(cache + 8, 0x300 | USED);
	assert_int_equal(cache_of(heap, cache, 0x300, &bytes), LIMPET_GLIBC_NO_CACHE);
	for (unsigned i = 0; i < 76; i++)
		counters[i] = 16;
	assert_int_equal(cache_of(heap, cache, 0x300, &bytes), LIMPET_GLIBC_CACHE);
	assert_int_equal(bytes, 0);
	put(small + 8, 0x30 | USED);
	put(small + 16, protect(small + 16, other + 16));
	put(other + 8, 0x30 | USED);
	put(other + 16, protect(other + 16, 0));
	put(lists + 8, small + 16);
	counters[1] = 14;
	put(large + 8, 0x800 | USED);
	put(large + 16, protect(large + 16, 0));
	put(lists + 8 * 65, large + 16);
	counters[65] = 15;
	counters[75] = 0; /* takes none */
	assert_int_equal(cache_of(heap, cache, 0x300, &bytes), LIMPET_GLIBC_CACHE);
	assert_int_equal(bytes, 2 * 0x30 + 0x800);
	/* A list that is longer than its counter says, a circle, and a chunk of another size. */
	counters[1] = 15;
	assert_int_equal(cache_of(heap, cache, 0x300, &bytes), LIMPET_GLIBC_CACHE_UNREAD);
	counters[1] = 14;
	put(other + 16, protect(other + 16, small + 16));
	assert_int_equal(cache_of(heap, cache, 0x300, &bytes), LIMPET_GLIBC_CACHE_UNREAD);
	put(other + 16, protect(other + 16, 0));
	put(other + 8, 0x40 | USED);
	assert_int_equal(cache_of(heap, cache, 0x300, &bytes), LIMPET_GLIBC_CACHE_UNREAD);
}

/* ------------------------------------------------------------------ arenas */

/* The state as malloc initializes it; `old`: before 2.27. */
static void put_state(uint64_t at, bool old, uint64_t top, uint64_t next)
{
	const uint64_t bins = at + (old ? 104 : 112);

	for (unsigned i = 0; i < LIMPET_GLIBC_BINS; i++) {
		put(bins + 16 * (uint64_t)i, bins + 16 * (uint64_t)i - 16);
		put(bins + 16 * (uint64_t)i + 8, bins + 16 * (uint64_t)i - 16);
	}
	put(bins - 16, top);
	put(bins + 2032 + 16, next);
	put(bins + 2032 + 32, 1); /* attached threads */
	put(bins + 2032 + 40, 0x21000);
	put(bins + 2032 + 48, 0x21000);
}

static const struct limpet_glibc_data image_data = {image, 64 * PAGE, BASE};

static int find(struct limpet_glibc_state *state)
{
	unsigned refused;

	return limpet_glibc_main_find(&image_data, 0, &memory, state, &refused);
}

static void test_the_main_arena_is_found(void **state)
{
	struct limpet_glibc_state found;
	uint64_t arena = BASE + 0x1c60, top = BASE + 80 * PAGE;

	(void)state;
	for (int old = 0; old < 2; old++) {
		memset(image, 0, sizeof(image));
		assert_int_equal(find(&found), 0);
		put(top + 8, 0x21000 | USED);
		put_state(arena, old, top, arena);
		assert_int_equal(find(&found), 1);
		assert_int_equal(found.address, arena);
		assert_int_equal(found.top, top);
		assert_int_equal(found.system_bytes, 0x21000);
		assert_true(found.contiguous);
		assert_int_equal(found.end, arena + (old ? 2192 : 2200));
		/* A head that is no top's. */
		put(top + 8, 0x21000);
		assert_int_equal(find(&found), 0);
	}
}

static void test_bins_have_to_lead_back(void **state)
{
	struct limpet_glibc_state found;
	uint64_t arena = BASE + 0x1c60, bins = arena + 112, free_chunk = BASE + 90 * PAGE;

	(void)state;
	put(BASE + 80 * PAGE + 8, 0x21000 | USED);
	put_state(arena, false, BASE + 80 * PAGE, arena);
	put(bins, free_chunk);
	put(bins + 8, free_chunk);
	assert_int_equal(find(&found), 0);
	put(free_chunk + 16, bins - 16);
	put(free_chunk + 24, bins - 16);
	assert_int_equal(find(&found), 1);
	put(bins, 8);
	assert_int_equal(find(&found), 0);
}

static void test_the_list_of_arenas(void **state)
{
	LIMPET_FREE struct limpet_glibc_state *list = NULL;
	struct limpet_glibc_state found;
	uint64_t arena = BASE + 0x1c60, other = BASE + 100 * PAGE + 0x30, top = BASE + 80 * PAGE;
	uint64_t absent;

	(void)state;
	put(top + 8, 0x21000 | USED);
	put_state(arena, false, top, other);
	put_state(other, false, top, arena);
	assert_int_equal(find(&found), 1);
	assert_int_equal(limpet_glibc_arenas_read(&memory, &found, &list, &absent), 2);
	assert_int_equal(absent, 0);
	assert_int_equal(list[0].address, arena);
	assert_int_equal(list[1].address, other);
	/* A circle without the main arena, and a list that leads out of memory. */
	put_state(other, false, top, other);
	assert_int_equal(find(&found), 0);
	put_state(other, false, top, BASE + BYTES);
	assert_int_equal(find(&found), 0);
	/* A circle that does not lead back is not followed to the limit. */
	put_state(other, false, top, other);
	reads = 0;
	assert_int_equal(limpet_glibc_arenas_read(&memory, &found, &list, &absent), -EBADMSG);
	assert_true(reads < 300);
}

/* Its members are where those of the other layout are 8 bytes further: there is one, if nothing but
 * the alignment tells. */
static void test_a_list_that_breaks_off(void **state)
{
	LIMPET_FREE struct limpet_glibc_state *list = NULL;
	struct limpet_glibc_state found;
	uint64_t other = BASE + 100 * PAGE + 0x30, top = BASE + 80 * PAGE, absent;
	unsigned refused;

	(void)state;
	for (int old = 0; old < 2; old++) {
		const uint64_t arena = BASE + 0x1c60;

		memset(image, 0, sizeof(image));
		absent_page = 0;
		put(top + 8, 0x21000 | USED);
		put_state(arena, old, top, other);
		put_state(other, old, top, arena);
		absent_page = BASE + 100 * PAGE;
		assert_int_equal(find(&found), 1);
		assert_int_equal(found.address, arena);
		assert_int_equal(found.end, arena + (old ? 2192 : 2200));
		assert_int_equal(limpet_glibc_arenas_read(&memory, &found, &list, &absent), 1);
		assert_int_equal(absent, other);
		free(list);
		list = NULL;
		assert_int_equal(limpet_glibc_main_find(&image_data, found.end - BASE, &memory,
							&found, &refused),
				 0);
		assert_int_equal(limpet_glibc_main_find(&image_data, arena + 8 - BASE, &memory,
							&found, &refused),
				 0);
	}
}

/* sysmalloc() has moved the top, but its head is not written yet. */
static void test_a_top_without_a_head(void **state)
{
	struct heap *heap = *state;
	struct limpet_glibc_state found;
	uint64_t arena = BASE + 0x1c60, top = BASE + 80 * PAGE;

	put_state(arena, false, top, arena);
	assert_int_equal(find(&found), 1);
	absent_page = top;
	assert_int_equal(find(&found), 1);
	absent_page = 0;
	memset(image, 0, sizeof(image));
	chunk(heap, 4 * PAGE, USED);
	top = heap->at;
	assert_int_equal(walk(heap, top, true, 16 * PAGE), 0);
	assert_int_equal(heap->figures.top_bytes, 12 * PAGE);
	assert_int_equal(heap->figures.free_bytes, 12 * PAGE);
	limpet_present_done(&heap->present);
	assert_int_equal(limpet_present_add(&heap->present, BASE, top), 0);
	assert_int_equal(walk(heap, top, true, 16 * PAGE), 0);
	assert_int_equal(heap->figures.top_bytes, 12 * PAGE);
	assert_int_equal(heap->figures.free_resident_bytes, 0);
}

/* An arena that ends with the page before GROWN, or did when it was read. */
#define GROWN (BASE + 80 * PAGE)
#define TOP_BYTES (24 * PAGE)
static unsigned takes; /* so often the program takes a block when the top's head is asked for */

static int take_then_read(void *context, uint64_t address, void *ret, size_t bytes)
{
	const uint64_t arena = BASE + 0x1c60, top = image[(arena + 96 - BASE) / 8];

	if (takes && address == top + 8) {
		const uint64_t left = image[(top + 8 - BASE) / 8] - 0x40;

		takes--;
		put(top + 8, 0x40 | USED);
		put(top + 0x48, left);
		put(arena + 96, top + 0x40);
	}
	return read_image(context, address, ret, bytes);
}

static uint64_t grown_end(const struct limpet_memory_reader *reader)
{
	const uint64_t arena = BASE + 0x1c60, top = GROWN - 4 * PAGE;
	struct limpet_glibc_arena list[1] = {{.is_main = true, .known = true}};
	struct limpet_glibc_range ranges[1] = {{.start = BASE + 64 * PAGE, .end = GROWN}};
	struct limpet_glibc_heaps heaps = {.list = list,
					   .count = 1,
					   .ranges = ranges,
					   .range_count = 1,
					   .uses_brk = true,
					   .grown_start = GROWN,
					   .grown_end = GROWN};

	put_state(arena, false, top, arena);
	put(top + 8, TOP_BYTES | USED);
	assert_int_equal(find(&list[0].state), 1);
	limpet_glibc_heaps_refresh(reader, &heaps);
	return heaps.grown_end;
}

static bool is_spent(void *context)
{
	(void)context;
	return true;
}

/* The head that is read is that of a block by now, or its end is none of a top. */
static void test_an_end_has_to_settle(void **state)
{
	const struct limpet_memory_reader busy = {.read = take_then_read},
					  late = {.read = take_then_read, .is_spent = is_spent};

	(void)state;
	takes = 0;
	assert_int_equal(grown_end(&busy), GROWN - 4 * PAGE + TOP_BYTES);
	for (unsigned i = 1; i < 4; i++) {
		takes = i;
		assert_int_equal(grown_end(&busy), GROWN - 4 * PAGE + TOP_BYTES);
		assert_int_equal(takes, 0);
	}
	/* All that follows may be the arena's. */
	takes = 100;
	assert_int_equal(grown_end(&late), UINT64_MAX);
	takes = 0;
}

/* The top as it was with the state: what is read there later is a block. */
static void test_a_top_is_of_one_moment(void **state)
{
	const struct limpet_memory_reader busy = {.read = take_then_read};
	const uint64_t arena = BASE + 0x1c60, top = GROWN - 4 * PAGE;
	struct limpet_glibc_region span = {.start = top, .end = top + TOP_BYTES, .is_main = true};
	struct limpet_glibc_state found, read;
	struct heap *heap = *state;

	for (unsigned i = 0; i < 4; i++) {
		takes = 0;
		put_state(arena, false, top, arena);
		put(top + 8, TOP_BYTES | USED);
		assert_int_equal(find(&found), 1);
		takes = i;
		assert_int_equal(limpet_glibc_state_read_top(&busy, found.address, found.layout,
							     &read, &span.top_head),
				 0);
		assert_int_equal(takes, 0);
		assert_int_equal(read.top, top + i * 0x40);
		assert_int_equal(span.top_head, (TOP_BYTES - i * 0x40) | USED);
	}
	span.start = span.top = read.top;
	takes = 1;
	(void)take_then_read(NULL, read.top + 8, &(uint64_t){0}, 8);
	limpet_glibc_reader_forget(heap->reader);
	assert_int_equal(
		limpet_glibc_walk(heap->reader, &heap->present, &span, &heap->fast, &heap->figures),
		0);
	assert_int_equal(heap->figures.top_bytes, TOP_BYTES - 3 * 0x40);
	takes = 100;
	assert_int_equal(limpet_glibc_state_read_top(&busy, found.address, found.layout, &read,
						     &span.top_head),
			 -EBADMSG);
	takes = 0;
	/* It was not written yet. */
	put(image[(arena + 96 - BASE) / 8] + 8, 0);
	assert_int_equal(limpet_glibc_state_read_top(&memory, found.address, found.layout, &read,
						     &span.top_head),
			 0);
	assert_int_equal(span.top_head, 0);
}

/* A search that finds nothing asks whether there is time left. */
static void test_a_search_ends_in_time(void **state)
{
	const struct limpet_memory_reader late = {.read = read_image, .is_spent = is_spent};
	const struct limpet_glibc_region span = {
		.start = BASE, .end = BASE + BYTES, .in_parts = true, .is_main = true};
	struct limpet_glibc_regions regions = {0};
	struct limpet_glibc_reader *reader;
	struct heap *heap = *state;

	assert_int_equal(limpet_glibc_reader_new(&late, &heap->present, &reader), 0);
	assert_int_equal(
		limpet_glibc_regions_find(reader, &heap->present, &span, &heap->fast, &regions),
		-ETIME);
	limpet_glibc_regions_done(&regions);
	limpet_glibc_reader_free(reader);
}

/* In a heap's own memory, behind its head, is another arena's state. */
static void test_another_arena_is_no_main_arena(void **state)
{
	struct limpet_glibc_state found;
	uint64_t arena = BASE + 0x30, top = BASE + 80 * PAGE;

	(void)state;
	put(top + 8, 0x21000 | USED);
	put_state(arena, false, top, arena);
	assert_int_equal(find(&found), 1);
	put(BASE, arena);
	assert_int_equal(find(&found), 0);
}

/* Returns where they end, or 0. */
static size_t parameters_after(size_t from, uint64_t low, struct limpet_glibc_parameters *ret)
{
	const struct limpet_glibc_data page = {image, 4096, BASE};
	size_t end = 0;

	return limpet_glibc_parameters_find(&page, from, low, UINT64_C(0x555555559000) + 0x21000,
					    ret, &end)
		       ? end
		       : 0;
}

static void test_parameters(void **state)
{
	struct limpet_glibc_parameters parameters;
	const uint64_t heap = UINT64_C(0x555555559000);

	(void)state;
	/* 2.35: n_mmaps_max starts a word. */
	image[19] = UINT64_C(5) << 32;
	image[20] = 65536 | UINT64_C(7) << 32;
	image[22] = 0x40000;
	image[23] = 0x50000;
	image[24] = heap;
	assert_int_equal(parameters_after(0, heap, &parameters), 25 * 8);
	assert_int_equal(parameters.mmapped_bytes, 0x40000);
	assert_int_equal(parameters.heap_start, heap);
	assert_int_equal(parameters.top_step, PAGE);
	image[17] = 2 << 20; /* thp_pagesize */
	assert_int_equal(parameters_after(0, heap, &parameters), 25 * 8);
	assert_int_equal(parameters.top_step, 2 << 20);
	assert_int_equal(parameters_after(25 * 8, heap, &parameters), 0);
	assert_int_equal(parameters_after(0, heap + 16, &parameters), 0);
	image[22] = 0x40001;
	assert_int_equal(parameters_after(0, heap, &parameters), 0);
	/* Until 2.34 it ended one; until 2.23 a total came after the highest amount. */
	image[20] = 7 | UINT64_C(65536) << 32;
	image[22] = 0x40000;
	image[24] = 0;
	image[25] = heap;
	assert_int_equal(parameters_after(0, heap, &parameters), 26 * 8);
	assert_int_equal(parameters.mmapped_bytes, 0x40000);
}

/* MariaDB's data has such words, and no other ones may be taken for malloc's. */
static void test_what_looks_like_parameters(void **state)
{
	struct limpet_glibc_parameters parameters;
	const uint64_t heap = UINT64_C(0x555555559000);

	(void)state;
	image[20] = 65536;
	image[24] = 0x283;
	image[25] = heap + 0x400;
	assert_int_equal(parameters_after(0, heap, &parameters), 0);
	/* As before 2.35, but no flag. */
	image[20] = UINT64_C(65536) << 32;
	image[21] = UINT64_C(2) << 32;
	assert_int_equal(parameters_after(0, heap, &parameters), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_chunks_are_counted, begin, end),
		cmocka_unit_test_setup_teardown(test_used_chunks_are_listed, begin, end),
		cmocka_unit_test_setup_teardown(test_what_is_locked_is_not_returned, begin, end),
		cmocka_unit_test_setup_teardown(test_the_chunks_in_a_cache, begin, end),
		cmocka_unit_test_setup_teardown(test_fast_chunks_merge_with_free_ones, begin, end),
		cmocka_unit_test_setup_teardown(test_a_free_chunk_before_the_top_joins_it, begin,
						end),
		cmocka_unit_test_setup_teardown(test_only_present_pages_count, begin, end),
		cmocka_unit_test_setup_teardown(test_an_older_heap_ends_with_marks, begin, end),
		cmocka_unit_test_setup_teardown(test_what_is_behind_the_top_is_not_the_heaps, begin,
						end),
		cmocka_unit_test_setup_teardown(test_regions_are_found, begin, end),
		cmocka_unit_test_setup_teardown(test_what_is_no_heap_is_refused, begin, end),
		cmocka_unit_test_setup_teardown(test_any_bytes_end_the_walk, begin, end),
		cmocka_unit_test_setup_teardown(test_fastbins_are_followed, begin, end),
		cmocka_unit_test_setup_teardown(test_fastbins_that_lead_astray_end, begin, end),
		cmocka_unit_test_setup_teardown(test_caches_of_threads, begin, end),
		cmocka_unit_test_setup_teardown(test_caches_that_count_what_they_take_yet, begin,
						end),
		cmocka_unit_test_setup_teardown(test_the_main_arena_is_found, begin, end),
		cmocka_unit_test_setup_teardown(test_bins_have_to_lead_back, begin, end),
		cmocka_unit_test_setup_teardown(test_the_list_of_arenas, begin, end),
		cmocka_unit_test_setup_teardown(test_a_list_that_breaks_off, begin, end),
		cmocka_unit_test_setup_teardown(test_a_top_without_a_head, begin, end),
		cmocka_unit_test_setup_teardown(test_an_end_has_to_settle, begin, end),
		cmocka_unit_test_setup_teardown(test_a_top_is_of_one_moment, begin, end),
		cmocka_unit_test_setup_teardown(test_a_search_ends_in_time, begin, end),
		cmocka_unit_test_setup_teardown(test_another_arena_is_no_main_arena, begin, end),
		cmocka_unit_test_setup_teardown(test_parameters, begin, end),
		cmocka_unit_test_setup_teardown(test_what_looks_like_parameters, begin, end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
