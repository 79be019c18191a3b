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
#include "injector/proc/memory.h"
#include "injector/proc/proc.h"

#ifndef FUTEX_LOCK_PI2 /* Linux 5.14: with a time of CLOCK_MONOTONIC */
#define FUTEX_LOCK_PI2 13
#endif
#define PF_EXITING 4u /* flag in /proc/PID/stat */

/* Lent at most between _begin and _end; in all, and what of the time can be lent again. */
#define LEND_MOST_NS 100000000u
#define LEND_ALL_NS 500000000u
#define LEND_SHARE 10u
/* After its turn a thread may sleep, or have given up the lock. */
#define OWN_TURN_NS 100000u
#define TURN_NS 50000u
#define KERNEL_TURN_NS 100000u
/* Until the lender looks again where it was nobody's turn, or nothing could be lent. */
#define NOBODYS_NS 50000u
/* How often the thread that waits looks for itself while the lender works. */
#define AWAIT_NS 5000000u
/* Siblings that are probed for a turn: each probe takes some 10 us. More where the kernel is
 * waited for: few are there, and each stands in the way of all others. */
#define PROBES 16
#define PROBES_IN_KERNEL 64
#define LIST_NS 10000000u
#define RETURN_MOST_NS 50000000u
/* An idle machine needs less for any answer. One that was busy is taken to be so for that long. */
#define UNLENT_NS 400000u
#define BUSY_NS 1000000000u
/* How often the watcher looks, and how often within a turn. */
#define WATCH_NS 1000000u
#define WATCH_TURN_NS 20000u
/* For how long the thread that waits may wait for the watcher: usually some ten microseconds. */
#define USE_MOST_NS 5000000u
/* Ends a sleep of the lender's; ignored by default, should it ever go astray. */
#define RETURN_SIGNAL SIGURG

enum thread { LENDER, GUARD, WATCHER, THREADS };

/* Of this process, and not of a tracer: such threads cannot be waited for where the kernel keeps
 * them, so they stay until limpet ends. A forked child has none. */
static struct {
	pid_t pid; /* 0: there are none yet */
	bool failed, ready, lending;
	pid_t tids[THREADS];
	pthread_t threads[THREADS]; /* those that are `made`, which may not have run yet */
	bool made[THREADS];
	sem_t lend, lent;  /* from and to the thread that waits, or the watcher */
	sem_t guard;       /* to the guard: a turn begins, or all is over */
	sem_t watching;    /* to the watcher: until `ready` is false again */
	sem_t started;     /* from each */
	uint64_t until_ns; /* set before `lend` */
	/* Atomic, as ThreadSanitizer does not know sem_clockwait(). */
	uint64_t turn_until_ns; /* set before `guard` */
	bool over;
	uint64_t since_ns, spent_ns, spent_in_all_ns, refilled_ns, busy_until_ns;
	pid_t allowed; /* the process whose limits were looked at last, and permit it */
	cpu_set_t processors[THREADS]; /* the lender's are those of the others */
	cpu_set_t everywhere;          /* where this process may be */
} boost;
static uint32_t word; /* as of a lock: who holds it */
/* Of all that the thread that waits and the watcher both use. The watcher holds it for as long as
 * it lends. */
static pthread_mutex_t in_use = PTHREAD_MUTEX_INITIALIZER;
static struct limpet_memory_calls calls; /* of the thread that waits */

/* Ending threads that have the priority themselves. */
#define RAISED_LIMIT 16u
static struct {
	pid_t pid, tid;
	int policy;
} raised[RAISED_LIMIT];
static unsigned raised_count;

/* Whose turn it is. The lender's while it lends. */
static struct {
	pid_t pid, tid; /* of the wait; tid 0: of limpet itself */
	pid_t *siblings;
	int count, next;
	uint64_t listed_ns;
	bool in_kernel; /* where the thread that waits does so */
} turns;

/* ------------------------------------------------------------------ threads of the target */

/* As proc(5) has it: R for one that has a processor, or waits for one. Of those that are about to
 * end, for which a lock of the kernel's might hold the lender up: STATE_ENDING for R. 0 for the
 * others, and for one that is gone. */
#define STATE_ENDING 'e'
enum { FLAGS = 9 };
static char state_of(pid_t pid, pid_t tid)
{
	uint64_t fields[LIMPET_STAT_FIELDS];

	if (limpet_proc_stat_read(pid, tid, fields) < FLAGS)
		return 0;
	if (fields[FLAGS] & PF_EXITING)
		return fields[LIMPET_STAT_STATE] == 'R' ? STATE_ENDING : 0;
	return (char)fields[LIMPET_STAT_STATE];
}

static bool is_ending(pid_t pid, pid_t tid)
{
	uint64_t fields[LIMPET_STAT_FIELDS];

	return limpet_proc_stat_read(pid, tid, fields) >= FLAGS && fields[FLAGS] & PF_EXITING;
}

/* Of the lending: the thread that waits does not, or has given up the lender. */
static bool is_over(void)
{
	return __atomic_load_n(&boost.over, __ATOMIC_SEQ_CST);
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
	/* The number has another owner meanwhile, or nobody would lower it again. */
	if (!state_of(pid, tid) || is_over()) {
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

void limpet_boost_raise_last(pid_t tid)
{
	const struct sched_param parameter = {.sched_priority = LIMPET_BOOST_PRIORITY};

	if ((sched_getscheduler(0) & ~SCHED_RESET_ON_FORK) != SCHED_OTHER)
		sched_setscheduler(tid, SCHED_RR, &parameter);
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
static void list_siblings(void)
{
	free(turns.siblings);
	turns.siblings = NULL;
	turns.count = limpet_proc_tasks_once(turns.pid, &turns.siblings);
	turns.listed_ns = limpet_monotonic_ns();
}

/* The next of its siblings that could run; 0: none of those that were looked at. */
static pid_t next_sibling(void)
{
	const int probes = turns.in_kernel ? PROBES_IN_KERNEL : PROBES;

	for (int i = 0; i < probes && turns.next < turns.count && !is_over(); i++) {
		const pid_t sibling = turns.siblings[turns.next++];
		const char state = sibling == turns.tid ? 0 : state_of(turns.pid, sibling);

		if (state == STATE_ENDING && turns.in_kernel)
			raise_ending(turns.pid, sibling);
		if (state == 'R' && may_hold(sibling))
			return sibling;
	}
	return 0;
}

static pid_t siblings_turn(bool in_kernel)
{
	if (limpet_monotonic_ns() - turns.listed_ns > LIST_NS)
		list_siblings();
	turns.in_kernel = in_kernel;
	if (turns.next >= turns.count)
		turns.next = 0;
	return next_sibling();
}

/* 0: nobody's. In state D it waits for the kernel, and so for a sibling that is there. */
static pid_t whose_turn(uint64_t *ret_turn_ns)
{
	const char state = turns.tid ? state_of(turns.pid, turns.tid) : 'D';
	pid_t whose = 0;

	if (state == 'D' || state == 'S') {
		whose = siblings_turn(state == 'D');
		*ret_turn_ns = turns.in_kernel ? KERNEL_TURN_NS : TURN_NS;
	}
	if (whose || !state || state == STATE_ENDING)
		return whose;
	*ret_turn_ns = OWN_TURN_NS;
	return turns.tid;
}

/* ------------------------------------------------------------------ the threads */

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
	const struct timespec until = limpet_timespec(until_ns);
	int error;

	while ((error = sem_clockwait(semaphore, CLOCK_MONOTONIC, &until)) < 0 && errno == EINTR)
		;
	return error == 0;
}

/* Not with FUTEX_PRIVATE_FLAG: the holder of such a lock would have to share our memory. False: the
 * kernel did not lend for so long, as to one that has ended, or is about to. */
static bool lend_to(pid_t tid, uint64_t until_ns)
{
	const struct timespec until = limpet_timespec(until_ns);

	__atomic_store_n(&boost.turn_until_ns, until_ns, __ATOMIC_SEQ_CST);
	sem_post(&boost.guard);
	__atomic_store_n(&word, (uint32_t)tid, __ATOMIC_SEQ_CST);
	return is_over() || (syscall(SYS_futex, &word, FUTEX_LOCK_PI2, 0, &until, NULL, 0) < 0 &&
			     errno == ETIMEDOUT);
}

static void lend_in_turns(void)
{
	const struct timespec nobodys = limpet_timespec(NOBODYS_NS);

	while (!is_over()) {
		uint64_t turn_ns = 0;
		const pid_t whose = whose_turn(&turn_ns);
		const uint64_t now_ns = limpet_monotonic_ns();

		if (now_ns >= boost.until_ns)
			break;
		if (turn_ns > boost.until_ns - now_ns)
			turn_ns = boost.until_ns - now_ns;
		if ((!whose || !lend_to(whose, now_ns + turn_ns)) && !is_over())
			nanosleep(&nobodys, NULL);
	}
}

static void begin_thread(enum thread thread, const char *name)
{
	pthread_setname_np(pthread_self(), name);
	__atomic_store_n(&boost.tids[thread], gettid(), __ATOMIC_RELAXED);
	sem_post(&boost.started);
}

static void *lend(void *unused)
{
	sigset_t end;

	sigemptyset(&end);
	sigaddset(&end, RETURN_SIGNAL);
	pthread_sigmask(SIG_UNBLOCK, &end, NULL);
	begin_thread(LENDER, "limpet-lender");
	for (;;) {
		wait_for(&boost.lend);
		lend_in_turns();
		sem_post(&boost.lent);
	}
	return unused;
}

/* It is enough that it runs, or has just done so: nobody waits for it. */
static void *guard(void *unused)
{
	begin_thread(GUARD, "limpet-guard");
	for (;;) {
		wait_for(&boost.guard);
		while (wait_until(&boost.guard,
				  __atomic_load_n(&boost.turn_until_ns, __ATOMIC_SEQ_CST)))
			;
	}
	return unused;
}

static void *watch(void *unused);

static int start_thread(enum thread which, void *(*function)(void *), int priority)
{
	const struct sched_param parameter = {.sched_priority = priority};
	const cpu_set_t *processors = &boost.processors[which];
	pthread_attr_t attributes;
	int error = pthread_attr_init(&attributes);

	if (error)
		return -error;
	pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
	/* From its beginning, so that nobody waits for a thread of low priority. */
	pthread_attr_setinheritsched(&attributes, PTHREAD_EXPLICIT_SCHED);
	pthread_attr_setschedpolicy(&attributes, SCHED_RR);
	pthread_attr_setschedparam(&attributes, &parameter);
	error = pthread_attr_setaffinity_np(&attributes, sizeof(*processors), processors);
	if (!error)
		error = pthread_create(&boost.threads[which], &attributes, function, NULL);
	boost.made[which] = !error;
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
	sem_t *const semaphores[] = {&boost.lend, &boost.lent, &boost.guard, &boost.watching,
				     &boost.started};

	for (size_t i = 0; i < sizeof(semaphores) / sizeof(semaphores[0]); i++)
		if (sem_init(semaphores[i], 0, 0) < 0)
			return false;
	return true;
}

/* The one that this thread is on for the guard, and the next one for the watcher. */
static bool choose_processors(void)
{
	const int here = sched_getcpu();
	enum thread next = GUARD;

	if (here < 0 || sched_getaffinity(0, sizeof(boost.everywhere), &boost.everywhere) < 0)
		return false;
	memset(boost.processors, 0, sizeof(boost.processors));
	for (unsigned i = 0; i < CPU_SETSIZE && next < THREADS; i++) {
		const unsigned at = ((unsigned)here + i) % CPU_SETSIZE;

		if (!CPU_ISSET(at, &boost.everywhere))
			continue;
		CPU_SET(at, &boost.processors[LENDER]);
		CPU_SET(at, &boost.processors[next++]);
	}
	return next == THREADS;
}

static bool start_threads(void)
{
	const struct sigaction action = {.sa_handler = on_return, .sa_flags = SA_RESTART};
	const uint64_t until_ns = limpet_monotonic_ns() + RETURN_MOST_NS;
	sigset_t all, before;
	int error;

	memset(boost.tids, 0, sizeof(boost.tids));
	memset(boost.made, 0, sizeof(boost.made));
	pthread_mutex_init(&in_use, NULL);
	if (!choose_processors() || !kernel_can_lend() || !init_semaphores() ||
	    sigaction(RETURN_SIGNAL, &action, NULL) < 0)
		return false;
	/* Signals are for the other threads. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	error = start_thread(LENDER, lend, LIMPET_BOOST_PRIORITY);
	if (!error)
		error = start_thread(GUARD, guard, LIMPET_BOOST_ABOVE);
	if (!error)
		error = start_thread(WATCHER, watch, LIMPET_BOOST_ABOVE);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	boost.pid = getpid();
	for (unsigned i = 0; i < THREADS && !error; i++)
		error = !wait_until(&boost.started, until_ns);
	return !error;
}

static bool has_threads(void)
{
	for (unsigned i = 0; i < THREADS; i++)
		if (!boost.tids[i])
			return false;
	return true;
}

/* Whether all have it. */
static bool set_policy(int policy, int lender, int above)
{
	bool all = true;

	for (unsigned i = 0; i < THREADS; i++) {
		const struct sched_param parameter = {.sched_priority =
							      i == LENDER ? lender : above};
		const pid_t tid = __atomic_load_n(&boost.tids[i], __ATOMIC_RELAXED);

		all &= tid &&
		       sched_setscheduler(tid, policy | SCHED_RESET_ON_FORK, &parameter) == 0;
	}
	return all;
}

/* On the same processors: another cpuset, or a processor that has gone, may have parted them. */
static bool bring_together(void)
{
	if (!choose_processors())
		return false;
	for (unsigned i = 0; i < THREADS; i++)
		if (sched_setaffinity(boost.tids[i], sizeof(boost.processors[i]),
				      &boost.processors[i]) < 0)
			return false;
	return true;
}

static bool bind_lender(const cpu_set_t *processors)
{
	return sched_setaffinity(boost.tids[LENDER], sizeof(*processors), processors) == 0;
}

/* The threads are not those of a forked child. */
static bool is_ready(void)
{
	return __atomic_load_n(&boost.ready, __ATOMIC_ACQUIRE) && boost.pid == getpid();
}

static void set_ready(bool ready)
{
	__atomic_store_n(&boost.ready, ready, __ATOMIC_RELEASE);
}

/* Their own priority, and any processor: what never rests on theirs, with a higher one, would keep
 * them from ending, and limpet with them, even where it is killed. SCHED_RESET_ON_FORK stays: it
 * takes a right to clear it. */
static void release_threads(void)
{
	const struct sched_param none = {.sched_priority = 0};

	for (unsigned i = 0; i < THREADS; i++) {
		if (!boost.made[i])
			continue;
		pthread_setschedparam(boost.threads[i], SCHED_OTHER | SCHED_RESET_ON_FORK, &none);
		pthread_setaffinity_np(boost.threads[i], sizeof(boost.everywhere),
				       &boost.everywhere);
	}
}

/* Nothing is lent any more, and nobody waits for the threads. The watcher may be about to bind the
 * lender: it then releases the threads again. */
static void give_up(void)
{
	boost.failed = true;
	set_ready(false);
	release_threads();
}

/* False: the watcher has it, and has no processor. */
static bool lock_use(void)
{
	const struct timespec until = limpet_timespec(limpet_monotonic_ns() + USE_MOST_NS);

	if (pthread_mutex_clocklock(&in_use, CLOCK_MONOTONIC, &until) == 0)
		return true;
	give_up();
	return false;
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
	boost.failed = boost.pid == getpid() ? !has_threads() || !bring_together() ||
						       !set_policy(SCHED_RR, LIMPET_BOOST_PRIORITY,
								   LIMPET_BOOST_ABOVE)
					     : !start_threads();
	boost.lending = false;
	boost.allowed = 0;
	boost.spent_ns = 0;
	if (boost.failed) {
		give_up();
		return;
	}
	set_ready(true);
	limpet_memory_count_calls(&calls);
	sem_post(&boost.watching);
}

void limpet_boost_end(int nice)
{
	if (boost.pid != getpid() || !has_threads())
		return;
	limpet_memory_count_calls(NULL);
	/* From here on the watcher does nothing, and has done all that it began. */
	if (lock_use()) {
		if (boost.ready) {
			set_ready(false);
			release_threads();
			free(turns.siblings);
			memset(&turns, 0, sizeof(turns));
		}
		lower_raised();
		pthread_mutex_unlock(&in_use);
	}
	/* Also where it was in a raise within another one. */
	for (unsigned i = 0; i < THREADS; i++)
		setpriority(PRIO_PROCESS, (id_t)boost.tids[i], nice);
}

/* ------------------------------------------------------------------ lending */

/* The kernel adds up what a thread does with what is lent, over all times, and would end a program
 * with such a limit for it. */
static bool is_allowed(pid_t pid)
{
	struct rlimit limit;

	if (pid != boost.allowed && prlimit(pid, RLIMIT_RTTIME, NULL, &limit) == 0 &&
	    limit.rlim_cur == RLIM_INFINITY)
		boost.allowed = pid;
	return pid == boost.allowed;
}

/* To `tid` and its siblings, or where that is 0 to all of `pid`. */
static bool begin_lending(pid_t pid, pid_t tid, uint64_t now_ns)
{
	/* Where the guard is, which can interrupt its spinning at any time. */
	if (!bind_lender(&boost.processors[GUARD]))
		return false;
	if (turns.pid != pid)
		turns.listed_ns = 0;
	turns.pid = pid;
	turns.tid = tid;
	boost.since_ns = now_ns;
	boost.lending = true;
	boost.until_ns = now_ns + LEND_MOST_NS - boost.spent_ns;
	__atomic_store_n(&boost.over, false, __ATOMIC_SEQ_CST);
	sem_post(&boost.lend);
	/* It has begun, or will once this thread sleeps. From now on also where the watcher is. */
	bind_lender(&boost.processors[LENDER]);
	return true;
}

/* The lender may be in the middle of a look, or in the kernel, without regard to signals. */
static void end_lending(void)
{
	const uint64_t now_ns = limpet_monotonic_ns();

	__atomic_store_n(&boost.over, true, __ATOMIC_SEQ_CST);
	tgkill(boost.pid, boost.tids[LENDER], RETURN_SIGNAL);
	sem_post(&boost.guard);
	boost.lending = false;
	boost.spent_ns += now_ns - boost.since_ns;
	boost.spent_in_all_ns += now_ns - boost.since_ns;
	boost.refilled_ns = now_ns;
	if (wait_until(&boost.lent, now_ns + RETURN_MOST_NS))
		return;
	/* Whatever holds it up: it gets nothing to do again. */
	give_up();
}

static bool may_lend(pid_t pid, uint64_t now_ns)
{
	return is_ready() && !boost.lending && is_allowed(pid) && has_something_to_lend(now_ns);
}

bool limpet_boost_lend(pid_t pid, pid_t tid, uint64_t waited_ns, uint64_t *ret_sleep_ns)
{
	uint64_t now_ns;
	bool lends = false;

	*ret_sleep_ns = UINT64_MAX;
	if (!is_ready() || !lock_use())
		return false;
	now_ns = limpet_monotonic_ns();
	if (waited_ns >= UNLENT_NS)
		boost.busy_until_ns = now_ns + BUSY_NS;
	if (now_ns >= boost.busy_until_ns)
		*ret_sleep_ns = UNLENT_NS - waited_ns;
	else
		lends = may_lend(pid, now_ns) && begin_lending(pid, tid, now_ns);
	if (lends)
		*ret_sleep_ns = AWAIT_NS;
	pthread_mutex_unlock(&in_use);
	return lends;
}

void limpet_boost_return(void)
{
	if (!is_ready() || !lock_use())
		return;
	if (boost.lending)
		end_lending();
	pthread_mutex_unlock(&in_use);
}

/* ------------------------------------------------------------------ while limpet waits in the
 * kernel */

static bool is_still_there(uint64_t number)
{
	return __atomic_load_n(&calls.number, __ATOMIC_ACQUIRE) == number;
}

/* Until the call with this number is over, or nothing is left to lend. */
static void lend_for_call(uint64_t number)
{
	const pid_t pid = __atomic_load_n(&calls.pid, __ATOMIC_RELAXED);
	const struct timespec watching = limpet_timespec(WATCH_TURN_NS);
	uint64_t now_ns;

	pthread_mutex_lock(&in_use);
	now_ns = limpet_monotonic_ns();
	if (is_still_there(number) && may_lend(pid, now_ns) && begin_lending(pid, 0, now_ns)) {
		while (is_still_there(number) && limpet_monotonic_ns() < boost.until_ns)
			nanosleep(&watching, NULL);
		end_lending();
	}
	/* Nobody waited for this. */
	if (!is_ready()) {
		release_threads();
		lower_raised();
	}
	pthread_mutex_unlock(&in_use);
}

/* Not where it copies, for as long as that may take. */
static bool waits_in_kernel(void)
{
	const char state = state_of(boost.pid, calls.tid);

	return state == 'D' || state == 'S';
}

static void *watch(void *unused)
{
	const struct timespec pause = limpet_timespec(WATCH_NS);

	begin_thread(WATCHER, "limpet-watcher");
	for (;;) {
		uint64_t before = 0;

		wait_for(&boost.watching);
		while (is_ready()) {
			const uint64_t number = __atomic_load_n(&calls.number, __ATOMIC_ACQUIRE);

			if (number & 1 && number == before && waits_in_kernel())
				lend_for_call(number);
			before = number;
			nanosleep(&pause, NULL);
		}
	}
	return unused;
}
