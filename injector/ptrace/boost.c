#include "injector/ptrace/boost.h"

#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/err.h"
#include "injector/proc/proc.h"

#ifndef FUTEX_LOCK_PI2 /* Linux 5.14: with a time of CLOCK_MONOTONIC */
#define FUTEX_LOCK_PI2 13
#endif
#define PF_EXITING 4u /* flag in /proc/PID/stat */

/* Lent at most between _begin and _end; in all, and what of the time can be lent again. */
#define LEND_MOST_NS 100000000u
#define LEND_ALL_NS 500000000u
#define LEND_SHARE 10u
/* With a lower limit the kernel would end the program for what was lent (RLIMIT_RTTIME). */
#define RTTIME_LEAST_US 200000u
/* After its turn a thread may sleep, or have given up the lock. */
#define OWN_TURN_NS 250000u
#define TURN_NS 50000u
#define KERNEL_TURN_NS 100000u
/* Siblings that are looked at for a turn: each look takes some 10 us. More where the kernel is
 * waited for: few are there, and each stands in the way of all others. */
#define LOOKS 16
#define LOOKS_IN_KERNEL 64
#define LIST_NS 10000000u
#define RETURN_MOST_NS 50000000u
/* Ends a sleep of the lender's; ignored by default, should it ever go astray. */
#define RETURN_SIGNAL SIGURG

/* Of one process: a forked child has no such threads. */
static struct {
	pid_t pid; /* 0: there are none yet */
	bool failed, ready, lending;
	pid_t lender, guard; /* threads */
	sem_t lend, lent;    /* from and to the thread that waits */
	sem_t watch, end, watched;
	/* Set before `lend` and `watch`. Atomic, as ThreadSanitizer does not know sem_clockwait().
	 */
	pid_t borrower;
	uint64_t until_ns;
	bool over;
	uint64_t since_ns, spent_ns, spent_in_all_ns, refilled_ns;
	pid_t allowed; /* the process whose limits were looked at last, and permit it */
} boost;
static uint32_t word; /* as of a lock: who holds it */

/* Ending threads that have the priority themselves. */
#define RAISED_LIMIT 16u
static struct {
	pid_t pid, tid;
	int policy;
} raised[RAISED_LIMIT];
static unsigned raised_count;

/* Whose turn it is. */
static struct {
	pid_t pid, tid; /* of the wait */
	pid_t *siblings;
	int count, next;
	uint64_t listed_ns;
	bool in_kernel; /* where the thread that waits does so */
} turns;

static struct timespec to_timespec(uint64_t ns)
{
	return (struct timespec){(time_t)(ns / 1000000000u), (long)(ns % 1000000000u)};
}

/* ------------------------------------------------------------------ threads of the target */

/* As proc(5) has it: R for one that has a processor, or waits for one. Of those that are about to
 * end, for which a lock of the kernel's might hold the lender up: STATE_ENDING for R. 0 for the
 * others, and for one that is gone. */
#define STATE_ENDING 'e'
static char state_of(pid_t pid, pid_t tid)
{
	enum { FLAGS = 9 };
	uint64_t fields[LIMPET_STAT_FIELDS];

	if (limpet_proc_stat_read(pid, tid, fields) < FLAGS)
		return 0;
	if (fields[FLAGS] & PF_EXITING)
		return fields[LIMPET_STAT_STATE] == 'R' ? STATE_ENDING : 0;
	return (char)fields[LIMPET_STAT_STATE];
}

static bool is_ending(pid_t pid, pid_t tid)
{
	return state_of(pid, tid) == STATE_ENDING;
}

/* Its end takes the lock on the program's mappings for a moment, and nothing can be lent to it by
 * then. It gets the priority itself, which ends with it, or with limpet's own; no thread that has a
 * real-time priority already. */
static void raise_ending(pid_t pid, pid_t tid)
{
	const struct sched_param parameter = {.sched_priority = LIMPET_BOOST_PRIORITY},
				 none = {.sched_priority = 0};
	const int policy = sched_getscheduler(tid);

	if (raised_count == RAISED_LIMIT || (policy != SCHED_OTHER && policy != SCHED_BATCH) ||
	    sched_setscheduler(tid, SCHED_RR, &parameter) < 0)
		return;
	/* The number has another owner meanwhile. */
	if (!state_of(pid, tid)) {
		sched_setscheduler(tid, policy, &none);
		return;
	}
	raised[raised_count].pid = pid;
	raised[raised_count].tid = tid;
	raised[raised_count++].policy = policy;
}

static void lower_raised(void)
{
	const struct sched_param none = {.sched_priority = 0};

	while (raised_count) {
		raised_count--;
		if (is_ending(raised[raised_count].pid, raised[raised_count].tid))
			sched_setscheduler(raised[raised_count].tid, raised[raised_count].policy,
					   &none);
	}
}

/* ------------------------------------------------------------------ the two threads */

/* A signal does not end FUTEX_LOCK_PI: the kernel starts it again, and now the lock is free. */
static void on_return(int number)
{
	(void)number;
	__atomic_store_n(&word, 0, __ATOMIC_SEQ_CST);
}

static void wait_for(sem_t *semaphore)
{
	while (sem_wait(semaphore) < 0 && errno == EINTR)
		;
}

static bool wait_until(sem_t *semaphore, uint64_t until_ns)
{
	const struct timespec until = to_timespec(until_ns);
	int error;

	while ((error = sem_clockwait(semaphore, CLOCK_MONOTONIC, &until)) < 0 && errno == EINTR)
		;
	return error == 0;
}

/* Not with FUTEX_PRIVATE_FLAG: the holder of such a lock would have to share our memory. */
static void lend_until_over(void)
{
	const struct timespec until =
		to_timespec(__atomic_load_n(&boost.until_ns, __ATOMIC_RELAXED));
	const uint32_t tid = (uint32_t)__atomic_load_n(&boost.borrower, __ATOMIC_RELAXED);
	long error;

	do {
		__atomic_store_n(&word, tid, __ATOMIC_SEQ_CST);
		if (__atomic_load_n(&boost.over, __ATOMIC_SEQ_CST))
			return;
		error = syscall(SYS_futex, &word, FUTEX_LOCK_PI2, 0, &until, NULL, 0);
		/* One that has ended, or is about to, would hold the lender up in the kernel. */
	} while (!error && !(__atomic_load_n(&word, __ATOMIC_SEQ_CST) & FUTEX_OWNER_DIED) &&
		 !__atomic_load_n(&boost.over, __ATOMIC_SEQ_CST));
}

static void *lend(void *unused)
{
	sigset_t end;

	sigemptyset(&end);
	sigaddset(&end, RETURN_SIGNAL);
	pthread_sigmask(SIG_UNBLOCK, &end, NULL);
	pthread_setname_np(pthread_self(), "limpet-lender");
	__atomic_store_n(&boost.lender, gettid(), __ATOMIC_RELAXED);
	for (;;) {
		sem_post(&boost.lent);
		wait_for(&boost.lend);
		lend_until_over();
	}
	return unused;
}

/* It is enough that it runs. */
static void *guard(void *unused)
{
	pthread_setname_np(pthread_self(), "limpet-guard");
	__atomic_store_n(&boost.guard, gettid(), __ATOMIC_RELAXED);
	for (;;) {
		sem_post(&boost.watched);
		wait_for(&boost.watch);
		if (!wait_until(&boost.end, __atomic_load_n(&boost.until_ns, __ATOMIC_RELAXED)))
			wait_for(&boost.end);
	}
	return unused;
}

static int start_thread(void *(*function)(void *), int priority, const cpu_set_t *processor)
{
	const struct sched_param parameter = {.sched_priority = priority};
	pthread_attr_t attributes;
	pthread_t thread;
	int error = pthread_attr_init(&attributes);

	if (error)
		return -error;
	pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
	/* From its beginning, so that nobody waits for a thread of low priority. */
	pthread_attr_setinheritsched(&attributes, PTHREAD_EXPLICIT_SCHED);
	pthread_attr_setschedpolicy(&attributes, SCHED_RR);
	pthread_attr_setschedparam(&attributes, &parameter);
	error = pthread_attr_setaffinity_np(&attributes, sizeof(*processor), processor);
	if (!error)
		error = pthread_create(&thread, &attributes, function, NULL);
	pthread_attr_destroy(&attributes);
	return -error;
}

static bool kernel_can_lend(void)
{
	static uint32_t free_word;

	return syscall(SYS_futex, &free_word, FUTEX_LOCK_PI2, 0, NULL, NULL, 0) == 0 &&
	       syscall(SYS_futex, &free_word, FUTEX_UNLOCK_PI, 0, NULL, NULL, 0) == 0;
}

static bool init_semaphores(void)
{
	sem_t *const semaphores[] = {&boost.lend, &boost.lent, &boost.watch, &boost.end,
				     &boost.watched};

	for (size_t i = 0; i < sizeof(semaphores) / sizeof(semaphores[0]); i++)
		if (sem_init(semaphores[i], 0, 0) < 0)
			return false;
	return true;
}

static bool start_threads(void)
{
	const struct sigaction action = {.sa_handler = on_return, .sa_flags = SA_RESTART};
	const int here = sched_getcpu();
	const uint64_t until_ns = limpet_monotonic_ns() + RETURN_MOST_NS;
	sigset_t all, before;
	cpu_set_t processor;
	int error;

	boost.lender = boost.guard = 0;
	if (here < 0 || !kernel_can_lend() || !init_semaphores() ||
	    sigaction(RETURN_SIGNAL, &action, NULL) < 0)
		return false;
	CPU_ZERO(&processor);
	CPU_SET(here, &processor);
	/* Signals are for the other threads. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	error = start_thread(guard, LIMPET_BOOST_ABOVE, &processor);
	if (!error)
		error = start_thread(lend, LIMPET_BOOST_PRIORITY, &processor);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	boost.pid = getpid();
	return !error && wait_until(&boost.watched, until_ns) && wait_until(&boost.lent, until_ns);
}

/* Whether both have it. */
static bool set_policy(int policy, int lender, int guard_priority)
{
	const struct sched_param one = {.sched_priority = lender},
				 other = {.sched_priority = guard_priority};

	return boost.lender && boost.guard &&
	       sched_setscheduler(boost.lender, policy | SCHED_RESET_ON_FORK, &one) == 0 &&
	       sched_setscheduler(boost.guard, policy | SCHED_RESET_ON_FORK, &other) == 0;
}

/* On one processor: another cpuset, or a processor that has gone, may have parted them. */
static bool bring_together(void)
{
	const int here = sched_getcpu();
	cpu_set_t processor;

	if (here < 0)
		return false;
	CPU_ZERO(&processor);
	CPU_SET(here, &processor);
	return sched_setaffinity(boost.lender, sizeof(processor), &processor) == 0 &&
	       sched_setaffinity(boost.guard, sizeof(processor), &processor) == 0;
}

/* The threads are not those of a forked child. */
static bool is_ready(void)
{
	return boost.ready && boost.pid == getpid();
}

static bool has_something_to_lend(uint64_t now_ns)
{
	const uint64_t credit_ns = (now_ns - boost.refilled_ns) / LEND_SHARE;

	boost.spent_in_all_ns -=
		credit_ns < boost.spent_in_all_ns ? credit_ns : boost.spent_in_all_ns;
	boost.refilled_ns = now_ns;
	return boost.spent_ns < LEND_MOST_NS && boost.spent_in_all_ns < LEND_ALL_NS;
}

static bool is_real_time(void)
{
	struct sched_param own;

	return sched_getparam(0, &own) == 0 && own.sched_priority >= LIMPET_BOOST_ABOVE;
}

void limpet_boost_begin(void)
{
	if ((boost.failed && boost.pid == getpid()) || is_ready() || !is_real_time())
		return;
	boost.failed = boost.pid == getpid() ? !boost.lender || !boost.guard || !bring_together() ||
						       !set_policy(SCHED_RR, LIMPET_BOOST_PRIORITY,
								   LIMPET_BOOST_ABOVE)
					     : !start_threads();
	boost.ready = !boost.failed;
	boost.lending = false;
	boost.allowed = 0;
	boost.spent_ns = 0;
}

void limpet_boost_end(int nice)
{
	if (boost.pid != getpid() || !boost.lender || !boost.guard)
		return;
	if (boost.ready) {
		boost.ready = false;
		set_policy(SCHED_OTHER, 0, 0);
		free(turns.siblings);
		memset(&turns, 0, sizeof(turns));
	}
	lower_raised();
	/* Also where it was in a raise within another one. */
	setpriority(PRIO_PROCESS, (id_t)boost.lender, nice);
	setpriority(PRIO_PROCESS, (id_t)boost.guard, nice);
}

/* ------------------------------------------------------------------ whose turn it is */

/* Whether it may hold a lock, of the kernel's or of its program's: one that is about to start holds
 * none, and one on its way back to its program hardly ever one of the kernel's. Where its stack may
 * not be read it may hold any. */
static bool may_hold(pid_t tid)
{
	LIMPET_FREE char *stack = NULL;
	char name[32];
	size_t bytes;

	snprintf(name, sizeof(name), "task/%d/stack", tid);
	return limpet_proc_file_read(turns.pid, name, &stack, &bytes) < 0 || !bytes ||
	       (!strstr(stack, "__switch_to_asm") &&
		!(turns.in_kernel && strstr(stack, "to_user_mode")));
}

/* The round goes on where it was, or nearly so. */
static void list_siblings(pid_t pid, uint64_t now_ns)
{
	free(turns.siblings);
	turns.siblings = NULL;
	turns.pid = pid;
	turns.count = limpet_proc_tasks(pid, &turns.siblings);
	turns.listed_ns = now_ns;
}

/* The next of its siblings that could run; 0: none of those that were looked at. */
static pid_t next_sibling(void)
{
	const int looks = turns.in_kernel ? LOOKS_IN_KERNEL : LOOKS;

	for (int i = 0; i < looks && turns.next < turns.count; i++) {
		const pid_t sibling = turns.siblings[turns.next++];
		const char state = sibling == turns.tid ? 0 : state_of(turns.pid, sibling);

		if (state == STATE_ENDING && turns.in_kernel)
			raise_ending(turns.pid, sibling);
		if (state == 'R' && may_hold(sibling))
			return sibling;
	}
	return 0;
}

/* 0: nobody's. In state D it waits for the kernel, and so for a sibling that is there. */
static pid_t whose_turn(pid_t pid, pid_t tid, uint64_t now_ns)
{
	const char state = state_of(pid, tid);

	if (state != 'D' && state != 'S')
		return state && state != STATE_ENDING ? tid : 0;
	if (turns.pid != pid || now_ns - turns.listed_ns > LIST_NS)
		list_siblings(pid, now_ns);
	turns.tid = tid;
	turns.in_kernel = state == 'D';
	if (turns.next >= turns.count)
		turns.next = 0;
	return next_sibling() ?: tid;
}

/* ------------------------------------------------------------------ lending */

static bool is_allowed(pid_t pid)
{
	struct rlimit limit;

	if (pid != boost.allowed && prlimit(pid, RLIMIT_RTTIME, NULL, &limit) == 0 &&
	    limit.rlim_cur >= RTTIME_LEAST_US)
		boost.allowed = pid;
	return pid == boost.allowed;
}

uint64_t limpet_boost_lend(pid_t pid, pid_t tid)
{
	const uint64_t now_ns = limpet_monotonic_ns();
	pid_t whose;

	if (!is_ready() || boost.lending || !is_allowed(pid) || !has_something_to_lend(now_ns))
		return UINT64_MAX;
	whose = whose_turn(pid, tid, now_ns);
	if (!whose)
		return UINT64_MAX;
	boost.since_ns = now_ns;
	boost.lending = true;
	__atomic_store_n(&boost.borrower, whose, __ATOMIC_RELAXED);
	__atomic_store_n(&boost.until_ns, now_ns + LEND_MOST_NS - boost.spent_ns, __ATOMIC_RELAXED);
	__atomic_store_n(&boost.over, false, __ATOMIC_SEQ_CST);
	sem_post(&boost.watch);
	sem_post(&boost.lend);
	if (whose == tid)
		return OWN_TURN_NS;
	return turns.in_kernel ? KERNEL_TURN_NS : TURN_NS;
}

void limpet_boost_take_back(void)
{
	const uint64_t now_ns = limpet_monotonic_ns();

	if (!is_ready() || !boost.lending)
		return;
	__atomic_store_n(&boost.over, true, __ATOMIC_SEQ_CST);
	tgkill(boost.pid, boost.lender, RETURN_SIGNAL);
	sem_post(&boost.end);
	boost.lending = false;
	boost.spent_ns += now_ns - boost.since_ns;
	boost.spent_in_all_ns += now_ns - boost.since_ns;
	boost.refilled_ns = now_ns;
	if (wait_until(&boost.watched, now_ns + RETURN_MOST_NS) &&
	    wait_until(&boost.lent, now_ns + RETURN_MOST_NS))
		return;
	/* Whatever holds them up: they get nothing to do again. */
	set_policy(SCHED_OTHER, 0, 0);
	boost.failed = true;
	boost.ready = false;
}
