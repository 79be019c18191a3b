#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/symbols/demangle.h"
#include "common/err.h"

struct pair {
	const char *in, *out;
};

static void check(const struct pair *list, size_t count, char *(*call)(const char *))
{
	for (size_t i = 0; i < count; i++) {
		char *out = call(list[i].in);

		assert_non_null(out);
		assert_string_equal(out, list[i].out);
		free(out);
	}
}

static void test_plain_names_stay(void **state)
{
	static const struct pair list[] = {
		{"main", "main"},
		{"", ""},
		{"_", "_"},
		{"__libc_start_main", "__libc_start_main"},
		{"a__b", "a__b"},
		{"g_malloc0", "g_malloc0"},
		{"json_object__to_string", "json_object__to_string"},
		{"_Zbroken", "_Zbroken"},
		{"_Rbroken", "_Rbroken"},
		{"_Dbroken", "_Dbroken"},
		{"malloc@@GLIBC_2.2.5", "malloc"},
		{"@plt", "@plt"},
	};
	(void)state;
	check(list, LIMPET_COUNT_OF(list), limpet_demangle);
}

static void test_clone_marks_go(void **state)
{
	static const struct pair list[] = {
		{"grow.cold", "grow"},
		{"grow.part.0", "grow"},
		{"grow.constprop.0.isra.0", "grow"},
		{"grow.part.0.cold", "grow"},
		{"grow.llvm.1234567890123", "grow"},
		{"_ZN3net4growEi.part.0.cold", "net::grow(int)"},
		{"file.colder", "file.colder"},
		{"a.particle", "a.particle"},
		{".cold", ".cold"},
	};
	(void)state;
	check(list, LIMPET_COUNT_OF(list), limpet_demangle);
}

static void test_cxx(void **state)
{
	static const struct pair list[] = {
		{"_Znwm", "operator new(unsigned long)"},
		{"_ZN3net6Server4growEmRKSs",
		 "net::Server::grow(unsigned long, std::string const&)"},
		/* The return type of a template function is dropped. */
		{"_Z4makeIiEPT_m", "make<int>(unsigned long)"},
		{"_ZNKSt8functionIFvvEEclEv", "std::function<void ()>::operator()() const"},
		{"_ZN12_GLOBAL__N_14leakEv", "(anonymous namespace)::leak()"},
	};
	(void)state;
	check(list, LIMPET_COUNT_OF(list), limpet_demangle);
}

static void test_rust(void **state)
{
	static const struct pair list[] = {
		{"_ZN4core3fmt5write17h0123456789abcdefE", "core::fmt::write"},
		{"_ZN5alloc7raw_vec20RawVecInner$LT$A$GT$11finish_grow17habc9c6a887144742E.llvm.77",
		 "alloc::raw_vec::RawVecInner<A>::finish_grow"},
		{"_ZN63_$LT$alloc..vec..Vec$LT$T$GT$$u20$as$u20$core..clone..Clone$GT$"
		 "5clone17h0123456789abcdefE",
		 "<alloc::vec::Vec<T> as core::clone::Clone>::clone"},
		{"_RNvC6_123foo3bar", "123foo::bar"},
		{"_RNvNtCs1234_7mycrate3foo3bar", "mycrate::foo::bar"},
	};
	(void)state;
	check(list, LIMPET_COUNT_OF(list), limpet_demangle);
}

static void test_d(void **state)
{
	static const struct pair list[] = {
		{"_D3std5stdio4File5closeMFNeZv", "std.stdio.File.close()"},
	};
	(void)state;
	check(list, LIMPET_COUNT_OF(list), limpet_demangle);
}

static void test_nim(void **state)
{
	static const struct pair list[] = {
		{"newObj__system_u1728", "system.newObj"},
		{"process_slots__OOZbeacon95chainZspecZstate95transition_u4133",
		 "beacon_chain/spec/state_transition.process_slots"},
		{"eqdestroy___stdZassertions_u22", "std/assertions.=destroy"},
		{"pluseq___main_u7", "main.+="},
		{"sha256__nimcryptoZsha2_u90", "nimcrypto/sha2.sha256"},
		/* 1.6: without the `u` */
		{"churnRound__churn_21", "churn.churnRound"},
		{"eqdestroy___system_3280", "system.=destroy"},
		/* 1.x: a hash in place of the module */
		{"rawNewObj__IghHnQRwZbdyaf6MKlK5Og", "rawNewObj"},
		{"leak__9bkYQHnQRwZbdyaf6MKlK5A_3", "leak"},
		/* of C, though they look near */
		{"fi_unlock__Upper_u1", "fi_unlock__Upper_u1"},
		{"foo__bar_u", "foo__bar_u"},
		{"foo_get__bar_12", "foo_get__bar_12"},
		{"foo__bar12", "foo__bar12"},
		{"foo__bar_u12x", "foo__bar_u12x"},
	};
	(void)state;
	check(list, LIMPET_COUNT_OF(list), limpet_demangle);
}

static void test_shorten(void **state)
{
	static const struct pair list[] = {
		{"main", "main"},
		{"net::grow(unsigned long, std::string const&)", "net::grow"},
		{"std::vector<int, std::allocator<int> >::push_back(int const&)",
		 "std::vector<...>::push_back"},
		{"std::function<void ()>::operator()() const", "std::function<...>::operator()"},
		{"operator new(unsigned long)", "operator new"},
		{"ns::operator<<(std::ostream&, int)", "ns::operator<<"},
		{"ns::A::operator->() const", "ns::A::operator->"},
		{"(anonymous namespace)::leak()", "(anonymous namespace)::leak"},
		{"f(int)::{lambda(char)#1}::operator()(char) const", "f::{lambda#1}::operator()"},
		{"main(int, char**)::<lambda(int)>", "main::<lambda>"},
		{"main(int, char**)::<lambda(Box<int>)>::operator()(Box<int>) const",
		 "main::<lambda>::operator()"},
		{"<alloc::vec::Vec<T> as core::clone::Clone>::clone",
		 "<alloc::vec::Vec<...> as core::clone::Clone>::clone"},
		{"<(A,B) as Trait>::go", "<(A,B) as Trait>::go"},
		{"core::ops::function::FnOnce<fn(i32) -> i32>::call_once",
		 "core::ops::function::FnOnce<...>::call_once"},
		{"a<b", "a<...>"},
		{"", ""},
	};
	(void)state;
	check(list, LIMPET_COUNT_OF(list), limpet_demangle_shorten);
}

/* The page shortens names by a script of its own: one list holds for both. */
static void test_shorten_as_the_page(void **state)
{
	LIMPET_FCLOSE FILE *list = fopen("test/html/names.tsv", "re");
	char line[1024];
	size_t count = 0;

	(void)state;
	assert_non_null(list);
	while (fgets(line, sizeof(line), list)) {
		char *rest = line, *in = strsep(&rest, "\t"), *out = strsep(&rest, "\t");
		struct pair pair = {in, out};

		assert_non_null(rest);
		check(&pair, 1, limpet_demangle_shorten);
		count++;
	}
	assert_true(count > 40);
}

static void test_hostile_lengths(void **state)
{
	char *in = malloc(100001);
	char *out;

	(void)state;
	assert_non_null(in);
	for (const char *fill = "_ZNx<(.1P"; *fill; fill++) {
		memset(in, *fill, 100000);
		in[100000] = '\0';
		memcpy(in, "_ZN", 3);
		out = limpet_demangle(in);
		assert_non_null(out);
		assert_true(strlen(out) <= LIMPET_DEMANGLE_MAX_BYTES);
		free(out);
		out = limpet_demangle_shorten(in);
		assert_non_null(out);
		free(out);
	}
	free(in);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_plain_names_stay),
		cmocka_unit_test(test_clone_marks_go),
		cmocka_unit_test(test_cxx),
		cmocka_unit_test(test_rust),
		cmocka_unit_test(test_d),
		cmocka_unit_test(test_nim),
		cmocka_unit_test(test_shorten),
		cmocka_unit_test(test_shorten_as_the_page),
		cmocka_unit_test(test_hostile_lengths),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
