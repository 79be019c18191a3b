/* Who looks after a limpet that holds threads: tried on a child in its place. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "common/err.h"
#include "injector/proc/proc.h"
#include "injector/ptrace/watchdog.h"
#include "test/unit/target_of.h"

/* The child ends with the test. */
static pid_t start(void (*what)(void))
{
	pid_t child = fork();

	assert_true(child >= 0);
	if (child)
		return child;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	what();
	_exit(0);
}

static void pause_a_little(void)
{
	const struct timespec pause = {0, 1000000};

	nanosleep(&pause, NULL);
}

static void hold_and_stop(void)
{
	limpet_watchdog_begin();
	limpet_watchdog_hold(true);
	raise(SIGSTOP);
	limpet_watchdog_hold(false);
	limpet_watchdog_end();
	limpet_watchdog_bury(true);
	_exit(7);
}

static void test_one_that_stands_is_woken(void **state)
{
	pid_t child = start(hold_and_stop);
	int status;

	(void)state;
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 7);
}

static void hold_and_stop_for_good(void)
{
	limpet_watchdog_begin();
	limpet_watchdog_hold(true);
	for (;;)
		raise(SIGSTOP);
}

static void test_one_that_is_kept_is_ended(void **state)
{
	pid_t child = start(hold_and_stop_for_good);
	int status;

	(void)state;
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFSIGNALED(status));
	assert_int_equal(WTERMSIG(status), SIGKILL);
}

static void hold_and_wait(void)
{
	limpet_watchdog_begin();
	limpet_watchdog_hold(true);
	for (;;)
		pause();
}

static pid_t watchdog_of(pid_t child)
{
	char path[64], text[32];

	snprintf(path, sizeof(path), "/proc/%d/task/%d/children", child, child);
	for (;;) {
		LIMPET_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC);
		ssize_t bytes = read(fd, text, sizeof(text) - 1);

		assert_true(bytes >= 0);
		text[bytes] = '\0';
		if (bytes)
			return (pid_t)strtol(text, NULL, 10);
		pause_a_little();
	}
}

/* What it needs of limpet, and no lock or pipe of it; and it is in nobody's way. */
static void test_what_it_is(void **state)
{
	const int descriptors = 2;
	pid_t child = start(hold_and_wait), watchdog = watchdog_of(child);
	struct limpet_proc_status status;
	int count, *fds;

	(void)state;
	for (;;) {
		assert_int_equal(limpet_proc_status_read(watchdog, &status), 0);
		count = limpet_proc_fds(target_of(watchdog), &fds);
		free(count >= 0 ? fds : NULL);
		if (!strcmp(status.name, LIMPET_WATCHDOG_NAME) && count == descriptors)
			break;
		pause_a_little();
	}
	assert_int_equal(getsid(watchdog), watchdog);
	assert_int_equal(kill(child, SIGKILL), 0);
	assert_int_equal(waitpid(child, NULL, 0), child);
	while (limpet_proc_status_read(watchdog, &status) == 0 && status.state != 'Z')
		pause_a_little();
}

/* Told to go, it is gone, and nobody else has it to bury. */
static void begin_and_end(void)
{
	for (int i = 0; i < 3; i++) {
		limpet_watchdog_begin();
		limpet_watchdog_begin();
		limpet_watchdog_end();
		limpet_watchdog_end();
	}
	limpet_watchdog_bury(true);
	_exit(waitpid(-1, NULL, __WALL) < 0 && errno == ECHILD ? 7 : 1);
}

static void test_it_goes(void **state)
{
	pid_t child = start(begin_and_end);
	int status;

	(void)state;
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 7);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_one_that_stands_is_woken),
		cmocka_unit_test(test_one_that_is_kept_is_ended),
		cmocka_unit_test(test_what_it_is),
		cmocka_unit_test(test_it_goes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
