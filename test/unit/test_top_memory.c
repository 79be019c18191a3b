/* The line of `limpet top` about what resident memory belongs to. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "cli/top_memory.h"

#define MIB ((uint64_t)1 << 20)

static struct limpet_parts parts = {
	.known = true,
	.has_before = true,
	.before_bytes = 792 * MIB,
	.bytes = 812 * MIB,
	.count = 3,
	.list = {{.words = "glibc's heap",
		  .before_bytes = 620 * MIB,
		  .bytes = 640 * MIB,
		  .free_known = true,
		  .free_bytes = 100 * MIB},
		 {.words = "mapped files", .before_bytes = 131 * MIB, .bytes = 131 * MIB},
		 {.words = "thread stacks", .before_bytes = 41 * MIB, .bytes = 41 * MIB}}};

static const char *said(uint64_t rss_bytes, int columns)
{
	static char text[LIMPET_TOP_MEMORY_TEXT];

	limpet_top_memory_format(rss_bytes, &parts, columns, text);
	return text;
}

#define HEAP "glibc's heap 640.0 MiB (+20.0 MiB), 100.0 MiB free"

static void test_the_largest_parts_that_fit(void **state)
{
	(void)state;
	assert_string_equal(said(812 * MIB, 200),
			    "RSS    812.0 MiB: " HEAP
			    "; mapped files 131.0 MiB; thread stacks 41.0 MiB");
	assert_string_equal(said(812 * MIB, 92),
			    "RSS    812.0 MiB: " HEAP "; mapped files 131.0 MiB");
	assert_string_equal(said(812 * MIB, 91), "RSS    812.0 MiB: " HEAP);
	assert_string_equal(said(812 * MIB, 67), "RSS    812.0 MiB");
	for (int columns = 16; columns < 300; columns++)
		assert_in_range(strlen(said(812 * MIB, columns)), 16, columns);
}

static void test_parts_of_before_the_capture(void **state)
{
	(void)state;
	parts.is_before = true;
	parts.has_before = false;
	assert_string_equal(said(900 * MIB, 80),
			    "RSS    900.0 MiB; before: glibc's heap 640.0 MiB, "
			    "100.0 MiB free");
	parts.is_before = false;
	parts.has_before = true;
}

static void test_what_is_not_known(void **state)
{
	(void)state;
	assert_string_equal(said(0, 200), "RSS            -");
	parts.count = 0;
	assert_string_equal(said(812 * MIB, 200), "RSS    812.0 MiB");
	parts.count = 3;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_the_largest_parts_that_fit),
		cmocka_unit_test(test_parts_of_before_the_capture),
		cmocka_unit_test(test_what_is_not_known),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
