#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "analyzer/model/frame_filter.h"
#include "common/err.h"

static void test_kinds(void **state)
{
	static const char libc[] = "/usr/lib/x86_64-linux-gnu/libc.so.6",
			  program[] = "/opt/app/server";
	static const struct {
		const char *function, *module;
		enum limpet_frame_kind kind;
	} list[] = {
		{"malloc", libc, LIMPET_FRAME_ALLOCATOR},
		{"__libc_malloc", libc, LIMPET_FRAME_ALLOCATOR},
		{"operator new(unsigned long)", "/usr/lib/libstdc++.so.6", LIMPET_FRAME_ALLOCATOR},
		{"operator new[](unsigned long)", program, LIMPET_FRAME_ALLOCATOR},
		{"__rust_alloc", program, LIMPET_FRAME_ALLOCATOR},
		{"palloc0", program, LIMPET_FRAME_ALLOCATOR},
		{"AllocSetAlloc.part.0", program, LIMPET_FRAME_ALLOCATOR},
		{"MemoryContextAllocZero.constprop.0.isra.0", program, LIMPET_FRAME_ALLOCATOR},
		{"os::malloc(unsigned long, MEMFLAGS)", program, LIMPET_FRAME_ALLOCATOR},
		{"Perl_safesysmalloc", "/usr/lib/libperl.so.5.36", LIMPET_FRAME_ALLOCATOR},
		{"alloc::alloc::Global::alloc_impl", program, LIMPET_FRAME_ALLOCATOR},
		{"alloc::raw_vec::finish_grow", program, LIMPET_FRAME_LIBRARY},
		{"alloc::vec::Vec<T,A>::push", program, LIMPET_FRAME_LIBRARY},
		{"std::vector<int>::push_back(int const&)", program, LIMPET_FRAME_LIBRARY},
		{"__gnu_cxx::new_allocator<int>::allocate", program, LIMPET_FRAME_LIBRARY},
		{"<alloc::vec::Vec<T> as core::clone::Clone>::clone", program,
		 LIMPET_FRAME_LIBRARY},
		{"<T as alloc::slice::hack::ConvertVec>::to_vec", program, LIMPET_FRAME_LIBRARY},
		{"<[T] as alloc::borrow::ToOwned>::to_owned", program, LIMPET_FRAME_LIBRARY},
		{"<&mut I as core::iter::Iterator>::next", program, LIMPET_FRAME_LIBRARY},
		{"<str as alloc::string::ToString>::to_string", program, LIMPET_FRAME_LIBRARY},
		{"strdup", libc, LIMPET_FRAME_LIBRARY},
		{"g_strdup", "/lib/x86_64-linux-gnu/libglib-2.0.so.0", LIMPET_FRAME_LIBRARY},
		{"pstrdup", program, LIMPET_FRAME_LIBRARY},
		{"ffi_call_int", program, LIMPET_FRAME_LIBRARY},
		{NULL, "/lib/x86_64-linux-gnu/libffi.so.8", LIMPET_FRAME_LIBRARY},
		{NULL, libc, LIMPET_FRAME_LIBRARY},
		{NULL, "/lib/x86_64-linux-gnu/libc-2.31.so", LIMPET_FRAME_LIBRARY},
		{NULL, "/lib/ld-musl-x86_64.so.1", LIMPET_FRAME_LIBRARY},
		{"__libc_start_main_impl", libc, LIMPET_FRAME_START},
		{"clone3", libc, LIMPET_FRAME_START},
		{"std::rt::lang_start", program, LIMPET_FRAME_START},
		{"runtime.mallocgc", program, LIMPET_FRAME_ALLOCATOR},
		{"runtime.growslice", program, LIMPET_FRAME_ALLOCATOR},
		{"runtime.persistentalloc.func1", program, LIMPET_FRAME_ALLOCATOR},
		{"runtime.(*mcache).allocLarge", program, LIMPET_FRAME_LIBRARY},
		{"runtime.memclrNoHeapPointers", program, LIMPET_FRAME_LIBRARY},
		{"internal/runtime/maps.(*Map).growToTable", program, LIMPET_FRAME_LIBRARY},
		{"runtime.main", program, LIMPET_FRAME_START},
		{"runtime.goexit.abi0", program, LIMPET_FRAME_START},
		/* the program's own */
		{"main.main", program, LIMPET_FRAME_PROGRAM},
		{"net/http.(*conn).serve", program, LIMPET_FRAME_PROGRAM},
		{"runtime::grow", program, LIMPET_FRAME_PROGRAM},
		{"github.com/x/runtime.Grow", program, LIMPET_FRAME_PROGRAM},
		{"main", program, LIMPET_FRAME_PROGRAM},
		{"main.cold", program, LIMPET_FRAME_PROGRAM},
		{"palloc.Grow", program, LIMPET_FRAME_PROGRAM},
		{"os::mallocator(int)", program, LIMPET_FRAME_PROGRAM},
		{NULL, program, LIMPET_FRAME_PROGRAM},
		{NULL, NULL, LIMPET_FRAME_PROGRAM},
		{"<server::Cache as core::clone::Clone>::clone", program, LIMPET_FRAME_PROGRAM},
		{"<T as server::Grow>::grow", program, LIMPET_FRAME_PROGRAM},
		{"<u8 as <[_]>::to_vec_in::ConvertVec>::to_vec::<A>", program,
		 LIMPET_FRAME_LIBRARY},
		{"<[u8]>::to_vec_in::<A>", program, LIMPET_FRAME_LIBRARY},
		{"<server::Cache>::grow", program, LIMPET_FRAME_PROGRAM},
		{"server::alloc::grow", program, LIMPET_FRAME_PROGRAM},
		{"stdio_open", program, LIMPET_FRAME_PROGRAM},
		{"malloc_trim_later", program, LIMPET_FRAME_PROGRAM},
		{"starter", program, LIMPET_FRAME_PROGRAM},
		{NULL, "/usr/lib/libcurl.so.4", LIMPET_FRAME_PROGRAM},
		{NULL, "/usr/lib/libc-client.so.2007e", LIMPET_FRAME_PROGRAM},
	};

	(void)state;
	for (size_t i = 0; i < LIMPET_COUNT_OF(list); i++) {
		if (limpet_frame_filter_classify(list[i].function, list[i].module, false) !=
		    list[i].kind)
			fail_msg("%s in %s", list[i].function, list[i].module);
	}
	assert_int_equal(
		limpet_frame_filter_classify("je_arena_malloc", "/usr/lib/libjemalloc.so.2", true),
		LIMPET_FRAME_ALLOCATOR);
	/* libc is such a module, too, but not all of it is an allocator. */
	assert_int_equal(limpet_frame_filter_classify("strdup", libc, true), LIMPET_FRAME_LIBRARY);
	assert_int_equal(limpet_frame_filter_classify("malloc", libc, true),
			 LIMPET_FRAME_ALLOCATOR);
	assert_int_equal(limpet_frame_filter_classify(NULL, libc, true), LIMPET_FRAME_ALLOCATOR);
}

/* A stack in letters: Allocator, Library, Program, Start; and what shall be kept. */
static void check(const char *stack, const char *want, size_t first, size_t via)
{
	enum limpet_frame_kind kinds[16] = {LIMPET_FRAME_PROGRAM};
	bool keep[16];
	size_t count = strlen(stack), shown = 0;
	struct limpet_frame_filter fold;

	for (size_t i = 0; i < count; i++) {
		kinds[i] = stack[i] == 'A'   ? LIMPET_FRAME_ALLOCATOR
			   : stack[i] == 'L' ? LIMPET_FRAME_LIBRARY
			   : stack[i] == 'S' ? LIMPET_FRAME_START
					     : LIMPET_FRAME_PROGRAM;
	}
	fold = limpet_frame_filter_stack(kinds, count, keep);
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
