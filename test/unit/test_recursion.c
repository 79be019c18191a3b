/* Which calls of a stack are shown once, by the list test/html/recursion.tsv. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/text/chain_text.h"
#include "analyzer/views/recursion.h"
#include "common/err.h"

/* Named by one letter. */
static char *letter(const void *context, uint32_t function)
{
	const char name[] = {(char)function, '\0'};

	(void)context;
	return strdup(name);
}

/* Every second character of `calls` is one. Malloc'ed. */
static char *say(const char *calls, size_t width)
{
	uint32_t functions[256];
	struct limpet_chain chain = {.functions = functions, .name = letter, .width = width};

	for (; calls[2 * chain.count]; chain.count++) {
		assert_in_range(chain.count, 0, LIMPET_COUNT_OF(functions) - 1);
		functions[chain.count] = (uint32_t)calls[2 * chain.count];
		if (!calls[2 * chain.count + 1]) {
			chain.count++;
			break;
		}
	}
	return limpet_chain_text(&chain);
}

static void assert_said(const char *calls, size_t width, const char *wanted)
{
	LIMPET_FREE char *said = say(calls, width);

	assert_non_null(said);
	assert_string_equal(said, wanted);
}

static void test_the_list(void **state)
{
	LIMPET_FCLOSE FILE *list = fopen("test/html/recursion.tsv", "re");
	char line[512];
	size_t count = 0;

	(void)state;
	assert_non_null(list);
	while (fgets(line, sizeof(line), list)) {
		char *wanted = line, *calls = strsep(&wanted, "\t");

		assert_non_null(wanted);
		wanted[strcspn(wanted, "\n")] = '\0';
		assert_said(calls, 0, wanted);
		count++;
	}
	assert_true(count > 15);
}

/* Callers that have no room are told, where at least that fits. */
static void test_the_width(void **state)
{
	(void)state;
	assert_said("a b c", 20, "a < b < c");
	assert_said("a b c d", 15, "a < b < c < ...");
	assert_said("a b c d", 14, "a < b < c");
	assert_said("a b c d", 8, "a < ...");
	assert_said("a b c d", 6, "a");
	assert_said("a a a b", 11, "a x3 < ...");
}

static bool never(const void *context, size_t a, size_t b)
{
	(void)context;
	return a == b;
}

static void test_the_ends(void **state)
{
	struct limpet_recursion series = limpet_recursion_at(0, 1, never, NULL);

	(void)state;
	assert_true(series.length == 1 && series.times == 1);
	series = limpet_recursion_at(5, 5, never, NULL);
	assert_true(series.length == 1 && series.times == 1);
	series = (struct limpet_recursion){8, SIZE_MAX};
	assert_string_equal(limpet_recursion_marks(&series, 7).after, ") x18446744073709551615");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_the_list),
		cmocka_unit_test(test_the_width),
		cmocka_unit_test(test_the_ends),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
