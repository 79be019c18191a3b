/* A thread that limpet waits for has limpet's priority meanwhile, and its own before and after. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/array.h"
#include "common/clock.h"
#include "injector/proc/proc.h"
#include "injector/ptrace/boost.h"
#include "injector/ptrace/priority.h"
#include "injector/ptrace/tracee.h"
#include "test/unit/skip_reason.h"

/* Never reached: a test that gets there has failed by its own limit. */
#define LONG_NS UINT64_C(600000000000)

static pthread_t waiter;
static atomic_bool signalled;

/* As the kernel runs it: negative for real-time priorities; 99 if it cannot be read. */
static long priority_of(pid_t pid, char *ret_state)
{
	char path[64], line[1024];
	long priority = 99;
	size_t bytes;
	FILE *file;
	char *at;

	*ret_state = 0;
	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	file = fopen(path, "re");
	if (!file)
		return priority;
	bytes = fread(line, 1, sizeof(line) - 1, file);
	fclose(file);
	line[bytes] = 0;
	at = strrchr(line, ')');
	if (at)
		sscanf(at + 1, " %c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %ld",
		       ret_state, &priority);
	return priority;
}

static pid_t start_busy_child(void)
{
	pid_t pid = fork();

	assert_true(pid >= 0);
	while (pid == 0)
		__asm__ volatile("" ::: "memory");
	return pid;
}

static void end_child(pid_t pid)
{
	kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
}

/* Ends the sleep when it has seen the child with the priority that it waits for. */
static void *watch(void *argument)
{
	const pid_t *child = argument;

	char process_state;

	while (priority_of(*child, &process_state) >= 0)
		sched_yield();
	signalled = true;
	pthread_kill(waiter, SIGCHLD);
	return NULL;
}

/* A turn ends by itself, also. */
static void sleep_until_child_signal(pid_t child)
{
	struct limpet_boost boost;

	signalled = false;
	limpet_boost_begin(&boost, child, child);
	while (!signalled) {
		limpet_boost_turn(&boost);
		limpet_boost_sleep(&boost, limpet_monotonic_ns() + LONG_NS);
	}
	limpet_boost_end(&boost);
}

static void test_lends_its_priority(void **state)
{
	pid_t child = start_busy_child();
	char process_state;
	const long own = priority_of(child, &process_state);
	struct limpet_priority before;
	pthread_t watcher;

	(void)state;
	assert_int_equal(limpet_tracee_setup(), 0);
	waiter = pthread_self();
	assert_int_equal(pthread_create(&watcher, NULL, watch, &child), 0);
	before = limpet_priority_raise(LIMPET_PRIORITY_STOP);
	if ((sched_getscheduler(0) & ~SCHED_RESET_ON_FORK) != SCHED_RR) {
		end_child(child);
		pthread_join(watcher, NULL);
		limpet_skip("this user may not have a real-time priority, or has one processor");
	}
	sleep_until_child_signal(child);
	limpet_priority_restore(before);
	assert_int_equal(pthread_join(watcher, NULL), 0);
	assert_int_equal(priority_of(child, &process_state), own);
	end_child(child);
}

/* Between the look and the sleep. */
static void test_signal_that_came_before(void **state)
{
	pid_t child = start_busy_child();
	struct limpet_boost boost;

	(void)state;
	assert_int_equal(limpet_tracee_setup(), 0);
	limpet_boost_begin(&boost, child, child);
	limpet_boost_turn(&boost);
	raise(SIGCHLD);
	limpet_boost_sleep(&boost, limpet_monotonic_ns() + LONG_NS);
	limpet_boost_end(&boost);
	end_child(child);
}

/* The kernel finds no such thread: a plain sleep, which ends soon. */
static void test_thread_that_is_gone(void **state)
{
	pid_t child = start_busy_child();
	struct limpet_boost boost;

	(void)state;
	assert_int_equal(limpet_tracee_setup(), 0);
	end_child(child);
	limpet_boost_begin(&boost, child, child);
	for (unsigned i = 0; i < 3; i++) {
		limpet_boost_turn(&boost);
		assert_int_equal(boost.now, child);
		limpet_boost_sleep(&boost, limpet_monotonic_ns() + LONG_NS);
	}
	limpet_boost_end(&boost);
}

static void *run_busily(void *argument)
{
	const volatile bool *over = argument;

	while (!*over)
		;
	return NULL;
}

/* While the thread that is waited for sleeps, each of those that could run gets a turn. */
static void test_siblings_have_turns(void **state)
{
	static volatile bool over;
	pthread_t siblings[3];
	struct limpet_boost boost;
	pid_t seen[8] = {0};
	pid_t sleeper = fork();
	char process_state;

	(void)state;
	if (sleeper == 0) {
		for (;;)
			pause();
	}
	assert_int_equal(limpet_tracee_setup(), 0);
	for (size_t i = 0; i < LIMPET_COUNT_OF(siblings); i++)
		assert_int_equal(
			pthread_create(&siblings[i], NULL, run_busily, (void *)(uintptr_t)&over),
			0);
	do {
		priority_of(sleeper, &process_state);
	} while (process_state != 'S');
	/* As if it were one of these. */
	limpet_boost_begin(&boost, getpid(), sleeper);
	limpet_boost_turn(&boost);
	assert_int_equal(boost.now, sleeper);
	for (size_t i = 0; i < LIMPET_COUNT_OF(seen); i++) {
		limpet_boost_turn(&boost);
		seen[i] = boost.now;
	}
	limpet_boost_end(&boost);
	over = true;
	for (size_t i = 0; i < LIMPET_COUNT_OF(siblings); i++)
		pthread_join(siblings[i], NULL);
	/* We can run, too. Four in a row are different, and the next four the same again. */
	for (size_t i = 0; i < 4; i++) {
		assert_int_not_equal(seen[i], sleeper);
		assert_int_equal(seen[i], seen[i + 4]);
		for (size_t k = 0; k < i; k++)
			assert_int_not_equal(seen[i], seen[k]);
	}
	end_child(sleeper);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_lends_its_priority),
		cmocka_unit_test(test_signal_that_came_before),
		cmocka_unit_test(test_thread_that_is_gone),
		cmocka_unit_test(test_siblings_have_turns),
	};

	/* Of other limpets one may have a real-time priority: not where their name is not seen. */
	(void)!unshare(CLONE_NEWNET);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
