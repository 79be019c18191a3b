#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "analyzer/fold.h"
#include "common/err.h"

static void test_kinds(void **state)
{
	static const char libc[] = "/usr/lib/x86_64-linux-gnu/libc.so.6",
			  program[] = "/opt/app/server";
	static const struct {
		const char *function, *module;
		enum limpet_fold_kind kind;
	} list[] = {
		{"malloc", libc, LIMPET_FOLD_ALLOCATOR},
		{"__libc_malloc", libc, LIMPET_FOLD_ALLOCATOR},
		{"operator new(unsigned long)", "/usr/lib/libstdc++.so.6", LIMPET_FOLD_ALLOCATOR},
		{"operator new[](unsigned long)", program, LIMPET_FOLD_ALLOCATOR},
		{"__rust_alloc", program, LIMPET_FOLD_ALLOCATOR},
		{"alloc::alloc::Global::alloc_impl", program, LIMPET_FOLD_ALLOCATOR},
		{"alloc::raw_vec::finish_grow", program, LIMPET_FOLD_LIBRARY},
		{"alloc::vec::Vec<T,A>::push", program, LIMPET_FOLD_LIBRARY},
		{"std::vector<int>::push_back(int const&)", program, LIMPET_FOLD_LIBRARY},
		{"__gnu_cxx::new_allocator<int>::allocate", program, LIMPET_FOLD_LIBRARY},
		{"<alloc::vec::Vec<T> as core::clone::Clone>::clone", program, LIMPET_FOLD_LIBRARY},
		{"<T as alloc::slice::hack::ConvertVec>::to_vec", program, LIMPET_FOLD_LIBRARY},
		{"<[T] as alloc::borrow::ToOwned>::to_owned", program, LIMPET_FOLD_LIBRARY},
		{"<&mut I as core::iter::Iterator>::next", program, LIMPET_FOLD_LIBRARY},
		{"<str as alloc::string::ToString>::to_string", program, LIMPET_FOLD_LIBRARY},
		{"strdup", libc, LIMPET_FOLD_LIBRARY},
		{NULL, libc, LIMPET_FOLD_LIBRARY},
		{NULL, "/lib/x86_64-linux-gnu/libc-2.31.so", LIMPET_FOLD_LIBRARY},
		{NULL, "/lib/ld-musl-x86_64.so.1", LIMPET_FOLD_LIBRARY},
		{"__libc_start_main_impl", libc, LIMPET_FOLD_START},
		{"clone3", libc, LIMPET_FOLD_START},
		{"std::rt::lang_start", program, LIMPET_FOLD_START},
		/* the program's own */
		{"main", program, LIMPET_FOLD_PROGRAM},
		{NULL, program, LIMPET_FOLD_PROGRAM},
		{NULL, NULL, LIMPET_FOLD_PROGRAM},
		{"<server::Cache as core::clone::Clone>::clone", program, LIMPET_FOLD_PROGRAM},
		{"<T as server::Grow>::grow", program, LIMPET_FOLD_PROGRAM},
		{"<u8 as <[_]>::to_vec_in::ConvertVec>::to_vec::<A>", program, LIMPET_FOLD_LIBRARY},
		{"<[u8]>::to_vec_in::<A>", program, LIMPET_FOLD_LIBRARY},
		{"<server::Cache>::grow", program, LIMPET_FOLD_PROGRAM},
		{"server::alloc::grow", program, LIMPET_FOLD_PROGRAM},
		{"stdio_open", program, LIMPET_FOLD_PROGRAM},
		{"malloc_trim_later", program, LIMPET_FOLD_PROGRAM},
		{"starter", program, LIMPET_FOLD_PROGRAM},
		{NULL, "/usr/lib/libcurl.so.4", LIMPET_FOLD_PROGRAM},
		{NULL, "/usr/lib/libc-client.so.2007e", LIMPET_FOLD_PROGRAM},
	};

	(void)state;
	for (size_t i = 0; i < LIMPET_COUNT_OF(list); i++) {
		if (limpet_fold_classify(list[i].function, list[i].module, false) != list[i].kind)
			fail_msg("%s in %s", list[i].function, list[i].module);
	}
	assert_int_equal(limpet_fold_classify("je_arena_malloc", "/usr/lib/libjemalloc.so.2", true),
			 LIMPET_FOLD_ALLOCATOR);
}

/* A stack in letters: Allocator, Library, Program, Start; and what shall be kept. */
static void check(const char *stack, const char *want, size_t first, size_t via)
{
	enum limpet_fold_kind kinds[16] = {LIMPET_FOLD_PROGRAM};
	bool keep[16];
	size_t count = strlen(stack), shown = 0;
	struct limpet_fold fold;

	for (size_t i = 0; i < count; i++) {
		kinds[i] = stack[i] == 'A'   ? LIMPET_FOLD_ALLOCATOR
			   : stack[i] == 'L' ? LIMPET_FOLD_LIBRARY
			   : stack[i] == 'S' ? LIMPET_FOLD_START
					     : LIMPET_FOLD_PROGRAM;
	}
	fold = limpet_fold_stack(kinds, count, keep);
	for (size_t i = 0; i < count; i++) {
		assert_int_equal(keep[i], want[i] == 'x');
		shown += keep[i];
	}
	assert_int_equal(fold.first, first);
	assert_int_equal(fold.shown, shown);
	assert_true(fold.via == via);
}

static void test_stacks(void **state)
{
	(void)state;
	check("ALLPPSS", "...xx..", 3, 2);
	check("PPS", "xx.", 0, SIZE_MAX);
	check("APLLPS", ".x..x.", 1, 0);
	check("ALLSS", "xxx..", 0, SIZE_MAX);
	check("SS", "x.", 0, SIZE_MAX);
	check("S", "x", 0, SIZE_MAX);
	check("P", "x", 0, SIZE_MAX);
	check("", "", 0, SIZE_MAX);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_kinds),
					   cmocka_unit_test(test_stacks)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
