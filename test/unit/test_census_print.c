/* What `limpet explain --objects` says of heaps that were not counted exactly, or not at all. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "cli/census_print.h"
#include "common/array.h"

/* The text, its lines joined. */
static const char *printed(const struct limpet_census *census,
			   const struct limpet_class_censuses *classes)
{
	static char text[4096];
	const int saved = dup(STDOUT_FILENO), file = memfd_create("text", MFD_CLOEXEC);
	ssize_t bytes;

	fflush(stdout);
	assert_true(saved >= 0 && file >= 0 && dup2(file, STDOUT_FILENO) >= 0);
	limpet_census_print_text(census, classes);
	fflush(stdout);
	bytes = pread(file, text, sizeof(text) - 1, 0);
	dup2(saved, STDOUT_FILENO);
	close(saved);
	close(file);
	assert_true(bytes > 0);
	text[bytes] = '\0';
	for (char *at = text; (at = strchr(at, '\n'));)
		*at = ' ';
	return text;
}

static void test_why_it_is_not_exact(void **state)
{
	static const struct row {
		struct limpet_census census;
		const char *words;
	} rows[] = {
		{{.exact = true, .whole = true}, "; the heap was quiet: exact."},
		{{.whole = true},
		 "; the heap changed meanwhile: from what two readings both found to "
		 "what one did."},
		{{.whole = false},
		 "; lists of free chunks or mapped blocks could not be read whole."},
		{{.unread_arenas = 1}, "; some arenas could not be read."},
		{{.unread_arenas = 1, .late = true},
		 "; there was no time or memory for all of them."},
	};
	const struct limpet_class_censuses none = {.count = 0};

	(void)state;
	for (size_t i = 0; i < LIMPET_COUNT_OF(rows); i++) {
		struct limpet_census census = rows[i].census;

		census.has_glibc = true;
		if (!strstr(printed(&census, &none), rows[i].words))
			fail_msg("'%s' instead of '%s'", printed(&census, &none), rows[i].words);
	}
}

/* Nothing is known of it, which is not the same as no blocks. */
static void test_a_heap_that_is_not_known(void **state)
{
	const struct limpet_class_censuses classes = {.list = {{.allocator = "tcmalloc"}},
						      .count = 1};
	const struct limpet_census none = {.has_glibc = false};
	json_t *json = limpet_class_censuses_json(&classes);
	char *text = json_dumps(json, JSON_COMPACT);

	(void)state;
	assert_non_null(text);
	assert_string_equal(text, "[{\"allocator\":\"tcmalloc\",\"exact\":false,\"whole\":false,"
				  "\"blocks_low\":null,\"blocks_high\":null,\"bytes_low\":null,"
				  "\"bytes_high\":null,\"sizes\":null}]");
	assert_string_equal(printed(&none, &classes),
			    " The heap of tcmalloc could not be counted: its "
			    "structures are not known. ");
	free(text);
	json_decref(json);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_why_it_is_not_exact),
		cmocka_unit_test(test_a_heap_that_is_not_known),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
