/* Time, futexes and signals. */
#include "test/targets/sleeper.h"

#include <linux/futex.h>
#include <signal.h>

#include "test/targets/target.h"

/* ------------------------------------------------------------------ time */

static int sleep_nanosleep(void)
{
	struct timespec time = sleeper_time();

	return syscall(SYS_nanosleep, &time, NULL) == 0 ? 5 : -1;
}
static int sleep_clock_nanosleep(void)
{
	struct timespec time = sleeper_time();

	errno = clock_nanosleep(CLOCK_REALTIME, 0, &time, NULL);
	return errno ? -1 : 5;
}
static int sleep_clock_nanosleep_absolute(void)
{
	struct timespec due = sleeper_due(CLOCK_MONOTONIC);

	errno = clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &due, NULL);
	return errno ? -1 : 5;
}

/* ------------------------------------------------------------------ futexes */

static long futex(int operation, uint32_t value, const struct timespec *limit)
{
	return syscall(SYS_futex, &sleeper_shared->word, operation, value, limit, NULL,
		       FUTEX_BITSET_MATCH_ANY);
}
static int sleep_futex(void)
{
	return futex(FUTEX_WAIT, 0, NULL) == 0 ? 5 : -1;
}
static int sleep_futex_woken(void)
{
	struct timespec limit = {AN_HOUR_S, 0};

	return futex(FUTEX_WAIT, 0, &limit) == 0 ? 5 : -1;
}
static void wake_futex(void)
{
	sleeper_shared->word = 1;
	sleeper_must(futex(FUTEX_WAKE, 1, NULL) == 1, "futex");
}
static int sleep_futex_timeout(void)
{
	struct timespec limit = sleeper_time();

	return futex(FUTEX_WAIT, 0, &limit) < 0 && errno == ETIMEDOUT ? 5 : -1;
}
static int sleep_futex_bitset(void)
{
	struct timespec due = sleeper_due(CLOCK_MONOTONIC);

	return futex(FUTEX_WAIT_BITSET, 0, &due) < 0 && errno == ETIMEDOUT ? 5 : -1;
}
/* linux/futex.h of newer kernels */
#define CALL_futex_waitv 449
struct waited {
	uint64_t value, address;
	uint32_t flags, reserved;
};
static int wait_several(void)
{
	struct waited one = {.address = (uintptr_t)&sleeper_shared->word, .flags = 2};

	return (int)syscall(CALL_futex_waitv, &one, 1, 0, NULL, CLOCK_MONOTONIC);
}
static void try_futex_waitv(void)
{
	sleeper_shared->word = 1;
	if (wait_several() < 0 && errno == ENOSYS)
		sleeper_impossible("futex_waitv");
	sleeper_shared->word = 0;
}
static int sleep_futex_waitv(void)
{
	return wait_several() == 0 ? 5 : -1;
}
static void take_mutex_of(int protocol)
{
	pthread_mutexattr_t attr;

	pthread_mutexattr_init(&attr);
	pthread_mutexattr_setprotocol(&attr, protocol);
	pthread_mutexattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
	sleeper_must(!pthread_mutex_init(&sleeper_shared->mutex, &attr) &&
			     !pthread_mutex_lock(&sleeper_shared->mutex),
		     "mutex");
}
static void take_mutex(void)
{
	take_mutex_of(PTHREAD_PRIO_NONE);
}
static void take_inheriting_mutex(void)
{
	take_mutex_of(PTHREAD_PRIO_INHERIT);
}
static int sleep_mutex(void)
{
	return pthread_mutex_lock(&sleeper_shared->mutex) ? -1 : 5;
}
static void give_mutex(void)
{
	pthread_mutex_unlock(&sleeper_shared->mutex);
}
static void make_condition(void)
{
	pthread_condattr_t attr;

	take_mutex();
	pthread_mutex_unlock(&sleeper_shared->mutex);
	pthread_condattr_init(&attr);
	pthread_condattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
	/* The other one may be set meanwhile. */
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	sleeper_must(!pthread_cond_init(&sleeper_shared->condition, &attr), "condition");
}
static int sleep_condition(void)
{
	struct timespec limit;
	int error = 0;

	clock_gettime(CLOCK_MONOTONIC, &limit);
	limit.tv_sec += AN_HOUR_S;
	pthread_mutex_lock(&sleeper_shared->mutex);
	while (!sleeper_shared->go_on && !error)
		error = pthread_cond_timedwait(&sleeper_shared->condition, &sleeper_shared->mutex,
					       &limit);
	pthread_mutex_unlock(&sleeper_shared->mutex);
	return error ? -1 : 5;
}
static void signal_condition(void)
{
	pthread_mutex_lock(&sleeper_shared->mutex);
	sleeper_shared->go_on = true;
	pthread_cond_signal(&sleeper_shared->condition);
	pthread_mutex_unlock(&sleeper_shared->mutex);
}
static void make_semaphore(void)
{
	sleeper_must(!sem_init(&sleeper_shared->semaphore, 1, 0), "sem_init");
}
static int sleep_semaphore(void)
{
	return sem_wait(&sleeper_shared->semaphore) ? -1 : 5;
}
static void post_semaphore(void)
{
	sleeper_must(!sem_post(&sleeper_shared->semaphore), "sem_post");
}

/* ------------------------------------------------------------------ signals */

static int sleep_pause(void)
{
	/* EINTR is how this sleeper_ends; a second wait shows that it was not our stop that ended
	 * it. */
	return pause() == -1 && errno == EINTR && sleeper_shared->go_on ? 5 : -1;
}
static void release_by_signal(void)
{
	sleeper_shared->go_on = true;
	sleeper_signal();
}
static int sleep_sigsuspend(void)
{
	sigset_t none;

	sigemptyset(&none);
	return sigsuspend(&none) == -1 && errno == EINTR && sleeper_shared->go_on ? 5 : -1;
}
static void block_and_catch(void)
{
	sleeper_catch_signal();
	sleeper_block_signal();
}
static int sleep_sigwaitinfo(void)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	return sigwaitinfo(&set, NULL) == SIGUSR1 ? 5 : -1;
}

static int sleep_sigtimedwait(void)
{
	struct timespec limit = sleeper_time();
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	return sigtimedwait(&set, NULL, &limit) < 0 && errno == EAGAIN ? 5 : -1;
}

const struct sleeper_kind sleeper_time_kinds[] = {
	{"nanosleep", SYS_nanosleep, NULL, sleep_nanosleep, NULL, NULL},
	{"clock_nanosleep", SYS_clock_nanosleep, NULL, sleep_clock_nanosleep, NULL, NULL},
	{"clock_nanosleep-absolute", SYS_clock_nanosleep, NULL, sleep_clock_nanosleep_absolute,
	 NULL, NULL},
	{"futex", SYS_futex, NULL, sleep_futex, wake_futex, NULL},
	{"futex-woken", SYS_futex, NULL, sleep_futex_woken, wake_futex, NULL},
	{"futex-timeout", SYS_futex, NULL, sleep_futex_timeout, NULL, NULL},
	{"futex-bitset", SYS_futex, NULL, sleep_futex_bitset, NULL, NULL},
	{"futex_waitv", CALL_futex_waitv, try_futex_waitv, sleep_futex_waitv, wake_futex, NULL},
	{"mutex", SYS_futex, take_mutex, sleep_mutex, give_mutex, NULL},
	{"mutex-inheriting", SYS_futex, take_inheriting_mutex, sleep_mutex, give_mutex, NULL},
	{"condition", SYS_futex, make_condition, sleep_condition, signal_condition, NULL},
	{"semaphore", SYS_futex, make_semaphore, sleep_semaphore, post_semaphore, NULL},
	{"pause", SYS_pause, NULL, sleep_pause, release_by_signal, sleeper_catch_signal},
	{"sigsuspend", SYS_rt_sigsuspend, NULL, sleep_sigsuspend, release_by_signal,
	 block_and_catch},
	{"sigwaitinfo", SYS_rt_sigtimedwait, NULL, sleep_sigwaitinfo, sleeper_signal,
	 sleeper_block_signal},
	{"sigtimedwait", SYS_rt_sigtimedwait, NULL, sleep_sigtimedwait, NULL, sleeper_block_signal},
	{NULL, 0, NULL, NULL, NULL, NULL},
};
