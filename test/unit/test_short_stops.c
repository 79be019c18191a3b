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

/* Each time wakes all processors that sleep. */
static void test_not_too_often(void **state)
{
	unsigned times = 0;

	(void)state;
	/* A machine may be so busy that a second passes: then once more. */
	do {
		const uint64_t began_ns = limpet_monotonic_ns();

		times = 0;
		for (unsigned i = 0; i < 3 * LIMPET_AWAKE_TIMES; i++) {
			assert_true(limpet_awake_begin());
			times += times_open();
			limpet_awake_end();
		}
		if (limpet_monotonic_ns() - began_ns < 1000000000u)
			break;
	} while (true);
	/* A second may begin in between. */
	assert_true(times <= 2 * LIMPET_AWAKE_TIMES);
}

static void wait_for_another_second(void)
{
	while (!times_open()) {
		limpet_awake_end();
		usleep(1000);
		assert_true(limpet_awake_begin());
	}
}

static unsigned fds_open(void)
{
	unsigned count = 0;

	for (int fd = 0; fd < MOST_FDS; fd++)
		count += fcntl(fd, F_GETFD) >= 0;
	return count;
}

static void test_without_a_device(void **state)
{
	const unsigned before = fds_open();

	(void)state;
	/* Not there, and one that does not take the request. */
	static const char *const others[] = {"/nonexistent/device", "/dev/full"};

	for (unsigned i = 0; i < 2; i++) {
		limpet_awake_device = others[i];
		assert_true(limpet_awake_begin());
		assert_int_equal(fds_open(), before);
		limpet_awake_look(limpet_monotonic_ns());
		limpet_awake_end();
		assert_int_equal(fds_open(), before);
	}
	limpet_awake_device = device;
}

/* With the priority of a stop, as long as the outermost one of these has it. */
static void test_awake_while_a_thread_stands(void **state)
{
	struct limpet_priority work, stop;

	(void)state;
	/* The tests before may have used up what there is of this second. */
	assert_true(limpet_awake_begin());
	wait_for_another_second();
	limpet_awake_end();
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

static void forget_signals(void)
{
	const struct timespec none = {0, 0};
	sigset_t child;

	block_child_signal();
	sigemptyset(&child);
	sigaddset(&child, SIGCHLD);
	while (sigtimedwait(&child, NULL, &none) > 0)
		;
}

static void test_sleep_ends_by_itself(void **state)
{
	(void)state;
	forget_signals();
	for (unsigned i = 0; i < 3; i++) {
		for (unsigned k = 0; k < 10; k++)
			assert_int_equal(limpet_tick_sleep(), LIMPET_TICK_TICK);
		limpet_tick_end();
	}
}

static void on_child(int number)
{
	(void)number;
}

/* A change to "ignore", as the default is for this signal, discards what is pending. */
static void test_sleep_ends_after_a_change_of_the_action(void **state)
{
	const struct sigaction handler = {.sa_handler = on_child}, none = {.sa_handler = SIG_DFL};
	const struct timespec two_ticks = {0, 2 * LIMPET_TICK_NS};

	(void)state;
	forget_signals();
	assert_int_equal(limpet_tick_sleep(), LIMPET_TICK_TICK);
	for (unsigned i = 0; i < 3; i++) {
		assert_int_equal(sigaction(SIGCHLD, &handler, NULL), 0);
		pthread_kill(pthread_self(), SIGCHLD);
		nanosleep(&two_ticks, NULL);
		assert_int_equal(sigaction(SIGCHLD, &none, NULL), 0);
		assert_int_equal(limpet_tick_sleep(), LIMPET_TICK_TICK);
		assert_int_equal(limpet_tick_sleep(), LIMPET_TICK_TICK);
	}
	limpet_tick_end();
}

/* Descriptors are, timers are not inherited. */
static void test_sleep_in_a_child(void **state)
{
	pid_t child;
	int status;

	(void)state;
	forget_signals();
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
	forget_signals();
	assert_int_equal(limpet_tick_sleep(), LIMPET_TICK_TICK);
	limpet_tick_end();
}

static void test_the_end_of_a_child_ends_a_sleep(void **state)
{
	enum limpet_tick tick = LIMPET_TICK_TICK;
	siginfo_t info;
	pid_t child;

	(void)state;
	forget_signals();
	child = fork();
	assert_true(child >= 0);
	if (child == 0)
		_exit(0);
	while (tick == LIMPET_TICK_TICK)
		tick = limpet_tick_sleep();
	assert_int_equal(tick, LIMPET_TICK_CHILD);
	assert_int_equal(waitid(P_PID, (id_t)child, &info, WEXITED), 0);
	limpet_tick_end();
}

static void test_without_descriptors(void **state)
{
	pid_t child = fork();
	int status;

	(void)state;
	assert_true(child >= 0);
	if (child == 0) {
		const struct rlimit none = {0, 0};

		if (setrlimit(RLIMIT_NOFILE, &none) < 0)
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
		cmocka_unit_test(test_not_too_often),
		cmocka_unit_test(test_without_a_device),
		cmocka_unit_test(test_awake_while_a_thread_stands),
		cmocka_unit_test(test_sleep_ends_by_itself),
		cmocka_unit_test(test_sleep_in_a_child),
		cmocka_unit_test(test_sleep_ends_after_a_change_of_the_action),
		cmocka_unit_test(test_the_end_of_a_child_ends_a_sleep),
		cmocka_unit_test(test_without_descriptors),
	};

	return cmocka_run_group_tests_name("short stops", tests, set_up, tear_down);
}
