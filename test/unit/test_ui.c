/* What people are told, and on which stream. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/command_line.h"
#include "cli/ui.h"

/* Both streams of the process under test, in one file each. */
struct caught {
	int saved[2], fds[2];
	char out[8192], err[8192];
};

static void catch_output(struct caught *caught)
{
	fflush(stdout);
	for (int i = 0; i < 2; i++) {
		char path[] = "/tmp/test-ui-XXXXXX";

		caught->saved[i] = dup(i + 1);
		caught->fds[i] = mkstemp(path);
		assert_true(caught->fds[i] >= 0);
		unlink(path);
		assert_true(dup2(caught->fds[i], i + 1) >= 0);
	}
}

static void release_output(struct caught *caught)
{
	char *texts[] = {caught->out, caught->err};

	fflush(stdout);
	for (int i = 0; i < 2; i++) {
		ssize_t bytes = pread(caught->fds[i], texts[i], sizeof(caught->out) - 1, 0);

		texts[i][bytes > 0 ? bytes : 0] = '\0';
		dup2(caught->saved[i], i + 1);
		close(caught->saved[i]);
		close(caught->fds[i]);
	}
}

static void test_errors_and_hints(void **state)
{
	struct limpet_err err;
	struct caught caught;

	(void)state;
	limpet_err_set(&err, -EPERM, "cannot attach to '%s'", "a\033[2Jb\xff");
	limpet_err_hint(&err, "sudo %s", "limpet attach 4711");
	catch_output(&caught);
	limpet_ui_error(&err);
	err = (struct limpet_err){.code = -ENOENT};
	limpet_ui_error(&err);
	release_output(&caught);
	assert_string_equal(caught.err, "limpet: cannot attach to 'a?[2Jb?'\n"
					"hint: sudo limpet attach 4711\n"
					"limpet: No such file or directory\n");
	assert_string_equal(caught.out, "");
}

static void test_lines_are_broken_at_blanks(void **state)
{
	char words[] = "one two  three four five  six ", one[] = "  alone", none[] = "";
	struct caught caught;

	(void)state;
	catch_output(&caught);
	limpet_ui_wrap(words, 2, 22);
	limpet_ui_wrap(one, 2, 22);
	limpet_ui_wrap(none, 2, 22);
	release_output(&caught);
	assert_string_equal(caught.out, "one two  three four\n  five  six\nalone\n\n");
}

static void test_usage_names_the_help(void **state)
{
	struct caught caught;

	(void)state;
	catch_output(&caught);
	assert_int_equal(limpet_ui_usage("stop", "no '%s'", "x"), LIMPET_EXIT_USAGE);
	assert_int_equal(limpet_ui_usage(NULL, "which command?"), LIMPET_EXIT_USAGE);
	release_output(&caught);
	assert_string_equal(caught.err, "limpet: no 'x'\nhint: limpet stop --help\n"
					"limpet: which command?\nhint: limpet --help\n");
}

static void test_quiet_keeps_what_matters(void **state)
{
	struct limpet_err err;
	struct caught caught;

	(void)state;
	limpet_err_set(&err, -EIO, "broken");
	catch_output(&caught);
	limpet_ui_set_quiet(true);
	limpet_ui_note("note");
	limpet_ui_hint("hint");
	limpet_ui_warn("careful");
	limpet_ui_error(&err);
	limpet_ui_set_quiet(false);
	limpet_ui_note("note");
	release_output(&caught);
	assert_string_equal(caught.err, "limpet: warning: careful\nlimpet: broken\nlimpet: note\n");
}

static void test_lost_output_is_a_failure(void **state)
{
	struct caught caught;
	int full, status;

	(void)state;
	catch_output(&caught);
	assert_int_equal(limpet_ui_help("help\n"), LIMPET_EXIT_OK);
	full = open("/dev/full", O_WRONLY | O_CLOEXEC);
	assert_true(full >= 0 && dup2(full, STDOUT_FILENO) >= 0);
	close(full);
	status = limpet_ui_help("lost\n");
	clearerr(stdout);
	assert_true(dup2(caught.fds[0], STDOUT_FILENO) >= 0);
	release_output(&caught);
	assert_int_equal(status, LIMPET_EXIT_FAILED);
	assert_string_equal(caught.err,
			    "limpet: cannot write to standard output: No space left on device\n");
	assert_non_null(strstr(caught.out, "help\n"));
}

static void test_clean_keeps_text_alone(void **state)
{
	static const struct {
		const char *from, *to;
	} list[] = {
		{"", ""},
		{"plain ~!", "plain ~!"},
		{"tab\tand\nline", "tab?and?line"},
		{"\x7f\x01\x1b", "???"},
		{"caf\xc3\xa9 \xe2\x82\xac \xf0\x9f\x90\x9a",
		 "caf\xc3\xa9 \xe2\x82\xac \xf0\x9f\x90\x9a"},
		{"\xc2\x9b", "?"},                 /* a control character in two bytes */
		{"\xc0\xaf\xe0\x80\xaf", "?????"}, /* too long */
		{"\xed\xa0\x80", "???"},           /* half of a pair */
		{"\xf4\x90\x80\x80", "????"},      /* beyond the last */
		{"\xe2\x82", "??"},                /* cut short */
		{"\xff\xfe", "??"},
		/* turns the direction of text */
		{"a\xe2\x80\xae"
		 "b\xe2\x81\xa6",
		 "a?b?"},
	};

	(void)state;
	for (size_t i = 0; i < LIMPET_COUNT_OF(list); i++) {
		char text[64];

		strcpy(text, list[i].from);
		assert_string_equal(limpet_ui_clean(text), list[i].to);
	}
}

static void test_nearest_word(void **state)
{
	static const char *const words[] = {"attach", "run",    "stop", "status",
					    "doctor", "report", "seal", NULL};
	static const struct {
		const char *word, *nearest;
	} list[] = {
		{"atach", "attach"},
		{"attahc", "attach"},
		{"rnu", "run"},
		{"st", NULL},
		{"sto", "stop"},
		{"stat", "status"},
		{"raport", "report"},
		{"docter", "doctor"},
		{"frobnicate", NULL},
		{"", NULL},
		{"xyz", NULL},
		{"s", NULL},
		{"averyveryveryveryveryverylongword", NULL},
	};

	(void)state;
	for (size_t i = 0; i < LIMPET_COUNT_OF(list); i++) {
		const char *nearest = limpet_ui_nearest(list[i].word, words);

		if (!nearest != !list[i].nearest ||
		    (nearest && strcmp(nearest, list[i].nearest) != 0))
			fail_msg("'%s': got %s, expected %s", list[i].word,
				 nearest ? nearest : "none",
				 list[i].nearest ? list[i].nearest : "none");
	}
}

static void test_pids_are_parsed_strictly(void **state)
{
	static const char *const wrong[] = {
		"",     "0",  "-1", "+1",         "1x",
		"0x10", " 1", "1 ", "2147483648", "99999999999999999999"};
	struct caught caught;
	pid_t pid = 77;

	(void)state;
	catch_output(&caught);
	for (size_t i = 0; i < LIMPET_COUNT_OF(wrong); i++) {
		assert_int_equal(limpet_line_parse_pid(wrong[i], &pid), LIMPET_EXIT_USAGE);
		assert_int_equal(pid, 77);
	}
	assert_int_equal(limpet_line_parse_pid("2147483647", &pid), LIMPET_EXIT_OK);
	release_output(&caught);
	assert_int_equal(pid, 2147483647);
}

static void test_colours_are_for_terminals(void **state)
{
	(void)state;
	FILE *file = tmpfile();

	assert_non_null(file);
	assert_int_equal(setenv("TERM", "xterm", 1), 0);
	unsetenv("NO_COLOR");
	assert_false(limpet_ui_has_colour(file));
	assert_string_equal(limpet_ui_style(file, LIMPET_UI_RED), "");
	assert_int_equal(limpet_ui_width(fileno(file)), 80);
	fclose(file);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_errors_and_hints),
		cmocka_unit_test(test_lines_are_broken_at_blanks),
		cmocka_unit_test(test_usage_names_the_help),
		cmocka_unit_test(test_quiet_keeps_what_matters),
		cmocka_unit_test(test_lost_output_is_a_failure),
		cmocka_unit_test(test_clean_keeps_text_alone),
		cmocka_unit_test(test_nearest_word),
		cmocka_unit_test(test_pids_are_parsed_strictly),
		cmocka_unit_test(test_colours_are_for_terminals),
	};

	return cmocka_run_group_tests_name("ui", tests, NULL, NULL);
}
