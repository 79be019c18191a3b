/* The tree of Google's tcmalloc, and what looks like one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <string.h>

#include "common/err.h"
#include "explain/tcmalloc.h"

#define HEAP UINT64_C(0x7141bb600000)
#define REGION_END UINT64_C(0x7141c0000000)
#define DATA UINT64_C(0x5643bf476000)
#define ROOT (DATA + 0x210)
#define TABLES UINT64_C(0x4d227fe00000)
#define TABLES_END UINT64_C(0x4d2280000000)
#define NODE (TABLES + 0x1040)
#define LEAF (TABLES + 0xa000)
#define SPAN (TABLES + 0x20030)

/* The memory of the tree: two megabytes of tables, and the root. */
static uint8_t tables[TABLES_END - TABLES], data[0x6000];

static int read_memory(void *context, uint64_t address, void *ret, size_t bytes)
{
	(void)context;
	if (address >= TABLES && address + bytes <= TABLES_END)
		memcpy(ret, tables + (address - TABLES), bytes);
	else if (address >= DATA && address + bytes <= DATA + sizeof(data))
		memcpy(ret, data + (address - DATA), bytes);
	else
		return -ENODATA;
	return 0;
}

static const struct limpet_memory_reader reader = {.read = read_memory};

static void put(uint64_t address, uint64_t word)
{
	memcpy(address < TABLES_END ? tables + (address - TABLES) : data + (address - DATA), &word,
	       sizeof(word));
}

/* A span of two pages, `first` being the first one's number; its third word holds it. */
static void put_span(uint64_t span, uint64_t first, unsigned class_bytes, uint64_t class)
{
	const uint64_t entries = LEAF + (uint64_t)class_bytes * 4096;

	put(span + 16, first | UINT64_C(0x5) << 35);
	for (uint64_t i = 0; i < 2; i++)
		put(entries + 8 * ((first + i) % 4096), span | class << 48);
}

static int begin(void **state)
{
	(void)state;
	memset(tables, 0, sizeof(tables));
	memset(data, 0, sizeof(data));
	put(ROOT + 8 * (HEAP >> 37), NODE);
	put(NODE + 8 * (HEAP >> 25 & 4095), LEAF);
	return 0;
}

static void test_a_page_of_a_span(void **state)
{
	const uint64_t first = HEAP >> 13;
	uint64_t span = 0;

	(void)state;
	assert_false(limpet_tcmalloc_explains(&reader, NODE, HEAP, &span));
	put_span(SPAN, first, 1, 7);
	assert_true(limpet_tcmalloc_explains(&reader, NODE, HEAP, &span));
	assert_int_equal(span, SPAN);
	/* The second page, and the second half of one. */
	assert_true(limpet_tcmalloc_explains(&reader, NODE, HEAP + 0x3000, &span));
	/* The one behind. */
	assert_false(limpet_tcmalloc_explains(&reader, NODE, HEAP + 0x4000, &span));
	/* Size classes of two bytes. */
	begin(state);
	put_span(SPAN, first, 2, 0);
	assert_true(limpet_tcmalloc_explains(&reader, NODE, HEAP + 0x2000, &span));
}

static void test_what_is_no_span(void **state)
{
	const uint64_t first = HEAP >> 13, entries = LEAF + 4096;
	uint64_t span;

	(void)state;
	/* It begins at another page, of which nothing says that it is its. */
	put_span(SPAN, first, 1, 7);
	put(entries + 8 * (first % 4096), SPAN + 64);
	assert_false(limpet_tcmalloc_explains(&reader, NODE, HEAP + 0x2000, &span));
	/* Behind the page. */
	begin(state);
	put_span(SPAN, first, 1, 7);
	put(SPAN + 16, first + 2);
	assert_false(limpet_tcmalloc_explains(&reader, NODE, HEAP, &span));
	/* In the part of another leaf. */
	put(SPAN + 16, first - 4096);
	assert_false(limpet_tcmalloc_explains(&reader, NODE, HEAP, &span));
	/* Not aligned, or not there. */
	begin(state);
	put(entries + 8 * (first % 4096), SPAN + 4);
	put(SPAN + 20, first);
	assert_false(limpet_tcmalloc_explains(&reader, NODE, HEAP, &span));
	put(entries + 8 * (first % 4096), 0x1000);
	assert_false(limpet_tcmalloc_explains(&reader, NODE, HEAP, &span));
	put(NODE + 8 * (HEAP >> 25 & 4095), LEAF + 1);
	assert_false(limpet_tcmalloc_explains(&reader, NODE, HEAP, &span));
}

static struct limpet_map mapping(uint64_t start, uint64_t end, uint64_t inode)
{
	struct limpet_map map = {.start = start, .end = end, .inode = inode};

	memcpy(map.perms, "rw-p", sizeof("rw-p"));
	map.path = inode ? (char *)"/bin/workerd" : (char *)"";
	return map;
}

static void test_what_the_tree_covers(void **state)
{
	struct limpet_map list[] = {mapping(TABLES, TABLES_END, 0),
				    mapping(DATA, DATA + sizeof(data), 1),
				    mapping(HEAP, REGION_END, 0)};
	const struct limpet_maps maps = {.list = list, .count = LIMPET_COUNT_OF(list)};
	struct limpet_tcmalloc tcmalloc = {0};
	const struct limpet_heap_range *range;

	(void)state;
	/* Two leaves that follow each other, and what is no pointer to one. */
	put(NODE + 8 * ((HEAP >> 25 & 4095) + 1), LEAF);
	put(NODE + 8 * ((HEAP >> 25 & 4095) + 3), DATA);
	put(NODE + 8 * ((HEAP >> 25 & 4095) + 4), 0x1000);
	assert_int_equal(limpet_tcmalloc_read_tree(&reader, &maps, ROOT, &tcmalloc), 0);
	assert_false(tcmalloc.is_cut);
	assert_int_equal(tcmalloc.ranges.count, 2);
	assert_int_equal(tcmalloc.ranges.list[0].start, TABLES);
	assert_int_equal(tcmalloc.ranges.list[0].end, TABLES_END);
	assert_true(tcmalloc.ranges.list[0].is_table);
	range = limpet_heap_ranges_find(&tcmalloc.ranges, HEAP);
	assert_non_null(range);
	assert_false(range->is_table);
	assert_int_equal(range->start, HEAP & ~UINT64_C(0x1ffffff));
	assert_int_equal(range->end - range->start, 2 * 0x2000000);
	assert_null(limpet_heap_ranges_find(&tcmalloc.ranges, range->start - 1));
	assert_null(limpet_heap_ranges_find(&tcmalloc.ranges, range->end));
	limpet_tcmalloc_done(&tcmalloc);
	/* Tables in a mapping that begins elsewhere are of no known owner. */
	list[0].start += 4096;
	assert_int_equal(limpet_tcmalloc_read_tree(&reader, &maps, ROOT, &tcmalloc), 0);
	assert_int_equal(tcmalloc.ranges.count, 1);
	assert_false(tcmalloc.ranges.list[0].is_table);
	limpet_tcmalloc_done(&tcmalloc);
}

/* A hostile root, each word of which leads to the same node. */
static void test_a_large_tree_is_cut(void **state)
{
	struct limpet_map list[] = {mapping(TABLES, TABLES_END, 0)};
	const struct limpet_maps maps = {.list = list, .count = 1};
	struct limpet_tcmalloc tcmalloc = {0};

	(void)state;
	for (uint64_t i = 0; i < 2048; i++)
		put(ROOT + 8 * i, NODE);
	for (uint64_t i = 0; i < 4096; i += 2)
		put(NODE + 8 * i, LEAF);
	assert_int_equal(limpet_tcmalloc_read_tree(&reader, &maps, ROOT, &tcmalloc), 0);
	assert_true(tcmalloc.is_cut);
	assert_true(tcmalloc.ranges.count <= 65536 + 64);
	limpet_tcmalloc_done(&tcmalloc);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_a_page_of_a_span, begin),
		cmocka_unit_test_setup(test_what_is_no_span, begin),
		cmocka_unit_test_setup(test_what_the_tree_covers, begin),
		cmocka_unit_test_setup(test_a_large_tree_is_cut, begin),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
