/* V8's objects from outside: constants of a build, and the walk over pages of a heap that is made
 * up here, whole and damaged. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "common/err.h"
#include "explain/runtimes/v8_heap.h"
#include "explain/runtimes/v8_tally.h"
#include "injector/proc/proc.h"

/* ------------------------------------------------------------------ constants of a build */

/* This program has the constants of a build of V8 11.3. */
#define CONSTANT(name, value)              \
	extern const int32_t v8dbg_##name; \
	const int32_t v8dbg_##name __attribute__((used)) = value
#define VERSION(part, value)                               \
	extern int32_t _ZN2v88internal7Version6##part##_E; \
	int32_t _ZN2v88internal7Version6##part##_E __attribute__((used)) = value
VERSION(major, 11);
VERSION(minor, 3);
VERSION(build, 244);
CONSTANT(TaggedSize, 8);
CONSTANT(FirstContextType, 205);
CONSTANT(LastContextType, 214);
CONSTANT(bit_field3_is_dictionary_map_shift, 21);
CONSTANT(scopeinfo_idx_first_vars, 3);
CONSTANT(scopeinfo_idx_ncontextlocals, 2);
CONSTANT(class_JSFunction__shared__SharedFunctionInfo, 24);
CONSTANT(class_SharedFunctionInfo__name_or_scope_info__Tagged_Object_, 16);
CONSTANT(class_SharedFunctionInfo__script__Tagged_HeapObject_, 32);
CONSTANT(class_JSArrayBuffer__byte_length__size_t, 32);
CONSTANT(class_JSArrayBuffer__backing_store__uintptr_t, 48);
CONSTANT(type_Map__MAP_TYPE, 255);
CONSTANT(type_Symbol__SYMBOL_TYPE, 128);
CONSTANT(type_FixedArray__FIXED_ARRAY_TYPE, 175);
CONSTANT(type_ByteArray__BYTE_ARRAY_TYPE, 190);
CONSTANT(type_FreeSpace__FREE_SPACE_TYPE, 251);
CONSTANT(type_ScopeInfo__SCOPE_INFO_TYPE, 261);
CONSTANT(type_SharedFunctionInfo__SHARED_FUNCTION_INFO_TYPE, 262);
CONSTANT(type_Script__SCRIPT_TYPE, 167);
CONSTANT(type_JSProxy__JS_PROXY_TYPE, 278);
CONSTANT(type_JSObject__JS_OBJECT_TYPE, 1057);
CONSTANT(type_JSArrayBuffer__JS_ARRAY_BUFFER_TYPE, 2062);
CONSTANT(type_JSFunction__JS_FUNCTION_TYPE, 2066);

static struct limpet_v8_layout layout;

static int read_constants(void **state)
{
	LIMPET_CLOSE int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);

	(void)state;
	return fd < 0 ? -1 : limpet_v8_layout_read(fd, &layout);
}

static void test_constants_of_a_build(void **state)
{
	(void)state;
	assert_int_equal(layout.major, 11);
	assert_int_equal(layout.minor, 3);
	assert_int_equal(layout.build, 244);
	/* By the beginnings of their names, and by what all releases have in common. */
	assert_int_equal(layout.shared_name_or_scope, 16);
	assert_int_equal(layout.shared_script, 32);
	assert_int_equal(layout.map_instance_type, 12);
	assert_int_equal(layout.type_function, 2066);
	assert_int_equal(layout.function_code, LIMPET_V8_UNKNOWN);
	/* By their places among others. */
	assert_string_equal(limpet_v8_class_of(&layout, 129), "BigInt");
	assert_string_equal(limpet_v8_class_of(&layout, 176), "HashTable");
	assert_string_equal(limpet_v8_class_of(&layout, 190), "ByteArray");
	assert_string_equal(limpet_v8_class_of(&layout, 212), "NativeContext");
	assert_null(limpet_v8_class_of(&layout, 204));
	assert_int_equal(limpet_v8_type_of(&layout, "ScopeInfo"), 261);
	assert_int_equal(limpet_v8_type_of(&layout, "Nothing"), LIMPET_V8_UNKNOWN);
	assert_string_equal(limpet_v8_space_name(&layout, 2), "V8: old space");
	assert_null(limpet_v8_space_name(&layout, 13));
}

static void test_no_build_of_v8(void **state)
{
	LIMPET_CLOSE int fd = open("/bin/true", O_RDONLY | O_CLOEXEC);
	struct limpet_v8_layout other;

	(void)state;
	assert_true(fd >= 0);
	assert_int_equal(limpet_v8_layout_read(fd, &other), -ENOENT);
}

/* ------------------------------------------------------------------ a heap that is made up */

#define BASE UINT64_C(0x1f2500000)
#define PAGE LIMPET_V8_PAGE_BYTES
enum { PAGES = 6, HEAD_BYTES = 0x1000 };
/* The isolate is behind the pages; its heap has its allocation areas before it. */
#define ISOLATE (BASE + PAGES * PAGE)
#define HEAP (ISOLATE + 0x8000)
#define SPACE (ISOLATE + 0x100)
#define AREAS (HEAP - 0x1000)

static uint8_t *memory;
static uint64_t reads;

static uint8_t *at(uint64_t address)
{
	return memory + (address - BASE);
}

static void put(uint64_t address, uint64_t word)
{
	memcpy(at(address), &word, sizeof(word));
}

static int read_memory(void *context, uint64_t address, void *ret, size_t bytes)
{
	(void)context;
	reads++;
	if (address < BASE || address - BASE > (PAGES + 1) * PAGE ||
	    bytes > (PAGES + 1) * PAGE - (address - BASE))
		return -EFAULT;
	memcpy(ret, at(address), bytes);
	return 0;
}

static const struct limpet_memory_reader reader = {.read = read_memory};
static const struct limpet_v8 v8 = {.layout = &layout, .memory = &reader};
static char no_path[] = "";
static struct limpet_map map_list[] = {
	{.start = BASE, .end = BASE + (PAGES + 1) * PAGE, .perms = "rw-p", .path = no_path}};
static const struct limpet_maps maps = {map_list, 1};

enum { META, OBJECT, SHARED, FUNCTION, STRING, ARRAY, FREE, BUFFER, SCRIPT, MAPS };
static const struct {
	uint16_t type;
	uint8_t words;
} kinds[MAPS] = {
	[META] = {255, 10},     [OBJECT] = {1057, 4}, [SHARED] = {262, 7},
	[FUNCTION] = {2066, 8}, [STRING] = {8, 0},    [ARRAY] = {175, 0},
	[FREE] = {251, 0},      [BUFFER] = {2062, 8}, [SCRIPT] = {167, 16},
};

/* The maps are at the start of the first page. */
static uint64_t map_of(unsigned kind)
{
	return BASE + HEAD_BYTES + kind * 80;
}

static uint64_t begin_page(unsigned index, uint64_t flags)
{
	const uint64_t address = BASE + index * PAGE;

	put(address, PAGE);
	put(address + 8, flags);
	put(address + 16, HEAP);
	put(address + 24, address + HEAD_BYTES);
	put(address + 32, address + PAGE);
	put(address + 40, PAGE - HEAD_BYTES);
	put(address + 64, SPACE);
	return address + HEAD_BYTES;
}

/* Returns the address behind it. */
static uint64_t add_object(uint64_t address, unsigned kind)
{
	put(address, map_of(kind) | 1);
	return address + kinds[kind].words * UINT64_C(8);
}

static uint64_t add_string(uint64_t address, const char *text)
{
	const uint64_t length = strlen(text);

	put(address, map_of(STRING) | 1);
	put(address + 8, length << 32);
	memcpy(at(address + 16), text, length);
	return address + ((16 + length + 7) & ~UINT64_C(7));
}

static uint64_t add_free(uint64_t address, uint64_t end)
{
	put(address, map_of(FREE) | 1);
	put(address + 8, (end - address) << 32);
	return end;
}

static uint64_t add_array(uint64_t address, uint64_t length)
{
	put(address, map_of(ARRAY) | 1);
	put(address + 8, length << 32);
	return address + 16 + length * 8;
}

enum { SESSIONS = 100, CLOSURES = 50 };

/* Page 0, old: maps, a class "Session" in "chain.js", two arrays, closures. Page 1, young, in use:
 * objects of the class up to the top, and dead ones behind it. Page 2, young, behind it: dead ones.
 * Page 3, young: of the other semispace. Page 4, old: an array buffer, and free space. */
static void make_heap(void)
{
	uint64_t next, name, script_name, script, shared, class;

	memset(memory, 0, (PAGES + 1) * PAGE);
	(void)begin_page(0, 0x4);
	for (unsigned i = 0; i < MAPS; i++) {
		put(map_of(i), map_of(META) | 1);
		put(map_of(i) + 8, kinds[i].words | (uint64_t)kinds[i].type << 32);
	}
	next = map_of(MAPS);
	name = next;
	next = script_name = add_string(next, "Session");
	next = script = add_string(next, "/srv/chain.js");
	put(script + 16, script_name | 1);
	next = shared = add_object(next, SCRIPT);
	put(shared + 16, name | 1);
	put(shared + 32, script | 1);
	next = class = add_object(next, SHARED);
	put(class + 24, shared | 1);
	next = add_object(next, FUNCTION);
	put(map_of(OBJECT) + 32, class | 1);
	put(map_of(FUNCTION) + 32, class | 1);
	next = add_array(add_array(next, 10), 0);
	for (unsigned i = 0; i < CLOSURES; i++) {
		put(next + 24, shared | 1);
		next = add_object(next, FUNCTION);
	}
	add_free(next, BASE + PAGE);
	for (unsigned page = 1; page <= 3; page++) {
		next = begin_page(page, page < 3 ? 0x10 : 0x8);
		for (unsigned i = 0; i < SESSIONS * 2; i++)
			next = add_object(next, OBJECT);
	}
	next = begin_page(4, 0x4);
	put(next + 32, 12345);
	put(next + 48, UINT64_C(0x7f0000001000));
	next = add_object(next, BUFFER);
	add_free(next, BASE + 5 * PAGE);
}

/* The space of all pages, as if each were of a semispace: their list is in the words behind. */
static void make_isolate(void)
{
	put(SPACE, UINT64_C(0x5000));
	put(SPACE + 8, HEAP);
	put(SPACE + 16, 1);
	put(SPACE + 24, PAGE);
	put(SPACE + 40, BASE + PAGE);
	put(SPACE + 48, BASE + 2 * PAGE);
	put(BASE + PAGE + 264, BASE + 2 * PAGE);
	for (unsigned page = 0; page < PAGES; page++)
		if (page != 1 && page != 2)
			put(BASE + page * PAGE + 64, 0);
	put(AREAS, BASE + PAGE + HEAD_BYTES);
	put(AREAS + 8, BASE + PAGE + HEAD_BYTES + SESSIONS * 32);
	put(AREAS + 16, BASE + 2 * PAGE);
}

static int begin(void **state)
{
	(void)state;
	memory = calloc(PAGES + 1, PAGE);
	if (!memory)
		return -1;
	make_heap();
	make_isolate();
	return 0;
}

static int end(void **state)
{
	(void)state;
	free(memory);
	return 0;
}

static bool is_outside(void *context, uint64_t address)
{
	(void)context;
	return address >> 40 == 0x7f;
}

static const struct limpet_v8_around around = {.is_outside = is_outside};

/* Walks over all pages, and counts; returns the bytes in which there were no objects. */
static uint64_t count(struct limpet_v8_heap *heap, struct limpet_v8_tally *tally)
{
	struct limpet_v8_walk *walk;
	uint64_t doubtful = 0;

	assert_int_equal(limpet_v8_walk_new(&v8, &walk), 0);
	for (size_t i = 0; i < heap->count; i++) {
		const struct limpet_v8_page *page = &heap->pages[i].page;
		struct limpet_v8_gap gaps[LIMPET_V8_GAPS];
		struct limpet_v8_area area = {.bytes = at(page->start),
					      .copied_bytes = page->end - page->start,
					      .start = page->start,
					      .end = page->end,
					      .gaps = gaps,
					      .is_young = page->flags & LIMPET_V8_FLAGS_YOUNG};
		uint64_t from = page->start, stopped = 0;

		if (heap->pages[i].is_unused || page->end > BASE + PAGES * PAGE)
			continue;
		area.gap_count = limpet_v8_heap_gaps(&reader, heap, page, gaps);
		for (unsigned tries = 0; tries < 100 && from < area.end; tries++) {
			if (limpet_v8_walk_area(walk, &area, from, limpet_v8_tally_note, tally,
						&stopped) == 0)
				break;
			from = limpet_v8_walk_next(walk, &area, stopped);
			doubtful += from - stopped;
		}
	}
	limpet_v8_walk_free(walk);
	return doubtful;
}

static const struct limpet_v8_row *find_row(const struct limpet_v8_row *rows, size_t rows_count,
					    enum limpet_v8_kind kind, const char *name)
{
	for (size_t i = 0; i < rows_count; i++)
		if (rows[i].kind == kind && !strcmp(rows[i].name, name))
			return &rows[i];
	fail_msg("there is no row for %s", name);
	return NULL;
}

static void test_objects_are_counted(void **state)
{
	struct limpet_v8_heap heap = {0};
	struct limpet_v8_tally *tally;
	const struct limpet_v8_row *rows, *row;
	size_t rows_count;

	(void)state;
	assert_int_equal(limpet_v8_heap_read(&reader, &maps, &heap), 0);
	assert_int_equal(heap.count, 5);
	assert_int_equal(heap.isolates, 1);
	assert_int_equal(heap.area_count, 1);
	assert_false(heap.pages[1].is_unused);
	assert_true(heap.pages[2].is_unused);
	assert_true(heap.pages[3].is_unused);
	assert_int_equal(limpet_v8_tally_new(&v8, &around, &tally), 0);
	assert_int_equal(count(&heap, tally), 0);
	assert_int_equal(limpet_v8_tally_rows(tally, 4096, &rows, &rows_count), 0);
	row = find_row(rows, rows_count, LIMPET_V8_INSTANCES, "Session");
	assert_int_equal(row->count, SESSIONS);
	assert_int_equal(row->bytes, SESSIONS * 32);
	assert_string_equal(row->script, "/srv/chain.js");
	row = find_row(rows, rows_count, LIMPET_V8_CLOSURES, "Session");
	assert_int_equal(row->count, CLOSURES + 1);
	row = find_row(rows, rows_count, LIMPET_V8_INTERNAL, "FixedArray");
	assert_int_equal(row->count, 2);
	assert_int_equal(row->bytes, 2 * 16 + 80);
	row = find_row(rows, rows_count, LIMPET_V8_STRINGS, "characters");
	assert_int_equal(row->count, 2);
	row = find_row(rows, rows_count, LIMPET_V8_INSTANCES, "JSArrayBuffer");
	assert_int_equal(row->outside_bytes, 12345);
	assert_int_equal(limpet_v8_tally_totals(tally)->outside_bytes, 12345);
	limpet_v8_tally_free(tally);
	limpet_v8_heap_done(&heap);
}

static void test_rows_beyond_the_limit_are_summed_up(void **state)
{
	struct limpet_v8_heap heap = {0};
	struct limpet_v8_tally *tally;
	const struct limpet_v8_row *rows;
	uint64_t objects = 0;
	size_t rows_count;

	(void)state;
	assert_int_equal(limpet_v8_heap_read(&reader, &maps, &heap), 0);
	assert_int_equal(limpet_v8_tally_new(&v8, &around, &tally), 0);
	assert_int_equal(count(&heap, tally), 0);
	assert_int_equal(limpet_v8_tally_rows(tally, 6, &rows, &rows_count), 0);
	assert_true(rows_count <= 6);
	for (size_t i = 0; i < rows_count; i++)
		objects += rows[i].count;
	assert_int_equal(objects, limpet_v8_tally_totals(tally)->count);
	assert_string_equal(rows[rows_count - 1].name, "");
	limpet_v8_tally_free(tally);
	limpet_v8_heap_done(&heap);
}

/* As if the collector had moved the function's name, and something else were there. */
static void move_name(void *context)
{
	(void)context;
	memcpy(at(map_of(MAPS) + 16), "secret.", 7);
}

static void test_a_name_that_is_another_by_then(void **state)
{
	const struct limpet_v8_around moving = {.is_outside = is_outside, .forget = move_name};
	struct limpet_v8_heap heap = {0};
	struct limpet_v8_tally *tally;
	const struct limpet_v8_row *rows;
	size_t rows_count;

	(void)state;
	assert_int_equal(limpet_v8_heap_read(&reader, &maps, &heap), 0);
	assert_int_equal(limpet_v8_tally_new(&v8, &moving, &tally), 0);
	assert_int_equal(count(&heap, tally), 0);
	assert_int_equal(limpet_v8_tally_rows(tally, 4096, &rows, &rows_count), 0);
	assert_int_equal(find_row(rows, rows_count, LIMPET_V8_INSTANCES, "")->count, SESSIONS);
	assert_string_equal(find_row(rows, rows_count, LIMPET_V8_INSTANCES, "")->script, "");
	limpet_v8_tally_free(tally);
	limpet_v8_heap_done(&heap);
}

/* What was overwritten is left out; what follows is counted. */
static void test_a_page_that_is_overwritten(void **state)
{
	const uint64_t broken = BASE + PAGE + HEAD_BYTES + 10 * 32;
	struct limpet_v8_heap heap = {0};
	struct limpet_v8_tally *tally;
	const struct limpet_v8_row *rows;
	size_t rows_count;

	(void)state;
	memset(at(broken), 7, 64);
	assert_int_equal(limpet_v8_heap_read(&reader, &maps, &heap), 0);
	assert_int_equal(limpet_v8_tally_new(&v8, &around, &tally), 0);
	assert_int_equal(count(&heap, tally), 64);
	assert_int_equal(limpet_v8_tally_rows(tally, 4096, &rows, &rows_count), 0);
	assert_int_equal(find_row(rows, rows_count, LIMPET_V8_INSTANCES, "Session")->count,
			 SESSIONS - 2);
	limpet_v8_tally_free(tally);
	limpet_v8_heap_done(&heap);
}

static uint64_t next_random(uint64_t *random)
{
	*random ^= *random << 13;
	*random ^= *random >> 7;
	*random ^= *random << 17;
	return *random;
}

/* Words of its objects, maps and heads, each of which is read. */
static uint64_t random_address(uint64_t *random)
{
	static const struct {
		uint64_t from, words;
	} parts[] = {{BASE + HEAD_BYTES, 800},
		     {BASE, 40},
		     {BASE + PAGE, 40},
		     {AREAS, 3},
		     {SPACE, 8},
		     {BASE + PAGE + HEAD_BYTES, 800},
		     {BASE + 2 * PAGE, 40},
		     {BASE + 4 * PAGE, 0x210}};
	const uint64_t number = next_random(random);

	return parts[number % LIMPET_COUNT_OF(parts)].from +
	       (number >> 8) % parts[number % LIMPET_COUNT_OF(parts)].words * 8;
}

static uint64_t random_word(uint64_t *random)
{
	const uint64_t number = next_random(random);

	switch (number % 5) {
	case 0:
		return number;
	case 1:
		return random_address(random) | 1;
	case 2:
		return (number >> 8 & 0xffff) << 32;
	case 3:
		return number >> 8 & 0xff;
	default:
		return UINT64_MAX << (number >> 8) % 64;
	}
}

static void test_damaged_heaps(void **state)
{
	uint64_t random = 4711, most = 0;

	(void)state;
	for (unsigned round = 0; round < 1000; round++) {
		struct limpet_v8_heap heap = {0};
		struct limpet_v8_tally *tally;
		const struct limpet_v8_row *rows;
		size_t rows_count;

		make_heap();
		make_isolate();
		for (unsigned i = 0; i <= round % 20; i++)
			put(random_address(&random), random_word(&random));
		reads = 0;
		assert_int_equal(limpet_v8_heap_read(&reader, &maps, &heap), 0);
		assert_int_equal(limpet_v8_tally_new(&v8, &around, &tally), 0);
		(void)count(&heap, tally);
		assert_int_equal(limpet_v8_tally_rows(tally, 64, &rows, &rows_count), 0);
		assert_true(rows_count <= 64);
		assert_true(limpet_v8_tally_totals(tally)->bytes <= PAGES * PAGE);
		most = reads > most ? reads : most;
		limpet_v8_tally_free(tally);
		limpet_v8_heap_done(&heap);
	}
	assert_true(most < 2000000);
}

/* ------------------------------------------------------------------ names */

static void test_names_that_lead_in_circles(void **state)
{
	const uint64_t name = map_of(MAPS), cons = BASE + 5 * PAGE + 0x100;
	char text[32];

	(void)state;
	assert_int_equal(limpet_v8_text(&v8, name | 1, text, sizeof(text)), 0);
	assert_string_equal(text, "Session");
	assert_int_equal(limpet_v8_text(&v8, name | 1, text, 4), 0);
	assert_string_equal(text, "Ses");
	/* Both halves are the string itself. */
	put(cons - 80, map_of(META) | 1);
	put(cons - 72, 4 | UINT64_C(41) << 32);
	put(cons, (cons - 80) | 1);
	put(cons + 8, UINT64_C(1000000) << 32);
	put(cons + 16, cons | 1);
	put(cons + 24, cons | 1);
	assert_int_equal(limpet_v8_text(&v8, cons | 1, text, sizeof(text)), -EBADMSG);
	assert_string_equal(text, "");
	put(cons + 16, name | 1);
	put(cons + 24, name | 1);
	assert_int_equal(limpet_v8_text(&v8, cons | 1, text, sizeof(text)), 0);
	assert_string_equal(text, "SessionSession");
	assert_int_equal(limpet_v8_text(&v8, UINT64_C(12) << 32, text, sizeof(text)), -EBADMSG);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_constants_of_a_build),
		cmocka_unit_test(test_no_build_of_v8),
		cmocka_unit_test_setup_teardown(test_objects_are_counted, begin, end),
		cmocka_unit_test_setup_teardown(test_rows_beyond_the_limit_are_summed_up, begin,
						end),
		cmocka_unit_test_setup_teardown(test_a_name_that_is_another_by_then, begin, end),
		cmocka_unit_test_setup_teardown(test_a_page_that_is_overwritten, begin, end),
		cmocka_unit_test_setup_teardown(test_damaged_heaps, begin, end),
		cmocka_unit_test_setup_teardown(test_names_that_lead_in_circles, begin, end),
	};

	return cmocka_run_group_tests(tests, read_constants, NULL);
}
