/* Which functions are hooked where they begin, and where their hook area may be. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "common/family.h"
#include "injector/elf/entry_find.h"
#include "injector/elf/entry_list.h"

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
		"je_",
		"malloc.cold",
		"free.part.0",
		"__libc_malloc",
		"operator new",
		"",
	};
	struct limpet_entry_name found;
	size_t length;

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
	assert_name("mi_heap_malloc", LIMPET_ENTRY_MIMALLOC, LIMPET_OP_MALLOC);
	assert_true(limpet_entry_name_find("mi_heap_realloc", &found) &&
		    LIMPET_HOOK_SKIP(found.hook_flags) == 1);
	assert_name("limpet_pool_arena_allocated", LIMPET_ENTRY_POOL, LIMPET_OP_MALLOC);
	assert_name("limpet_pool_a_b_freed", LIMPET_ENTRY_POOL, LIMPET_OP_FREE);
	assert_string_equal(limpet_entry_name_pool("limpet_pool_a_b_freed", &length), "a_b_freed");
	assert_int_equal(length, 3);
	assert_null(limpet_entry_name_pool("limpet_pool__freed", &length));
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

/* ---------------------------------------------------------------- listed by the user */

static int parse(const char *text, struct limpet_entry_list *list, struct limpet_err *err)
{
	return limpet_entry_list_parse(text, strlen(text), "list", list, err);
}

static void test_list(void **state)
{
	static struct limpet_entry_list list;
	struct limpet_err err = {0};
	int found;

	(void)state;
	assert_int_equal(parse("# pools\n\n  palloc\tmalloc( _ , size )  # of a context\r\n"
			       "pfree free(p)\nallocator my arena\n"
			       "_ZN5arena4takeEmm memalign(alignment,size)\n"
			       "arena_grow realloc(_,_,p,size,_)\n",
			       &list, &err),
			 0);
	assert_int_equal(list.count, 4);
	found = limpet_entry_list_find(&list, "palloc");
	assert_int_equal(found, 0);
	assert_int_equal(list.list[0].what.op, LIMPET_OP_MALLOC);
	assert_int_equal(LIMPET_HOOK_SKIP(list.list[0].what.hook_flags), 1);
	assert_string_equal(list.list[0].owner, "functions that were named");
	assert_string_equal(list.list[3].owner, "my arena");
	assert_int_equal(LIMPET_HOOK_SKIP(list.list[3].what.hook_flags), 2);
	assert_int_equal(limpet_entry_list_find(&list, "malloc"), -1);
	assert_int_equal(limpet_entry_list_find(NULL, "palloc"), -1);
}

static void test_bad_lists(void **state)
{
	static const struct {
		const char *text, *words;
	} bad[] = {
		{"", "list:0: it names no function"},
		{"palloc malloc(size)\n",
		 "list:1: no function of functions that were named releases"},
		{"pfree free(p)\n", "makes blocks"},
		{"a malloc(size)\nallocator b\nc free(p)\n", "releases"},
		{"palloc\n", "list:1: 'palloc' has no signature"},
		{"\npalloc malloc\n", "list:2: 'malloc' is not a signature"},
		{"palloc malloc(size\n", "is not a signature"},
		{"palloc malloc(size) 2\n", "is not a signature"},
		{"palloc alloc(size)\n", "unknown signature 'alloc'"},
		{"palloc malloc(n)\n", "'n' instead of 'size' in malloc(...)"},
		{"palloc calloc(n)\n", "calloc(...) lacks 'size'"},
		{"palloc malloc(_,_,_,_,size)\n", "more than 3 arguments in front"},
		{"palloc malloc(size,a,b,c,d,e,f)\n", "more than 6 arguments"},
		{"palloc malloc(size)\npalloc free(p)\n", "list:2: 'palloc' comes twice"},
		{"p\x01 malloc(size)\n", "a name with a byte that is no letter"},
		{"p malloc(\x1b[2J)\n", "a byte that is no letter"},
	};
	static struct limpet_entry_list list;
	struct limpet_err err = {0};
	char line[1000], many[60 * 30] = "f free(p)\n";

	(void)state;
	list.count = 77;
	for (size_t i = 0; i < LIMPET_COUNT_OF(bad); i++) {
		assert_int_equal(parse(bad[i].text, &list, &err), -EINVAL);
		if (!strstr(err.message, bad[i].words) || !err.hint[0])
			fail_msg("'%s': '%s' instead of '%s'", bad[i].text, err.message,
				 bad[i].words);
	}
	memset(line, 'x', sizeof(line));
	assert_int_equal(limpet_entry_list_parse(line, sizeof(line), "list", &list, &err), -EINVAL);
	memcpy(line, "a malloc(size)\0", 15);
	assert_int_equal(limpet_entry_list_parse(line, 15, "list", &list, &err), -EINVAL);
	for (unsigned i = 0; i < LIMPET_ENTRY_LIST_MAX; i++)
		sprintf(many + strlen(many), "f%u malloc(size)\n", i);
	assert_int_equal(parse(many, &list, &err), -EINVAL);
	assert_non_null(strstr(err.message, "more than 48 functions"));
	assert_int_equal(limpet_entry_list_read("/nowhere/at/all", &list, &err), -ENOENT);
	assert_int_equal(limpet_entry_list_read("/", &list, &err), -EISDIR);
	assert_int_equal(limpet_entry_list_read("/dev/zero", &list, &err), -EINVAL);
	assert_int_equal(list.count, 77);
}

static struct limpet_maps maps_of(struct limpet_map *list, size_t count)
{
	return (struct limpet_maps){.list = list, .count = count};
}

static void test_places(void **state)
{
	const uint64_t gib = 1ull << 30;
	struct limpet_hook_area area = {.low = 0x555500000000, .high = 0x555500100000};
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

/* An allocator's own functions, and its version; not what any program may call so. */
static void test_what_proves_an_allocator(void **state)
{
	static const char *const names[] = {"mi_new",        "mi_malloc", "mi_free",   "je_malloc",
					    "je_free",       "tc_new",    "tc_malloc", "malloc",
					    "_mi_keylength", "je_item"};
	enum limpet_entry_family family = LIMPET_ENTRY_FAMILIES;

	(void)state;
	for (size_t i = 0; i < LIMPET_COUNT_OF(names); i++)
		assert_false(limpet_entry_name_proves(names[i], &family));
	assert_int_equal(family, LIMPET_ENTRY_FAMILIES);
	assert_true(limpet_entry_name_proves("je_arena_malloc_hard", &family));
	assert_int_equal(family, LIMPET_ENTRY_JEMALLOC);
	assert_true(limpet_entry_name_proves("_rjem_malloc", &family));
	assert_int_equal(family, LIMPET_ENTRY_RUST_JE);
	assert_true(limpet_entry_name_proves("_mi_malloc_generic.lto_priv.0", &family));
	assert_int_equal(family, LIMPET_ENTRY_MIMALLOC);
	assert_true(limpet_entry_name_proves("_ZN8tcmalloc6Static4InitEv", &family));
	assert_int_equal(family, LIMPET_ENTRY_TCMALLOC);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_what_proves_an_allocator),
		cmocka_unit_test(test_names),
		cmocka_unit_test(test_list),
		cmocka_unit_test(test_bad_lists),
		cmocka_unit_test(test_places),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
