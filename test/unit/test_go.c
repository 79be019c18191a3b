/* The heap of a Go program, by tables that this process makes, and what looks like them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/err.h"
#include "explain/go.h"
#include "test/unit/target_of.h"

#define MIB ((size_t)1 << 20)
#define CHUNK_BYTES ((size_t)256 << 10)
#define CHUNKS 3u
#define TABLE_BYTES (32 * MIB)
#define SPANS 8u
/* Of Go 1.21. */
#define SPANS_OFFSET ((size_t)0x104000)
#define ARENA_BYTES (SPANS_OFFSET + 8 * (size_t)8192 + 4096)

struct program {
	uint8_t *chunks, *arena, *table, *mapped, *heap;
	uint64_t number; /* of the heap's arena */
	struct limpet_process_reader *process;
	struct limpet_maps maps;
	struct limpet_go go;
	bool is_named; /* by prctl(2): PR_SET_VMA_ANON_NAME, which not every kernel knows */
};
static struct program program;

static uint8_t *map_memory(size_t bytes)
{
	void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	assert_true(memory != MAP_FAILED);
	return memory;
}

static uint64_t at(const void *memory)
{
	return (uint64_t)(uintptr_t)memory;
}

static void put(uint8_t *to, uint64_t word)
{
	memcpy(to, &word, sizeof(word));
}

/* The structure of span `i`, in the second chunk, and its pointers in the arena; of two pages. */
static uint8_t *span_of(unsigned i)
{
	return program.chunks + CHUNK_BYTES + 0x1000 + (size_t)i * 160;
}

static void put_spans(void)
{
	uint8_t *pointers = program.arena + SPANS_OFFSET;

	for (unsigned i = 0; i < SPANS; i++) {
		put(span_of(i) + 24, at(program.heap) + (uint64_t)i * 16384);
		put(span_of(i) + 32, 2);
		put(pointers + (size_t)i * 16, at(span_of(i)));
		put(pointers + (size_t)i * 16 + 8, at(span_of(i)));
	}
}

static int begin(void **state)
{
	(void)state;
	program = (struct program){.chunks = map_memory(CHUNKS * CHUNK_BYTES),
				   .arena = map_memory(ARENA_BYTES),
				   .table = map_memory(TABLE_BYTES),
				   .mapped = map_memory(2 * LIMPET_GO_ARENA_BYTES)};
	program.heap = program.mapped +
		       (LIMPET_GO_ARENA_BYTES - at(program.mapped) % LIMPET_GO_ARENA_BYTES) %
			       LIMPET_GO_ARENA_BYTES;
	program.number = at(program.heap) / LIMPET_GO_ARENA_BYTES + ((uint64_t)1 << 21);
	put(program.chunks, 0);
	for (unsigned i = 1; i < CHUNKS; i++)
		put(program.chunks + i * CHUNK_BYTES, at(program.chunks + (i - 1) * CHUNK_BYTES));
	put_spans();
	put(program.table + 8 * program.number, at(program.arena));
	return 0;
}

static int end(void **state)
{
	(void)state;
	munmap(program.chunks, CHUNKS * CHUNK_BYTES);
	munmap(program.arena, ARENA_BYTES);
	munmap(program.table, TABLE_BYTES);
	munmap(program.mapped, 2 * LIMPET_GO_ARENA_BYTES);
	return 0;
}

static void name_all(void)
{
	static char name[] = "[anon: Go: heap]";

	for (size_t i = 0; i < program.maps.count; i++)
		if (!program.maps.list[i].inode && !program.maps.list[i].path[0])
			program.maps.list[i].path = name;
}

/* By pointers to the heap, the newest chunk and the table. Returns how many ranges are found. */
static size_t find(void)
{
	const uint64_t pointers[] = {at(program.heap),
				     at(program.chunks + (CHUNKS - 1) * CHUNK_BYTES),
				     at(program.table)};

	limpet_go_done(&program.go);
	assert_int_equal(limpet_proc_maps_read(getpid(), &program.maps), 0);
	if (program.is_named)
		name_all();
	assert_int_equal(limpet_process_reader_new(target_of(getpid()), &program.process), 0);
	assert_int_equal(limpet_go_read_tables(limpet_process_reader(program.process),
					       &program.maps,
					       limpet_process_reader_pages(program.process),
					       pointers, LIMPET_COUNT_OF(pointers), &program.go),
			 0);
	limpet_process_reader_free(program.process);
	limpet_proc_maps_done(&program.maps);
	return program.go.ranges.count;
}

static bool is_heap(const void *address)
{
	const struct limpet_heap_range *range =
		limpet_heap_ranges_find(&program.go.ranges, at(address));

	return range && !range->is_table;
}

static bool is_table(const void *address)
{
	const struct limpet_heap_range *range =
		limpet_heap_ranges_find(&program.go.ranges, at(address));

	return range && range->is_table;
}

static void all_is_found(void)
{
	assert_true(is_heap(program.heap));
	assert_true(is_heap(program.heap + LIMPET_GO_ARENA_BYTES - 1));
	assert_false(is_heap(program.heap + LIMPET_GO_ARENA_BYTES));
	assert_true(is_table(program.arena));
	assert_true(is_table(program.arena + ARENA_BYTES - 1));
	for (unsigned i = 0; i < CHUNKS; i++)
		assert_true(is_table(program.chunks + i * CHUNK_BYTES));
}

static void test_all_that_the_table_leads_to(void **state)
{
	(void)state;
	assert_true(find() >= CHUNKS + 3);
	all_is_found();
	assert_true(is_table(program.table));
	limpet_go_done(&program.go);
	assert_null(limpet_heap_ranges_find(&program.go.ranges, at(program.heap)));
}

/* Two more words of the table: one leads to another arena's description, the other to nothing. */
static void test_arenas_that_are_none(void **state)
{
	(void)state;
	put(program.table + 8 * (program.number + 1), at(program.arena));
	put(program.table + 8 * (program.number + 2), 0x1000);
	find();
	assert_true(is_heap(program.heap));
	assert_false(is_heap(program.heap + LIMPET_GO_ARENA_BYTES));
	limpet_go_done(&program.go);
}

/* A span that was given back still says where it was. It has more pages than are tried. */
static void test_a_span_that_was_moved(void **state)
{
	uint8_t *pointers = program.arena + SPANS_OFFSET;

	(void)state;
	put(span_of(0) + 24, at(program.heap) + 0x200000);
	for (size_t i = 0; i < 40; i++)
		put(pointers + 8 * i, at(span_of(0)));
	for (unsigned i = 1; i < SPANS; i++)
		put(span_of(i) + 24, at(program.heap) + 8192 * (40 + (uint64_t)i));
	for (unsigned i = 1; i < SPANS; i++)
		put(pointers + 8 * (40 + (size_t)i), at(span_of(i)));
	assert_true(find() > 0);
	all_is_found();
	limpet_go_done(&program.go);
}

static void test_what_does_not_fit(void **state)
{
	(void)state;
	/* The list of chunks does not end. */
	put(program.chunks, at(program.chunks + CHUNK_BYTES));
	assert_int_equal(find(), 0);
	put(program.chunks, 0);
	/* Chunks overlap. */
	put(program.chunks + CHUNK_BYTES, at(program.chunks + CHUNK_BYTES / 2));
	assert_int_equal(find(), 0);
	put(program.chunks + CHUNK_BYTES, at(program.chunks));
	assert_true(find() > 0);
	/* Most spans are not where the arena has their addresses. */
	for (unsigned i = 0; i < SPANS - 3; i++)
		put(span_of(i) + 24, at(program.heap) + 0x200000 + (uint64_t)i * 16384);
	assert_int_equal(find(), 0);
	put_spans();
	/* The table leads elsewhere. */
	put(program.table + 8 * program.number, at(program.arena) + 8);
	assert_int_equal(find(), 0);
}

/* Go 1.25 names its memory, where the kernel can. */
static void test_memory_that_has_a_name(void **state)
{
	(void)state;
	program.is_named = true;
	assert_true(find() >= CHUNKS + 3);
	all_is_found();
	limpet_go_done(&program.go);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_all_that_the_table_leads_to, begin, end),
		cmocka_unit_test_setup_teardown(test_arenas_that_are_none, begin, end),
		cmocka_unit_test_setup_teardown(test_memory_that_has_a_name, begin, end),
		cmocka_unit_test_setup_teardown(test_a_span_that_was_moved, begin, end),
		cmocka_unit_test_setup_teardown(test_what_does_not_fit, begin, end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
