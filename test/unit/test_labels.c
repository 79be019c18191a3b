/* Labels of a capture: which are accepted, and what a reader makes of any text. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "common/labels.h"

static void test_added_and_read(void **state)
{
	struct limpet_labels labels = {0};
	struct limpet_label label;
	const char *at = labels.text;
	unsigned read = 0;

	(void)state;
	assert_null(limpet_labels_add(&labels, "host=a"));
	assert_null(limpet_labels_add(&labels, "_r2=1.2 = \"ä\", b"));
	assert_true(limpet_labels_next(&at, &read, &label));
	assert_string_equal(label.name, "host");
	assert_string_equal(label.value, "a");
	assert_true(limpet_labels_next(&at, &read, &label));
	assert_string_equal(label.name, "_r2");
	assert_string_equal(label.value, "1.2 = \"ä\", b");
	assert_false(limpet_labels_next(&at, &read, &label));
}

static void test_refused(void **state)
{
	static const struct {
		const char *label, *why;
	} cases[] = {
		{"host", "NAME=VALUE"}, {"=a", "name"},           {"2h=a", "name"},
		{"h-t=a", "name"},      {"host=", "no value"},    {"host=a\nb", "control"},
		{"h\x1b=a", "name"},    {"h=\x1b[2J", "control"}, {"h=\xff", "UTF-8"},
		{"host=b", "another"},
	};
	struct limpet_labels labels = {0};
	char text[160];

	(void)state;
	assert_null(limpet_labels_add(&labels, "host=a"));
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		const char *why = limpet_labels_add(&labels, cases[i].label);

		assert_non_null(why);
		assert_non_null(strstr(why, cases[i].why));
	}
	/* 128 bytes are the most. */
	snprintf(text, sizeof(text), "l=%0126d", 1);
	assert_null(limpet_labels_add(&labels, text));
	snprintf(text, sizeof(text), "m=%0127d", 1);
	assert_non_null(strstr(limpet_labels_add(&labels, text), "128"));
	for (unsigned i = labels.count; i < LIMPET_LABELS_MAX; i++) {
		snprintf(text, sizeof(text), "n%u=%0120u", i, i);
		assert_null(limpet_labels_add(&labels, text));
	}
	assert_non_null(strstr(limpet_labels_add(&labels, "last=1"), "16"));
	assert_int_equal(labels.count, LIMPET_LABELS_MAX);
}

/* Of a trace: anything. */
static void test_any_text(void **state)
{
	char text[4000] = "\n=x\nhost\nrel=1\nesc=\x1b[2J\n";
	struct limpet_label label;
	const char *at = text;
	unsigned read = 0, found = 0;

	(void)state;
	memset(text + strlen(text), 'x', 1000);
	strcat(text, "=1\n");
	for (int i = 0; i < 300; i++)
		strcat(text, "a=1\n");
	while (limpet_labels_next(&at, &read, &label))
		found++;
	assert_int_equal(found, 1 + 10);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_added_and_read),
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_any_text),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
