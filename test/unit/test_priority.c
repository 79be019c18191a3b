/* limpet's priority: raised and restored, for the calling thread, and nobody else's. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "collector/capture/own_priority.h"
#include "injector/ptrace/priority.h"
#include "test/unit/skip_reason.h"

static int policy(void)
{
	return sched_getscheduler(0) & ~SCHED_RESET_ON_FORK;
}

static int nice_value(void)
{
	return getpriority(PRIO_PROCESS, 0);
}

static int in_child(int (*run)(void))
{
	pid_t pid = fork();
	int status;

	assert_true(pid >= 0);
	if (pid == 0)
		_exit(run());
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status);
}

/* Of a child, its line where it fails. */
#define CHECK(condition)                 \
	do {                             \
		if (!(condition))        \
			return __LINE__; \
	} while (0)

static bool one_processor(void)
{
	cpu_set_t allowed;

	return sched_getaffinity(0, sizeof(allowed), &allowed) == 0 && CPU_COUNT(&allowed) == 1;
}

static int nested(void)
{
	const int policy_before = policy(), nice_before = nice_value();
	struct limpet_priority work, stop;

	work = limpet_priority_raise(LIMPET_PRIORITY_WORK);
	CHECK(policy() == policy_before && nice_value() == -20);
	stop = limpet_priority_raise(LIMPET_PRIORITY_STOP);
	CHECK(policy() == (one_processor() ? policy_before : SCHED_RR));
	limpet_priority_restore(limpet_priority_raise(LIMPET_PRIORITY_WORK));
	CHECK(policy() == (one_processor() ? policy_before : SCHED_RR));
	limpet_priority_restore(stop);
	CHECK(policy() == policy_before && nice_value() == -20);
	limpet_priority_restore(work);
	CHECK(policy() == policy_before && nice_value() == nice_before);
	CHECK(sched_getscheduler(0) == policy_before);
	return 0;
}

static void test_levels_are_nested(void **state)
{
	(void)state;
	if (!limpet_priority_is_allowed())
		limpet_skip("this user may not raise a priority");
	assert_int_equal(in_child(nested), 0);
}

static int on_one_processor(void)
{
	cpu_set_t one;

	CPU_ZERO(&one);
	CPU_SET((size_t)sched_getcpu(), &one);
	CHECK(sched_setaffinity(0, sizeof(one), &one) == 0);
	limpet_priority_raise(LIMPET_PRIORITY_STOP);
	CHECK(policy() == SCHED_OTHER && nice_value() == -20);
	return 0;
}

static void test_one_processor_is_shared(void **state)
{
	(void)state;
	if (!limpet_priority_is_allowed())
		limpet_skip("this user may not raise a priority");
	assert_int_equal(in_child(on_one_processor), 0);
}

static int as_begun(void)
{
	return policy() == SCHED_OTHER && nice_value() == 0 ? 0 : 1;
}

static void *note_as_begun(void *ret)
{
	*(int *)ret = as_begun();
	return NULL;
}

static int children_of(enum limpet_priority_level level)
{
	pthread_t thread;
	int result = 2;

	limpet_priority_raise(level);
	CHECK(in_child(as_begun) == 0);
	CHECK(pthread_create(&thread, NULL, note_as_begun, &result) == 0);
	CHECK(pthread_join(thread, NULL) == 0);
	return result;
}

static int children_of_work(void)
{
	return children_of(LIMPET_PRIORITY_WORK);
}

static int children_of_stop(void)
{
	return children_of(LIMPET_PRIORITY_STOP);
}

static void test_children_begin_with_the_default(void **state)
{
	(void)state;
	if (!limpet_priority_is_allowed() || nice_value())
		limpet_skip("this user may not raise a priority, or has another one");
	assert_int_equal(in_child(children_of_work), 0);
	assert_int_equal(in_child(children_of_stop), 0);
}

static int without_the_right(void)
{
	const struct rlimit none = {0, 0};
	const int policy_before = policy(), nice_before = nice_value();

	CHECK(setrlimit(RLIMIT_NICE, &none) == 0 && setrlimit(RLIMIT_RTPRIO, &none) == 0);
	CHECK(geteuid() != 0 || setuid(65534) == 0);
	CHECK(!limpet_priority_is_allowed());
	limpet_priority_restore(limpet_priority_raise(LIMPET_PRIORITY_STOP));
	limpet_priority_raise(LIMPET_PRIORITY_STOP);
	CHECK(policy() == policy_before && nice_value() == nice_before);
	return 0;
}

static void test_without_the_right_nothing_changes(void **state)
{
	(void)state;
	assert_int_equal(in_child(without_the_right), 0);
}

struct thread {
	pthread_t thread;
	pthread_barrier_t ready, set;
	int nice;
};

static void *read_nice(void *context)
{
	struct thread *it = context;

	pthread_barrier_wait(&it->ready);
	pthread_barrier_wait(&it->set);
	it->nice = nice_value();
	return NULL;
}

static int all_threads(void)
{
	struct thread it = {.nice = 0};

	CHECK(pthread_barrier_init(&it.ready, NULL, 2) == 0);
	CHECK(pthread_barrier_init(&it.set, NULL, 2) == 0);
	CHECK(pthread_create(&it.thread, NULL, read_nice, &it) == 0);
	pthread_barrier_wait(&it.ready);
	limpet_priority_set_nice(7);
	pthread_barrier_wait(&it.set);
	CHECK(pthread_join(it.thread, NULL) == 0);
	CHECK(it.nice == 7 && nice_value() == 7);
	return 0;
}

static void test_all_threads_have_the_same(void **state)
{
	(void)state;
	assert_int_equal(in_child(all_threads), 0);
}

static int as_urgent_as_it_is(void)
{
	const struct limpet_priority before = {.policy = SCHED_OTHER, .nice = 0};

	limpet_own_priority_set(before, LIMPET_URGENCY_NONE);
	CHECK(policy() == SCHED_BATCH && nice_value() == 0);
	limpet_own_priority_set(before, LIMPET_URGENCY_LOAD);
	CHECK(policy() == SCHED_OTHER && nice_value() == -20);
	limpet_own_priority_set(before, LIMPET_URGENCY_TIME);
	CHECK(policy() == SCHED_BATCH && nice_value() == -20);
	limpet_own_priority_set(before, LIMPET_URGENCY_NONE);
	CHECK(policy() == SCHED_BATCH && nice_value() == 0);
	return 0;
}

static void test_what_is_urgent_comes_before_others(void **state)
{
	(void)state;
	if (!limpet_priority_is_allowed() || nice_value())
		limpet_skip("this user may not raise a priority, or has another one");
	assert_int_equal(in_child(as_urgent_as_it_is), 0);
}

static int chosen_by_the_user(void)
{
	const struct sched_param none = {0};
	struct limpet_priority before;

	CHECK(setpriority(PRIO_PROCESS, 0, 7) == 0);
	CHECK(sched_setscheduler(0, SCHED_BATCH, &none) == 0);
	before = (struct limpet_priority){.policy = SCHED_BATCH, .nice = 7};
	limpet_own_priority_set(before, LIMPET_URGENCY_LOAD);
	CHECK(policy() == SCHED_BATCH && nice_value() == 7);
	limpet_own_priority_set(before, LIMPET_URGENCY_NONE);
	CHECK(policy() == SCHED_BATCH && nice_value() == 7);
	return 0;
}

static void test_what_the_user_chose_stays(void **state)
{
	(void)state;
	assert_int_equal(in_child(chosen_by_the_user), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_levels_are_nested),
		cmocka_unit_test(test_one_processor_is_shared),
		cmocka_unit_test(test_children_begin_with_the_default),
		cmocka_unit_test(test_without_the_right_nothing_changes),
		cmocka_unit_test(test_all_threads_have_the_same),
		cmocka_unit_test(test_what_is_urgent_comes_before_others),
		cmocka_unit_test(test_what_the_user_chose_stays),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
