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
#include "injector/ptrace/tracer.h"

#define MOST_FDS 256

/* ------------------------------------------------------------------ processors that do not sleep
 */

/* A file of ours in the place of the device. */
static char stand_in[] = "/tmp/limpet-awake-XXXXXX";
static const char *device = stand_in;

int __real_open(const char *path, int flags, mode_t mode);
int __wrap_open(const char *path, int flags, mode_t mode);
int __wrap_open(const char *path, int flags, mode_t mode)
{
	return __real_open(strcmp(path, LIMPET_AWAKE_DEVICE) ? path : device, flags, mode);
}

static int set_up(void **state)
{
	const int file = mkstemp(stand_in);

	(void)state;
	return file < 0 ? -1 : close(file);
}

static int tear_down(void **state)
{
	(void)state;
	return unlink(stand_in);
}

/* The kernel heeds the request for as long as this is not 0. */
static unsigned times_open(void)
{
	struct stat wanted, file;
	unsigned times = 0;

	assert_int_equal(stat(stand_in, &wanted), 0);
	for (int fd = 0; fd < MOST_FDS; fd++)
		times += fstat(fd, &file) == 0 && file.st_ino == wanted.st_ino &&
			 file.st_dev == wanted.st_dev;
	return times;
}

static void test_awake_from_begin_to_end(void **state)
{
	struct limpet_awake awake = {0};
	int32_t latency_us = -1;
	int file;

	(void)state;
	limpet_awake_begin(&awake);
	assert_int_equal(times_open(), 1);
	limpet_awake_begin(&awake);
	assert_int_equal(times_open(), 1);
	limpet_awake_end(&awake);
	assert_int_equal(times_open(), 1);
	limpet_awake_end(&awake);
	assert_int_equal(times_open(), 0);
	file = open(stand_in, O_RDONLY | O_CLOEXEC);
	assert_int_equal(read(file, &latency_us, sizeof(latency_us)), sizeof(latency_us));
	assert_int_equal(latency_us, 0);
	close(file);
}

static void test_not_for_long(void **state)
{
	struct limpet_awake awake = {0};

	(void)state;
	limpet_awake_begin(&awake);
	limpet_awake_check(&awake, limpet_monotonic_ns() + LIMPET_AWAKE_MOST_NS);
	assert_int_equal(times_open(), 0);
	/* Not before the next one. */
	limpet_awake_begin(&awake);
	assert_int_equal(times_open(), 0);
	limpet_awake_end(&awake);
	limpet_awake_end(&awake);
	limpet_awake_begin(&awake);
	assert_int_equal(times_open(), 1);
	limpet_awake_end(&awake);
}

/* Each time wakes all processors that sleep. */
static void test_not_too_often(void **state)
{
	struct limpet_awake awake = {0};
	unsigned times = 0;

	(void)state;
	/* A machine may be so busy that a second passes: then once more. */
	do {
		const uint64_t began_ns = limpet_monotonic_ns();

		times = 0;
		for (unsigned i = 0; i < 3 * LIMPET_AWAKE_TIMES; i++) {
			limpet_awake_begin(&awake);
			times += times_open();
			limpet_awake_end(&awake);
		}
		if (limpet_monotonic_ns() - began_ns < 1000000000u)
			break;
	} while (true);
	/* A second may begin in between. */
	assert_true(times <= 2 * LIMPET_AWAKE_TIMES);
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
		struct limpet_awake awake = {0};

		device = others[i];
		limpet_awake_begin(&awake);
		assert_int_equal(fds_open(), before);
		limpet_awake_check(&awake, limpet_monotonic_ns());
		limpet_awake_end(&awake);
		assert_int_equal(fds_open(), before);
	}
	device = stand_in;
}

/* With the priority of a stop, as long as the outermost one of these has it. */
static void test_awake_while_a_thread_stands(void **state)
{
	struct limpet_priority work, stop;
	struct limpet_tracer *tracer;

	(void)state;
	assert_int_equal(limpet_tracer_new(&tracer), 0);
	work = limpet_priority_raise(LIMPET_PRIORITY_WORK);
	assert_int_equal(times_open(), 0);
	stop = limpet_tracer_raise(tracer);
	assert_int_equal(times_open(), 1);
	limpet_tracer_lower(tracer, limpet_tracer_raise(tracer));
	assert_int_equal(times_open(), 1);
	limpet_tracer_lower(tracer, stop);
	assert_int_equal(times_open(), 0);
	limpet_priority_restore(work);
	limpet_tracer_free(tracer);
}

/* ------------------------------------------------------------------ sleeps */

static struct limpet_tick tick;

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
			assert_int_equal(limpet_tick_sleep(&tick), LIMPET_TICK_TICK);
		limpet_tick_end(&tick);
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
	assert_int_equal(limpet_tick_sleep(&tick), LIMPET_TICK_TICK);
	for (unsigned i = 0; i < 3; i++) {
		assert_int_equal(sigaction(SIGCHLD, &handler, NULL), 0);
		pthread_kill(pthread_self(), SIGCHLD);
		nanosleep(&two_ticks, NULL);
		assert_int_equal(sigaction(SIGCHLD, &none, NULL), 0);
		assert_int_equal(limpet_tick_sleep(&tick), LIMPET_TICK_TICK);
		assert_int_equal(limpet_tick_sleep(&tick), LIMPET_TICK_TICK);
	}
	limpet_tick_end(&tick);
}

/* Descriptors are, timers are not inherited. */
static void test_sleep_in_a_child(void **state)
{
	pid_t child;
	int status;

	(void)state;
	forget_signals();
	assert_int_equal(limpet_tick_sleep(&tick), LIMPET_TICK_TICK);
	child = fork();
	assert_true(child >= 0);
	if (child == 0) {
		const bool slept = limpet_tick_sleep(&tick) == LIMPET_TICK_TICK &&
				   limpet_tick_sleep(&tick) == LIMPET_TICK_TICK;

		limpet_tick_end(&tick);
		_exit(!slept);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	forget_signals();
	assert_int_equal(limpet_tick_sleep(&tick), LIMPET_TICK_TICK);
	limpet_tick_end(&tick);
}

static void test_the_end_of_a_child_ends_a_sleep(void **state)
{
	enum limpet_tick_news news = LIMPET_TICK_TICK;
	siginfo_t info;
	pid_t child;

	(void)state;
	forget_signals();
	child = fork();
	assert_true(child >= 0);
	if (child == 0)
		_exit(0);
	while (news == LIMPET_TICK_TICK)
		news = limpet_tick_sleep(&tick);
	assert_int_equal(news, LIMPET_TICK_CHILD);
	assert_int_equal(waitid(P_PID, (id_t)child, &info, WEXITED), 0);
	limpet_tick_end(&tick);
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
		_exit(limpet_tick_sleep(&tick) != LIMPET_TICK_NONE);
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
