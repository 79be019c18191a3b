/* Which functions are hooked where they begin, and where the memory near them may go. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <errno.h>

#include "common/family.h"
#include "injector/entry_find.h"

static void assert_name(const char *name, enum limpet_entry_family family, enum limpet_op op)
{
	struct limpet_entry_name found;

	if (!limpet_entry_name_find(name, &found))
		fail_msg("%s is not known", name);
	if (found.family != family || found.op != op)
		fail_msg("%s: family %d, op %d", name, found.family, found.op);
	if (op != LIMPET_OP_NONE)
		assert_int_equal(limpet_family[found.symbol].op, op);
}

static void test_names(void **state)
{
	static const char *const others[] = {
		"main",
		"mmap",
		"dlopen",
		"je_malloc_default",
		"_rjem_je_tsd_fetch",
		"mi_malloc_hook",
		"_mi_malloc",
		"tc_",
		"je_xallocx",
		"je_",
		"malloc.cold",
		"free.part.0",
		"mi_strdup",
		"operator new",
		"",
	};
	struct limpet_entry_name found;

	(void)state;
	assert_name("malloc", LIMPET_ENTRY_PLAIN, LIMPET_OP_MALLOC);
	assert_name("mallocx", LIMPET_ENTRY_PLAIN, LIMPET_OP_MALLOC);
	assert_name("sdallocx", LIMPET_ENTRY_PLAIN, LIMPET_OP_FREE);
	assert_name("malloc_usable_size", LIMPET_ENTRY_PLAIN, LIMPET_OP_NONE);
	assert_name("_Znwm", LIMPET_ENTRY_OPERATORS, LIMPET_OP_MALLOC);
	assert_name("_ZdaPvm", LIMPET_ENTRY_OPERATORS, LIMPET_OP_FREE);
	assert_name("_rjem_rallocx", LIMPET_ENTRY_RUST_JE, LIMPET_OP_REALLOC);
	assert_name("_rjem_posix_memalign", LIMPET_ENTRY_RUST_JE, LIMPET_OP_POSIX_MEMALIGN);
	assert_name("je_dallocx", LIMPET_ENTRY_JEMALLOC, LIMPET_OP_FREE);
	assert_name("mi_malloc_aligned", LIMPET_ENTRY_MIMALLOC, LIMPET_OP_MALLOC);
	assert_name("mi_aligned_alloc", LIMPET_ENTRY_MIMALLOC, LIMPET_OP_MEMALIGN);
	assert_name("mi_heap_malloc", LIMPET_ENTRY_MIMALLOC, LIMPET_OP_MEMALIGN);
	assert_name("mi_new_n", LIMPET_ENTRY_MIMALLOC, LIMPET_OP_CALLOC);
	assert_name("mi_malloc.lto_priv.0", LIMPET_ENTRY_MIMALLOC, LIMPET_OP_MALLOC);
	assert_name("tc_deletearray_sized", LIMPET_ENTRY_TCMALLOC, LIMPET_OP_FREE);
	for (size_t i = 0; i < LIMPET_COUNT_OF(others); i++)
		if (limpet_entry_name_find(others[i], &found))
			fail_msg("%s is taken for something", others[i]);
	/* A name of everybody's that is not seen from outside may be anything. */
	assert_false(limpet_entry_name_find("malloc.lto_priv.0", &found));
	assert_true(limpet_entry_name_find("malloc", &found) && found.only_exported);
	assert_true(limpet_entry_name_find("mi_free", &found) && !found.only_exported);
	assert_true(limpet_entry_name_is_inside("je_arena_malloc_hard"));
	assert_false(limpet_entry_name_is_inside("jet_engine"));
}

static struct limpet_maps maps_of(struct limpet_map *list, size_t count)
{
	return (struct limpet_maps){.list = list, .count = count};
}

static void test_places(void **state)
{
	const uint64_t gib = 1ull << 30;
	struct limpet_entry_area area = {.low = 0x555500000000, .high = 0x555500100000};
	struct limpet_map list[] = {
		{.start = 0x10000, .end = 0x20000},
		{.start = 0x555500000000, .end = 0x555500100000},
		{.start = 0x555510000000, .end = 0x555510021000},
		{.start = 0x7ffff7000000, .end = 0x7ffff8000000},
	};
	struct limpet_maps maps = maps_of(list, LIMPET_COUNT_OF(list));
	uint64_t place;

	(void)state;
	/* Below it, a page apart: behind it lies its heap. */
	assert_int_equal(limpet_entries_choose_place(&maps, &area, &place), 0);
	assert_true(place < area.low && area.low - place < 1 << 20);
	/* Nothing is free below: above. */
	list[0].start = 0x10000;
	list[0].end = area.low;
	assert_int_equal(limpet_entries_choose_place(&maps, &area, &place), 0);
	assert_true(place >= area.high + 4096 && place < list[2].start);
	/* Nothing there either. */
	list[2].start = area.high;
	list[2].end = area.high + 3 * gib;
	assert_int_equal(limpet_entries_choose_place(&maps, &area, &place), -ERANGE);
	/* Within reach, but not of all of it. */
	list[2].end = area.high + gib;
	assert_int_equal(limpet_entries_choose_place(&maps, &area, &place), 0);
	area.low -= gib;
	list[0].end = area.low;
	list[1].start = area.low;
	assert_int_equal(limpet_entries_choose_place(&maps, &area, &place), -ERANGE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_names),
		cmocka_unit_test(test_places),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
