/* What makes stops short: processors that do not sleep, and sleeps of limpet without timers of
 * their own. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "common/clock.h"
#include "injector/ptrace/awake.h"
#include "injector/ptrace/priority.h"
#include "injector/ptrace/tick.h"

#define MOST_FDS 256

/* ------------------------------------------------------------------ processors that do not sleep
 */

static char device[] = "/tmp/limpet-awake-XXXXXX";

static int set_up(void **state)
{
	const int file = mkstemp(device);

	(void)state;
	limpet_awake_device = device;
	return file < 0 ? -1 : close(file);
}

static int tear_down(void **state)
{
	(void)state;
	return unlink(device);
}

/* The kernel heeds the request for as long as this is not 0. */
static unsigned times_open(void)
{
	struct stat wanted, file;
	unsigned times = 0;

	assert_int_equal(stat(device, &wanted), 0);
	for (int fd = 0; fd < MOST_FDS; fd++)
		times += fstat(fd, &file) == 0 && file.st_ino == wanted.st_ino &&
			 file.st_dev == wanted.st_dev;
	return times;
}

static void test_awake_from_begin_to_end(void **state)
{
	int32_t latency_us = -1;
	int file;

	(void)state;
	assert_true(limpet_awake_begin());
	assert_int_equal(times_open(), 1);
	assert_false(limpet_awake_begin());
	assert_int_equal(times_open(), 1);
	limpet_awake_end();
	assert_int_equal(times_open(), 0);
	file = open(device, O_RDONLY | O_CLOEXEC);
	assert_int_equal(read(file, &latency_us, sizeof(latency_us)), sizeof(latency_us));
	assert_int_equal(latency_us, 0);
	close(file);
}

static void test_not_for_long(void **state)
{
	(void)state;
	assert_true(limpet_awake_begin());
	limpet_awake_look(limpet_monotonic_ns() + LIMPET_AWAKE_MOST_NS);
	assert_int_equal(times_open(), 0);
	/* Not before the next one. */
	assert_false(limpet_awake_begin());
	assert_int_equal(times_open(), 0);
	limpet_awake_end();
	assert_true(limpet_awake_begin());
	assert_int_equal(times_open(), 1);
	limpet_awake_end();
}

static void test_without_a_device(void **state)
{
	(void)state;
	limpet_awake_device = "/nonexistent/device";
	assert_true(limpet_awake_begin());
	limpet_awake_look(limpet_monotonic_ns());
	limpet_awake_end();
	/* One that does not take the request. */
	limpet_awake_device = "/dev/full";
	assert_true(limpet_awake_begin());
	limpet_awake_end();
	limpet_awake_device = device;
}

/* With the priority of a stop, as long as the outermost one of these has it. */
static void test_awake_while_a_thread_stands(void **state)
{
	struct limpet_priority work, stop;

	(void)state;
	work = limpet_priority_raise(LIMPET_PRIORITY_WORK);
	assert_int_equal(times_open(), 0);
	stop = limpet_priority_raise(LIMPET_PRIORITY_STOP);
	assert_int_equal(times_open(), 1);
	limpet_priority_restore(limpet_priority_raise(LIMPET_PRIORITY_STOP));
	assert_int_equal(times_open(), 1);
	limpet_priority_restore(stop);
	assert_int_equal(times_open(), 0);
	limpet_priority_restore(work);
}

/* ------------------------------------------------------------------ sleeps */

static void block_child_signal(void)
{
	sigset_t child;

	sigemptyset(&child);
	sigaddset(&child, SIGCHLD);
	assert_int_equal(pthread_sigmask(SIG_BLOCK, &child, NULL), 0);
}

static void test_sleep_ends_by_itself(void **state)
{
	(void)state;
	block_child_signal();
	for (unsigned i = 0; i < 3; i++) {
		for (unsigned k = 0; k < 10; k++)
			assert_int_equal(limpet_tick_sleep(), LIMPET_TICK_TICK);
		limpet_tick_end();
	}
}

/* Timers are not inherited. */
static void test_sleep_in_a_child(void **state)
{
	pid_t child;
	int status;

	(void)state;
	block_child_signal();
	assert_int_equal(limpet_tick_sleep(), LIMPET_TICK_TICK);
	child = fork();
	assert_true(child >= 0);
	if (child == 0) {
		const bool slept = limpet_tick_sleep() == LIMPET_TICK_TICK &&
				   limpet_tick_sleep() == LIMPET_TICK_TICK;

		limpet_tick_end();
		_exit(!slept);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	assert_int_not_equal(limpet_tick_sleep(), LIMPET_TICK_NONE);
	limpet_tick_end();
}

static void test_a_signal_ends_a_sleep(void **state)
{
	const struct timespec none = {0, 0};
	sigset_t child;

	(void)state;
	block_child_signal();
	limpet_tick_end();
	sigemptyset(&child);
	sigaddset(&child, SIGCHLD);
	while (sigtimedwait(&child, NULL, &none) > 0)
		;
	assert_int_equal(pthread_kill(pthread_self(), SIGCHLD), 0);
	assert_int_equal(limpet_tick_sleep(), LIMPET_TICK_CHILD);
	limpet_tick_end();
}

/* Timers count as pending signals. */
static void test_without_a_timer(void **state)
{
	pid_t child = fork();
	int status;

	(void)state;
	assert_true(child >= 0);
	if (child == 0) {
		const struct rlimit none = {0, 0};

		if (setrlimit(RLIMIT_SIGPENDING, &none) < 0)
			_exit(2);
		_exit(limpet_tick_sleep() != LIMPET_TICK_NONE);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_awake_from_begin_to_end),
		cmocka_unit_test(test_not_for_long),
		cmocka_unit_test(test_without_a_device),
		cmocka_unit_test(test_awake_while_a_thread_stands),
		cmocka_unit_test(test_sleep_ends_by_itself),
		cmocka_unit_test(test_sleep_in_a_child),
		cmocka_unit_test(test_a_signal_ends_a_sleep),
		cmocka_unit_test(test_without_a_timer),
	};

	return cmocka_run_group_tests_name("short stops", tests, set_up, tear_down);
}
