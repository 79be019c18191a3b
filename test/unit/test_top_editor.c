/* How `limpet top` calls an editor, and which files it shows. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/top_editor.h"

/* The arguments after the command's own, one a word. */
static const char *words_of(const char *command, const char *file, uint32_t line)
{
	static char words[512], script[256];
	char **arguments = limpet_top_editor_arguments(command, file, line);
	size_t used = 0;

	assert_non_null(arguments);
	snprintf(script, sizeof(script), "%s \"$@\"", command);
	assert_string_equal(arguments[0], "sh");
	assert_string_equal(arguments[1], "-c");
	assert_string_equal(arguments[2], script);
	assert_string_equal(arguments[3], command);
	for (size_t i = 4; arguments[i]; i++)
		used += (size_t)snprintf(words + used, sizeof(words) - used, "%s%s",
					 used ? "|" : "", arguments[i]);
	limpet_top_editor_arguments_free(arguments);
	return words;
}

static void test_each_editor_has_its_form(void **state)
{
	static const char *const plus[] = {"vi",   "vim -n",         "nvim",  "/usr/bin/nano",
					   "kak",  " emacs -nw",     "micro", "emacsclient -t",
					   "view", "/opt/my/gvim -f"};

	(void)state;
	for (size_t i = 0; i < sizeof(plus) / sizeof(plus[0]); i++)
		assert_string_equal(words_of(plus[i], "/src/a b.c", 42), "+42|/src/a b.c");
	assert_string_equal(words_of("code --wait", "/src/a.c", 42), "-g|/src/a.c:42");
	assert_string_equal(words_of("codium", "/src/a.c", 42), "-g|/src/a.c:42");
	assert_string_equal(words_of("subl -w", "/src/a.c", 42), "/src/a.c:42");
	assert_string_equal(words_of("hx", "/src/a.c", 42), "/src/a.c:42");
	assert_string_equal(words_of("vim", "/src/a.c", 0), "/src/a.c");
	assert_string_equal(words_of("code", "/src/a.c", 0), "/src/a.c");
	/* Their options are not known. */
	assert_string_equal(words_of("myvim", "/src/a.c", 42), "/src/a.c");
	assert_string_equal(words_of("env X=1 vim", "/src/a.c", 42), "/src/a.c");
	assert_string_equal(words_of("'/a dir/vim'", "/src/a.c", 42), "/src/a.c");
}

static void test_no_name_is_an_option(void **state)
{
	(void)state;
	assert_string_equal(words_of("vi", "-c!id", 1), "+1|./-c!id");
	assert_string_equal(words_of("vi", "+!id", 1), "+1|./+!id");
	assert_string_equal(words_of("ed", "ftp://host/a", 1), "./ftp://host/a");
}

static void test_variables(void **state)
{
	(void)state;
	unsetenv("VISUAL");
	unsetenv("EDITOR");
	assert_string_equal(limpet_top_editor_command(), "vi");
	setenv("EDITOR", "ed", 1);
	assert_string_equal(limpet_top_editor_command(), "ed");
	setenv("VISUAL", "", 1);
	assert_string_equal(limpet_top_editor_command(), "ed");
	setenv("VISUAL", "vi -n", 1);
	assert_string_equal(limpet_top_editor_command(), "vi -n");
}

static void make_file(const char *name)
{
	FILE *file = fopen(name, "we");

	assert_non_null(file);
	fclose(file);
}

static int found(const char *file, const char *module, const char *wanted)
{
	char *path = NULL;
	const int result = limpet_top_editor_find(file, module, &path);

	if (wanted) {
		assert_int_equal(result, 0);
		assert_string_equal(path, wanted);
	}
	free(path);
	return result;
}

static void test_only_files_with_plain_names_are_shown(void **state)
{
	(void)state;
	make_file("plain.c");
	make_file("red\033[31m.c");
	make_file("byte\x9b.c");
	assert_int_equal(mkfifo("pipe.c", 0600), 0);
	found("plain.c", NULL, "./plain.c");
	assert_int_equal(found("red\033[31m.c", NULL, NULL), -EILSEQ);
	assert_int_equal(found("byte\x9b.c", NULL, NULL), -EILSEQ);
	assert_int_equal(found("pipe.c", NULL, NULL), -EINVAL);
	assert_int_equal(found("/dev/null", NULL, NULL), -EINVAL);
	assert_int_equal(found("/", NULL, NULL), -EISDIR);
	assert_int_equal(found("none.c", NULL, NULL), -ENOENT);
	assert_int_equal(found("plain.c/none.c", NULL, NULL), -ENOTDIR);
	unlink("plain.c");
	unlink("red\033[31m.c");
	unlink("byte\x9b.c");
	unlink("pipe.c");
}

/* Of a build in another directory than this. */
static void test_relative_names_are_found_above_the_module(void **state)
{
	char module[PATH_MAX + 32], there[PATH_MAX + 32], here[PATH_MAX];

	(void)state;
	assert_non_null(getcwd(here, sizeof(here)));
	snprintf(module, sizeof(module), "%s/tree/build/bin/program", here);
	snprintf(there, sizeof(there), "%s/tree/src/a.c", here);
	assert_int_equal(mkdir("tree", 0700), 0);
	assert_int_equal(mkdir("tree/src", 0700), 0);
	assert_int_equal(mkdir("src", 0700), 0);
	make_file("tree/src/a.c");
	make_file("src/b.c");
	found("src/a.c", module, there);
	found(there, NULL, there);
	make_file("src/a.c");
	found("src/a.c", module, there);
	found("src/a.c", NULL, "./src/a.c");
	found("src/a.c", "program", "./src/a.c");
	found("src/b.c", "/", "./src/b.c");
	assert_int_equal(found("src/c.c", module, NULL), -ENOENT);
	unlink("src/a.c");
	unlink("src/b.c");
	unlink("tree/src/a.c");
	rmdir("src");
	rmdir("tree/src");
	rmdir("tree");
}

/* What the name would do in a shell, it does not. */
static void test_the_shell_does_not_read_the_name(void **state)
{
	int status;

	(void)state;
	status = limpet_top_editor_run(
		"f() { test \"$#\" = 1 && test \"$1\" = '/a b;exit 9 $(exit 8)`exit 7`\"'; }; f",
		"/a b;exit 9 $(exit 8)`exit 7`\"", 7);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
	status = limpet_top_editor_run("exit 3; :", "/a", 7);
	assert_int_equal(WEXITSTATUS(status), 3);
	status = limpet_top_editor_run("kill -TERM $$; :", "/a", 7);
	assert_true(WIFSIGNALED(status));
	status = limpet_top_editor_run("/no/such/editor 2>/dev/null", "/a", 7);
	assert_int_equal(WEXITSTATUS(status), 127);
}

static char directory[] = "/tmp/limpet-editor.XXXXXX";

static int enter(void **state)
{
	(void)state;
	return mkdtemp(directory) ? chdir(directory) : -1;
}

static int leave(void **state)
{
	(void)state;
	return chdir("/") || rmdir(directory);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_each_editor_has_its_form),
		cmocka_unit_test(test_no_name_is_an_option),
		cmocka_unit_test(test_variables),
		cmocka_unit_test(test_only_files_with_plain_names_are_shown),
		cmocka_unit_test(test_relative_names_are_found_above_the_module),
		cmocka_unit_test(test_the_shell_does_not_read_the_name),
	};

	return cmocka_run_group_tests(tests, enter, leave);
}
