/* Which calls of a stack are shown once, by the list test/html/recursion.tsv. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/views/recursion.h"
#include "common/err.h"

/* Every second character of a text is a call. */
static bool is_same(const void *context, size_t a, size_t b)
{
	const char *calls = context;

	return calls[2 * a] == calls[2 * b];
}

static void say(const char *calls, char *ret, size_t room)
{
	const size_t count = (strlen(calls) + 1) / 2;
	size_t used = 0;

	for (size_t at = 0; at < count;) {
		const struct limpet_recursion series =
			limpet_recursion_at(at, count, is_same, calls);

		for (size_t i = 0; i < series.length; i++) {
			const struct limpet_recursion_marks marks =
				limpet_recursion_marks(&series, i);

			used += (size_t)snprintf(ret + used, room - used, "%s%s%c%s",
						 used ? " < " : "", marks.before,
						 calls[2 * (at + i)], marks.after);
		}
		at += series.length * series.times;
		assert_true(at <= count);
	}
}

static void test_the_list(void **state)
{
	LIMPET_FCLOSE FILE *list = fopen("test/html/recursion.tsv", "re");
	char line[512], said[512];
	size_t count = 0;

	(void)state;
	assert_non_null(list);
	while (fgets(line, sizeof(line), list)) {
		char *wanted = line, *calls = strsep(&wanted, "\t");

		assert_non_null(wanted);
		wanted[strcspn(wanted, "\n")] = '\0';
		say(calls, said, sizeof(said));
		assert_string_equal(said, wanted);
		count++;
	}
	assert_true(count > 15);
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
		cmocka_unit_test(test_the_ends),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
