/* What a signal ends leaves no file behind, whenever it comes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "analyzer/export/unfinished.h"

static const int numbers[] = {SIGINT, SIGTERM, SIGHUP};
static char directory[] = "/tmp/test-unfinished.XXXXXX";
static int number_while_made;

int __real_mkostemp(char *path, int flags);
int __wrap_mkostemp(char *path, int flags);
int __wrap_mkostemp(char *path, int flags)
{
	int fd = __real_mkostemp(path, flags);

	if (number_while_made)
		raise(number_while_made);
	return fd;
}

static int set_up(void **state)
{
	(void)state;
	return mkdtemp(directory) && !chdir(directory) ? 0 : -1;
}

/* An empty directory can be removed. */
static int tear_down(void **state)
{
	(void)state;
	return chdir("/") || rmdir(directory) ? -1 : 0;
}

/* In a child, which it ends: while the file is made, or after. */
static void ends_by(int number, int while_made, bool ignored)
{
	pid_t child = fork();
	int status;

	if (!child) {
		char path[] = "part.XXXXXX";

		for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
			signal(numbers[i], ignored ? SIG_IGN : SIG_DFL);
		number_while_made = while_made ? number : 0;
		if (limpet_unfinished_open(path) < 0)
			_exit(2);
		raise(number);
		if (access(path, F_OK) || unlink(path))
			_exit(3);
		_exit(0);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	if (ignored)
		assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	else
		assert_true(WIFSIGNALED(status) && WTERMSIG(status) == number);
	assert_int_equal(rmdir(directory), 0);
	assert_int_equal(mkdir(directory, 0700), 0);
	assert_int_equal(chdir(directory), 0);
}

static void test_at_any_moment(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
		for (int while_made = 0; while_made < 2; while_made++) {
			ends_by(numbers[i], while_made, false);
			ends_by(numbers[i], while_made, true);
		}
}

static void test_no_directory(void **state)
{
	char path[] = "nowhere/part.XXXXXX";

	(void)state;
	assert_int_equal(limpet_unfinished_open(path), -ENOENT);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_at_any_moment),
		cmocka_unit_test(test_no_directory),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
