/* The spans of gperftools' tcmalloc, and what looks like them. */
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
#include "explain/gperftools.h"
#include "test/unit/target_of.h"

#define BASE UINT64_C(0x200000000000)
#define UNIT ((uint64_t)8192)
#define MIB ((uint64_t)1 << 20)
/* The heap, the leaf of its pages, the structures of spans. */
#define HEAP_BYTES (4 * MIB)
#define LEAF (BASE + 8 * MIB)
#define SPANS (BASE + 12 * MIB)
#define BYTES (16 * MIB)
enum { ROOT_AT = 512, ROOT_WORDS = 1 << 17, TOTALS_AT = ROOT_AT + ROOT_WORDS + 1600 };
enum { SIZES_AT = 40, CLASSES = 86, OTHER_SIZES_AT = TOTALS_AT + 1000 };

static _Alignas(4096) uint64_t data[ROOT_AT + ROOT_WORDS + 4096];
static struct limpet_map list[2];
static const struct limpet_maps maps = {.list = list, .count = 2};
static struct limpet_memory_ranges pieces;
static struct limpet_pages *pages;
static void (*before_read)(uint64_t address);

static int read_memory(void *context, uint64_t address, void *ret, size_t bytes)
{
	(void)context;
	if (before_read)
		before_read(address);
	for (size_t i = 0; i < maps.count; i++)
		if (address >= list[i].start && address + bytes <= list[i].end) {
			memcpy(ret, (void *)(uintptr_t)address, bytes);
			return 0;
		}
	return -ENODATA;
}

static const struct limpet_memory_reader reader = {.read = read_memory};

static void put(uint64_t address, uint64_t word)
{
	memcpy((void *)(uintptr_t)address, &word, sizeof(word));
}

/* In the heap: from which of its pages on, how many, the bits of state, class and count. */
static struct span {
	uint64_t first, length;
	unsigned state, class, count;
} spans[] = {{0, 1, 0, 2, 300}, {1, 1, 0, 3, 2},  {2, 50, 0, 0, 0},   {52, 20, 1, 0, 0},
	     {72, 10, 2, 0, 0}, {82, 1, 0, 2, 7}, {83, 100, 0, 0, 0}, {183, 329, 1, 0, 0}};
enum { SPAN_COUNT = sizeof(spans) / sizeof(*spans) };

static uint64_t entry_of(uint64_t page)
{
	return LEAF + 8 * ((BASE / UNIT + page) % (1 << 18));
}

static uint64_t span_of(size_t i)
{
	return SPANS + 48 * i;
}

static void put_span(size_t i, const struct span *span)
{
	put(span_of(i), BASE / UNIT + span->first);
	put(span_of(i) + 8, span->length);
	put(span_of(i) + 40, (uint64_t)span->state << 24 | span->class << 16 | span->count);
	put(entry_of(span->first), span_of(i));
	put(entry_of(span->first + span->length - 1), span_of(i));
}

static void put_totals(uint64_t free_bytes, uint64_t returned_bytes)
{
	data[TOTALS_AT] = HEAP_BYTES;
	data[TOTALS_AT + 1] = free_bytes;
	data[TOTALS_AT + 2] = returned_bytes;
	data[TOTALS_AT + 3] = HEAP_BYTES - returned_bytes;
}

static void put_sizes(size_t at, unsigned room)
{
	uint32_t *sizes = (uint32_t *)(void *)&data[at];
	uint64_t *lengths = &data[at + room / 2];

	sizes[1] = 8;
	sizes[2] = 16;
	for (unsigned i = 3; i < CLASSES; i++)
		sizes[i] = i + 1 < CLASSES ? 3072 * (i - 2) : 262144;
	for (unsigned i = 1; i < CLASSES; i++)
		lengths[i] = sizes[i] / UNIT + 1;
}

static void build(void)
{
	memset((void *)(uintptr_t)BASE, 0, BYTES);
	memset(data, 0, sizeof(data));
	before_read = NULL;
	data[ROOT_AT + (BASE >> 31)] = LEAF;
	for (size_t i = 0; i < SPAN_COUNT; i++)
		put_span(i, &spans[i]);
	/* Of former spans. */
	put(entry_of(60), span_of(SPAN_COUNT));
	put(entry_of(100), span_of(0));
	put_totals((20 + 329) * UNIT, 10 * UNIT);
	put_sizes(SIZES_AT, 128);
}

static int begin(void **state)
{
	static char none[] = "", library[] = "/lib/libtcmalloc.so.4";

	(void)state;
	if (mmap((void *)(uintptr_t)BASE, BYTES, PROT_READ | PROT_WRITE,
		 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE | MAP_NORESERVE, -1,
		 0) != (void *)(uintptr_t)BASE)
		return -1;
	list[0] = (struct limpet_map){.start = BASE, .end = BASE + BYTES, .path = none};
	list[1] = (struct limpet_map){.start = (uintptr_t)data,
				      .end = (uintptr_t)data + sizeof(data),
				      .inode = 7,
				      .path = library};
	for (size_t i = 0; i < maps.count; i++)
		memcpy(list[i].perms, "rw-p", sizeof("rw-p"));
	limpet_memory_ranges_add(&pieces,
				 &(struct limpet_memory_range){.start = BASE,
							       .end = BASE + HEAP_BYTES,
							       .account = LIMPET_MEMORY_UNKNOWN});
	return pieces.error ? pieces.error
			    : limpet_pages_new(target_of(getpid()), LIMPET_PAGES_SCAN, &pages);
}

static int end(void **state)
{
	(void)state;
	limpet_memory_ranges_done(&pieces);
	limpet_pages_free(pages);
	return munmap((void *)(uintptr_t)BASE, BYTES);
}

static void read_heap(struct limpet_gperftools *heap)
{
	*heap = (struct limpet_gperftools){.count = 0};
	assert_int_equal(limpet_gperftools_read(&reader, &maps, pages, &pieces, heap), 0);
}

static void count(struct limpet_class_tally *tally)
{
	struct limpet_gperftools heap;

	memset(tally, 0, sizeof(*tally));
	read_heap(&heap);
	limpet_gperftools_count(&heap, &heap.classes, tally);
	limpet_gperftools_done(&heap);
}

static void assert_counted(const struct limpet_class_tally *tally)
{
	assert_int_equal(tally->count, 4);
	assert_int_equal(limpet_class_tally_blocks(tally, 16), 307);
	assert_int_equal(limpet_class_tally_blocks(tally, 3072), 2);
	assert_int_equal(limpet_class_tally_blocks(tally, 50 * UNIT), 1);
	assert_int_equal(limpet_class_tally_blocks(tally, 100 * UNIT), 1);
}

static void test_blocks_by_class(void **state)
{
	static struct limpet_class_tally tally;
	struct limpet_gperftools heap;
	const struct limpet_gperftools_span *span;

	(void)state;
	build();
	read_heap(&heap);
	assert_int_equal(heap.root, (uintptr_t)&data[ROOT_AT]);
	assert_int_equal(heap.count, SPAN_COUNT);
	assert_true(heap.is_whole);
	assert_int_equal(heap.classes.count, CLASSES);
	span = limpet_gperftools_find(&heap, BASE + UNIT + 5);
	assert_non_null(span);
	assert_int_equal(limpet_gperftools_used_bytes(&heap.classes, span), 2 * 3072);
	span = limpet_gperftools_find(&heap, BASE + 60 * UNIT);
	assert_non_null(span);
	assert_int_equal(span->state, LIMPET_GPERFTOOLS_FREE);
	assert_int_equal(limpet_gperftools_used_bytes(&heap.classes, span), 0);
	assert_null(limpet_gperftools_find(&heap, BASE + HEAP_BYTES));
	assert_non_null(limpet_heap_ranges_find(&heap.tables, LEAF + 5));
	limpet_gperftools_done(&heap);
	count(&tally);
	assert_false(tally.is_cut);
	assert_counted(&tally);
	/* As in 2.6 to 2.8. */
	memset(data, 0, 4096);
	put_sizes(SIZES_AT, 96);
	count(&tally);
	assert_false(tally.is_cut);
	assert_counted(&tally);
}

/* By the totals of the heap, or by what leads to no span. */
static void test_what_is_missing_is_said(void **state)
{
	static struct limpet_class_tally tally;

	(void)state;
	for (int i = 0; i < 6; i++) {
		build();
		switch (i) {
		case 0: /* another total */
			data[TOTALS_AT] += UNIT;
			break;
		case 1: /* more is free than there is */
			put_totals(HEAP_BYTES, 10 * UNIT);
			break;
		case 2: /* none at all */
			put(entry_of(183), 0);
			break;
		case 3: /* more blocks than there is room for */
			put_span(1, &(struct span){1, 1, 0, 3, 3});
			break;
		case 4: /* of a class that does not exist */
			put_span(1, &(struct span){1, 1, 0, CLASSES, 1});
			break;
		default: /* in the midst of the list */
			put(span_of(5), BASE / UNIT + 81);
			break;
		}
		count(&tally);
		assert_true(tally.is_cut || !tally.count);
		assert_true(limpet_class_tally_blocks(&tally, 3072) <= 2);
		assert_true(limpet_class_tally_blocks(&tally, 16) <= 307);
	}
}

static void test_what_looks_like_a_map(void **state)
{
	struct limpet_gperftools heap;

	(void)state;
	for (int i = 0; i < 7; i++) {
		build();
		switch (i) {
		case 0: /* no word leads to the leaf */
			data[ROOT_AT + (BASE >> 31)] = 0;
			break;
		case 1: /* one does, but the root would begin before the data */
			data[100] = LEAF;
			data[ROOT_AT + (BASE >> 31)] = 0;
			break;
		case 2: /* beside what is no leaf */
			data[ROOT_AT + (BASE >> 31) + 1] = 42;
			break;
		default:
			for (size_t k = 0; k < SPAN_COUNT; k++) {
				struct span span = spans[k];

				span.state = i == 3 ? 3 : span.state;
				span.length = i == 4 ? 0 : span.length;
				put_span(k, &span);
				/* Nothing leads back from the end; or what leads there is odd. */
				if (i == 5 && span.length > 1)
					put(entry_of(span.first + span.length - 1), 0);
				if (i == 6)
					put(entry_of(span.first), span_of(k) + 1);
			}
			break;
		}
		read_heap(&heap);
		/* The first spans of one page only may still be right. */
		if (i != 5)
			assert_int_equal(heap.count, 0);
		limpet_gperftools_done(&heap);
	}
}

static void test_size_classes_that_are_not_known(void **state)
{
	struct limpet_gperftools heap;

	(void)state;
	for (int i = 0; i < 4; i++) {
		uint32_t *sizes = (uint32_t *)(void *)&data[SIZES_AT];

		build();
		if (i == 0)
			sizes[CLASSES - 1] = 262136;
		else if (i == 1)
			sizes[50] = sizes[49];
		else if (i == 2)
			data[SIZES_AT + 64 + 50] = 1;
		else
			put_sizes(OTHER_SIZES_AT, 128);
		/* Another one that fits as well. */
		if (i == 3)
			data[OTHER_SIZES_AT + 64 + 60]++;
		read_heap(&heap);
		assert_int_equal(heap.count, SPAN_COUNT);
		assert_int_equal(heap.classes.count, 0);
		limpet_gperftools_done(&heap);
	}
	/* Two that are the same: two copies of the allocator. */
	build();
	put_sizes(OTHER_SIZES_AT, 128);
	read_heap(&heap);
	assert_int_equal(heap.classes.count, CLASSES);
	limpet_gperftools_done(&heap);
}

/* The program frees the block of 100 pages once its span was read, before the next one is. */
static unsigned reads_of_last;

static void merge(uint64_t address)
{
	if (address != span_of(SPAN_COUNT - 1) || ++reads_of_last != 2)
		return;
	put(span_of(7), span_of(6));
	put_span(6, &(struct span){83, 429, 1, 0, 0});
	put_totals((20 + 429) * UNIT, 10 * UNIT);
}

static void test_spans_that_merge_meanwhile(void **state)
{
	static struct limpet_class_tally tally;
	struct limpet_gperftools heap;

	(void)state;
	build();
	read_heap(&heap);
	/* The search for the root has read it by then. */
	reads_of_last = 1;
	before_read = merge;
	heap.count = 0;
	assert_int_equal(limpet_gperftools_read_map(&reader, pages, heap.root, &heap), 0);
	assert_true(reads_of_last >= 2);
	assert_false(heap.missed);
	assert_true(heap.is_whole);
	assert_int_equal(heap.count, SPAN_COUNT - 1);
	memset(&tally, 0, sizeof(tally));
	limpet_gperftools_count(&heap, &heap.classes, &tally);
	assert_false(tally.is_cut);
	assert_int_equal(limpet_class_tally_blocks(&tally, 100 * UNIT), 0);
	assert_int_equal(limpet_class_tally_blocks(&tally, 16), 307);
	limpet_gperftools_done(&heap);
}

/* A root all words of which lead to the same leaf, and spans that overlap each other. */
static void test_hostile_maps(void **state)
{
	struct limpet_gperftools heap;

	(void)state;
	build();
	for (size_t i = 0; i < SPAN_COUNT; i++)
		put(span_of(i) + 8, UINT64_MAX - i);
	read_heap(&heap);
	assert_int_equal(heap.count, 0);
	limpet_gperftools_done(&heap);
	build();
	put(span_of(2) + 8, 70);
	read_heap(&heap);
	for (size_t i = 1; i < heap.count; i++)
		assert_true(heap.list[i - 1].end <= heap.list[i].start);
	assert_false(heap.is_whole);
	limpet_gperftools_done(&heap);
	build();
	for (size_t i = BASE >> 31; i < (BASE >> 31) + 8; i++)
		data[ROOT_AT + i] = LEAF;
	heap = (struct limpet_gperftools){.count = 0};
	assert_int_equal(
		limpet_gperftools_read_map(&reader, pages, (uintptr_t)&data[ROOT_AT], &heap), 0);
	assert_true(heap.count <= SPAN_COUNT && !heap.is_whole);
	limpet_gperftools_done(&heap);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_blocks_by_class),
		cmocka_unit_test(test_what_is_missing_is_said),
		cmocka_unit_test(test_what_looks_like_a_map),
		cmocka_unit_test(test_size_classes_that_are_not_known),
		cmocka_unit_test(test_spans_that_merge_meanwhile),
		cmocka_unit_test(test_hostile_maps),
	};

	return cmocka_run_group_tests(tests, begin, end);
}
