/* The line of `limpet top` about what resident memory belongs to. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "cli/top_memory.h"

#define MIB ((uint64_t)1 << 20)

/* 812 MiB, and 12 of limpet. */
static const struct limpet_memory parts = {.known = true,
					   .bytes = {
						   [LIMPET_MEMORY_RSS] = 824 * MIB,
						   [LIMPET_MEMORY_UNKNOWN] = 51 * MIB,
						   [LIMPET_MEMORY_HEAP] = 640 * MIB,
						   [LIMPET_MEMORY_STACKS] = 41 * MIB,
						   [LIMPET_MEMORY_FILES] = 80 * MIB,
						   [LIMPET_MEMORY_OWN] = 12 * MIB,
					   }};

static const char *said(uint64_t rss_bytes, const struct limpet_memory *memory, int columns)
{
	static char text[LIMPET_TOP_MEMORY_TEXT];

	limpet_top_memory_say(rss_bytes, memory, columns, text);
	return text;
}

static void test_the_largest_parts_that_fit(void **state)
{
	(void)state;
	assert_string_equal(said(812 * MIB, &parts, 200),
			    "RSS    812.0 MiB: heap 640.0 MiB, files 80.0 MiB, unknown 51.0 MiB, "
			    "stacks 41.0 MiB");
	assert_string_equal(said(812 * MIB, &parts, 48),
			    "RSS    812.0 MiB: heap 640.0 MiB, files 80.0 MiB");
	assert_string_equal(said(812 * MIB, &parts, 47), "RSS    812.0 MiB: heap 640.0 MiB");
	assert_string_equal(said(812 * MIB, &parts, 31), "RSS    812.0 MiB");
	for (int columns = 16; columns < 300; columns++)
		assert_in_range(strlen(said(812 * MIB, &parts, columns)), 16, columns);
}

static void test_the_longest_text_has_room(void **state)
{
	struct limpet_memory most = {.known = true};
	uint64_t rss_bytes = 0;

	(void)state;
	for (unsigned i = LIMPET_MEMORY_UNKNOWN; i < LIMPET_MEMORY_OWN; i++)
		rss_bytes += most.bytes[i] = 1023 * MIB + i;
	most.bytes[LIMPET_MEMORY_RSS] = rss_bytes;
	assert_non_null(strstr(said(rss_bytes, &most, 1000), ", unknown 1023.0 MiB"));
}

static void test_what_is_not_known(void **state)
{
	const struct limpet_memory none = {.known = false};

	(void)state;
	assert_string_equal(said(812 * MIB, &none, 200), "RSS    812.0 MiB");
	assert_string_equal(said(0, &parts, 200), "RSS            -");
}

static void test_parts_of_another_time_are_left_out(void **state)
{
	(void)state;
	assert_non_null(strchr(said(900 * MIB, &parts, 200), ':'));
	assert_null(strchr(said(930 * MIB, &parts, 200), ':'));
	assert_non_null(strchr(said(730 * MIB, &parts, 200), ':'));
	assert_null(strchr(said(700 * MIB, &parts, 200), ':'));
	assert_null(strchr(said(1, &parts, 200), ':'));
	assert_null(strchr(said(UINT64_MAX, &parts, 200), ':'));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_the_largest_parts_that_fit),
		cmocka_unit_test(test_the_longest_text_has_room),
		cmocka_unit_test(test_what_is_not_known),
		cmocka_unit_test(test_parts_of_another_time_are_left_out),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
