#include "injector/ptrace/tracee.h"

#include <elf.h>
#include <errno.h>
#include <linux/futex.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "common/clock.h"
#include "injector/proc/cgroup.h"
#include "injector/proc/memory.h"
#include "injector/proc/proc.h"
#include "injector/ptrace/arch.h"
#include "injector/ptrace/awake.h"
#include "injector/ptrace/boost.h"
#include "injector/ptrace/sigchld.h"
#include "injector/ptrace/step.h"
#include "injector/ptrace/tick.h"
#include "injector/ptrace/timed_wait.h"
#include "injector/ptrace/watchdog.h"

#define ERESTARTNOINTR 513 /* include/linux/errno.h; no program sees it */

#define XSTATE_MAX 65536u
#define RED_ZONE 128u
#define SPARE_BYTES 512u
/* The first remote calls use only the thread's own stack, below the frame by which it resumes: this
 * is what is left of the room that safepoint.c asks for below its stack pointer. */
#define STACK_NEEDED 16384u
/* Of a maker: the frame by which it ends. */
#define MAKER_BYTES 1024u

/* A thread that is on another processor usually stops within that time. While we sleep for it, the
 * target stands. */
#define SPIN_NS 30000u
/* Longer waits sleep by a time-out of their own: a tick would wake us in vain. */
#define TICKS_MOST_NS 1000000u

/* A thread that has not stopped for that long may be frozen; then it is looked at again. */
#define FROZEN_AFTER_NS 50000000u
#define FROZEN_LOOK_NS 100000000u

enum stop_kind { STOP_EVENT, STOP_SYSCALL, STOP_SIGNAL, STOP_OTHER };

struct limpet_tracee {
	struct limpet_tracee *next, **link; /* list of all tracees */
	pid_t pid, tid;
	bool hijacked, moved; /* moved: the registers were changed */
	bool at_syscall;      /* in a syscall-exit stop rather than an event stop */
	bool at_entry;        /* in a syscall-entry stop: the call has not been made yet */
	bool running;
	bool group_stop;
	bool looked, is_here;         /* on our own processor: it runs while we sleep */
	bool crowded;                 /* others want that processor, too */
	struct user_regs_struct regs; /* the thread's own */
	uint8_t *xstate;
	size_t xstate_bytes;
	uint64_t signal_mask;
	uint64_t stopped_since_ns; /* 0: adopted, and nobody waits for it yet */
	uint64_t run_ns;           /* run_time(), if this stop continues the last one; else 0 */
	uint64_t home, frame, spare;
	struct limpet_tracee_gadgets gadgets;
	struct limpet_timed_wait wait; /* from before the stop */
};

static uint64_t longest_stop_ns;
static struct limpet_tracee *tracees;
static bool many;                                /* limpet_tracee_many */
static uint64_t frozen_deadline_ns = UINT64_MAX; /* limpet_tracee_bound_frozen */
static uint64_t frozen_seen_ns;                  /* when a target was last seen frozen */

/* What a thread may spend on its way out of a stop and into the next one, in the kernel alone. */
#define STOP_COST_NS 100000u
#define UNKNOWN_NS UINT64_MAX

/* The thread that was released last: if it is outside of system calls, has the same registers again
 * and has hardly been on a processor, it did not run in between. */
static struct {
	pid_t tid;
	uint64_t stopped_since_ns, run_ns;
	struct user_regs_struct regs;
} last_stop;

/* A program that limpet itself started. Its end is not reaped here: another caller waits for the
 * exit status. */
static pid_t own_child;

/* The word that the handler of SIGCHLD tells of a stop; NULL: nobody sleeps on one. */
static uint32_t *woken;

static void on_stop(int number)
{
	uint32_t none = 0;

	(void)number;
	if (!woken)
		return;
	__atomic_compare_exchange_n(woken, &none, LIMPET_TRACEE_STOPPED, false, __ATOMIC_ACQ_REL,
				    __ATOMIC_RELAXED);
}

int limpet_tracee_setup(void)
{
	const struct sigaction action = {.sa_handler = on_stop};
	const sigset_t child = limpet_sigchld_set();

	/* SIGCHLD must be blocked to stay pending: wait_stop() sleeps on it. An inherited SIG_IGN
	 * would discard it, and so the news of stops. */
	if (sigaction(SIGCHLD, &action, NULL) < 0 || sigprocmask(SIG_BLOCK, &child, NULL) < 0)
		return -errno;
	limpet_sigreturn_frame_prepare();
	return 0;
}

static long trace(int request, pid_t tid, void *address, void *data)
{
	const struct limpet_step step = limpet_step_begin(LIMPET_STEP_PTRACE, tid, request);
	const long answer = ptrace((enum __ptrace_request)request, tid, address, data);

	limpet_step_end(&step, answer < 0 ? -errno : 0);
	return answer;
}

/* waitpid() without waiting. The end of our own child is not reaped. */
static pid_t look(pid_t tid, int *ret_status)
{
	siginfo_t info = {.si_pid = 0};

	if (tid != own_child)
		return waitpid(tid, ret_status, __WALL | WNOHANG);
	*ret_status = 0; /* like that of an ended thread */
	if (waitid(P_PID, (id_t)tid, &info, WEXITED | WSTOPPED | WNOWAIT | WNOHANG | __WALL) < 0)
		return -1;
	if (!info.si_pid || (info.si_code != CLD_TRAPPED && info.si_code != CLD_STOPPED))
		return info.si_pid;
	info.si_pid = 0;
	if (waitid(P_PID, (id_t)tid, &info, WSTOPPED | WNOHANG | __WALL) < 0)
		return -1;
	*ret_status = info.si_status << 8 | 0x7f; /* W_STOPCODE */
	return info.si_pid;
}

static bool is_on_our_processor(const struct limpet_tracee *tracee)
{
	uint64_t fields[LIMPET_STAT_FIELDS];

	return limpet_proc_stat_read(tracee->pid, tracee->tid, fields) >=
		       (int)LIMPET_STAT_PROCESSOR &&
	       fields[LIMPET_STAT_PROCESSOR] == (uint64_t)sched_getcpu();
}

/* A stop that was seen without sleeping leaves its SIGCHLD pending. Taking it here saves a useless
 * sleep, and lending for it. */
static bool is_signal_left(void)
{
	const struct timespec none = {0, 0};
	const sigset_t child = limpet_sigchld_set();

	return sigtimedwait(&child, NULL, &none) > 0;
}

/* Alone on our processor it runs as soon as we sleep. To lend would take twenty times as long.
 * Returns whether this has slept. */
static bool sleep_here(struct limpet_tracee *tracee)
{
	const uint64_t began_ns = limpet_monotonic_ns();
	enum limpet_tick tick;

	if (!tracee->is_here || tracee->crowded)
		return false;
	tick = limpet_tick_sleep();
	/* A tick may come soon after the sleep began. */
	if (tick == LIMPET_TICK_TICK && limpet_monotonic_ns() - began_ns >= LIMPET_TICK_NS / 2) {
		tracee->is_here = is_on_our_processor(tracee);
		tracee->crowded = tracee->is_here;
	}
	return tick != LIMPET_TICK_NONE;
}

/* Sleeps until something has happened to a tracee, or it is time to look at it. */
static void sleep_until_stop(struct limpet_tracee *tracee, uint64_t waited_ns, uint64_t left_ns)
{
	/* One SIGCHLD may stand for stops of several threads: look again at least every 10 ms. */
	struct timespec left = {0, 10000000};
	const sigset_t child = limpet_sigchld_set();
	uint64_t turn_ns;

	if (is_signal_left() || (left_ns >= LIMPET_TICK_NS && sleep_here(tracee)))
		return;
	if (!limpet_boost_lend(tracee->pid, tracee->tid, waited_ns, &turn_ns) &&
	    waited_ns < TICKS_MOST_NS && turn_ns >= LIMPET_TICK_NS && left_ns >= LIMPET_TICK_NS &&
	    limpet_tick_sleep() != LIMPET_TICK_NONE)
		return;
	if (turn_ns > left_ns)
		turn_ns = left_ns;
	if ((uint64_t)left.tv_nsec > turn_ns)
		left.tv_nsec = (long)turn_ns;
	sigtimedwait(&child, NULL, &left);
	limpet_boost_take_back();
}

void limpet_tracee_bound_frozen(uint64_t deadline_ns)
{
	frozen_deadline_ns = deadline_ns;
}

bool limpet_tracee_look_frozen(const struct limpet_tracee *tracee)
{
	struct limpet_cgroup group;
	const bool frozen = limpet_cgroup_frozen(tracee->pid, &group);

	if (frozen)
		frozen_seen_ns = limpet_monotonic_ns();
	return frozen;
}

/* Waits for the next stop. Returns -ESRCH if the thread is gone. */
static int await_stop(struct limpet_tracee *tracee, uint64_t deadline_ns, enum stop_kind *ret_kind,
		      int *ret_signal)
{
	const uint64_t began_ns = limpet_monotonic_ns();
	uint64_t frozen_look_ns = began_ns + FROZEN_AFTER_NS;

	limpet_awake_look(began_ns);
	for (;;) {
		int status;
		pid_t got = look(tracee->tid, &status);
		uint64_t now;

		if (got < 0 && errno != EINTR)
			return errno == ECHILD ? -ESRCH : -errno;
		if (got == tracee->tid) {
			int signal_number;

			if (!WIFSTOPPED(status))
				return -ESRCH;
			signal_number = WSTOPSIG(status);
			*ret_signal = signal_number & 0x7f;
			if (status >> 16 == PTRACE_EVENT_STOP) {
				tracee->group_stop = signal_number != SIGTRAP;
				*ret_kind = STOP_EVENT;
			} else if (signal_number == (SIGTRAP | 0x80)) {
				*ret_kind = STOP_SYSCALL;
			} else if (status >> 16) {
				*ret_kind = STOP_OTHER;
			} else {
				*ret_kind = STOP_SIGNAL;
			}
			tracee->running = false;
			return 0;
		}
		now = limpet_monotonic_ns();
		if (now >= frozen_look_ns) {
			if (limpet_tracee_look_frozen(tracee) && frozen_deadline_ns < deadline_ns)
				deadline_ns = frozen_deadline_ns;
			frozen_look_ns = now + FROZEN_LOOK_NS;
		}
		if (now >= deadline_ns)
			return -ETIMEDOUT;
		if (!tracee->is_here && now - began_ns < SPIN_NS) {
			sched_yield();
			continue;
		}
		/* Once in a stop: a look takes as long as an answer. */
		if (!tracee->looked)
			tracee->is_here = is_on_our_processor(tracee);
		tracee->looked = true;
		limpet_awake_look(now);
		sleep_until_stop(tracee, now - began_ns, deadline_ns - now);
		/* One that has stopped by now may hold what this one waits for. */
		limpet_tracee_release_strays();
	}
}

static int wait_stop(struct limpet_tracee *tracee, uint64_t deadline_ns, enum stop_kind *ret_kind,
		     int *ret_signal)
{
	const struct limpet_step step = limpet_step_begin(LIMPET_STEP_WAIT, tracee->tid, 0);

	return limpet_step_end(&step, await_stop(tracee, deadline_ns, ret_kind, ret_signal));
}

/* Continues to the event stop that PTRACE_INTERRUPT asked for. Signals that come first are
 * delivered. */
static int wait_event(struct limpet_tracee *tracee, uint64_t deadline_ns)
{
	for (;;) {
		enum stop_kind kind = STOP_OTHER;
		int signal_number = 0,
		    error = wait_stop(tracee, deadline_ns, &kind, &signal_number);

		if (error)
			return error;
		if (kind == STOP_EVENT)
			return 0;
		tracee->running = true;
		if (trace(PTRACE_CONT, tracee->tid, NULL,
			  (void *)(intptr_t)(kind == STOP_SIGNAL ? signal_number : 0)) < 0)
			return -errno;
	}
}

/* Not by PTRACE_GETREGSET: of a thread in 32-bit code that gives other registers. */
static int read_registers(struct limpet_tracee *tracee)
{
	return trace(PTRACE_GETREGS, tracee->tid, NULL, &tracee->regs) < 0 ? -errno : 0;
}

static int write_registers(const struct limpet_tracee *tracee, struct user_regs_struct *regs)
{
	struct iovec vector = {regs, sizeof(*regs)};

	if (trace(PTRACE_SETREGSET, tracee->tid, (void *)NT_PRSTATUS, &vector) < 0)
		return -errno;
	return 0;
}

/* In an event stop, with the registers read: a call that has ended with EINTR for no other reason
 * than our stop is made again. Written at once: if we die, the program does not see it either. In a
 * group stop the program sees EINTR without us, too. */
static int mend(struct limpet_tracee *tracee)
{
	if (tracee->group_stop ||
	    !limpet_interrupted_again(tracee->pid, tracee->tid, &tracee->wait, &tracee->regs))
		return 0;
	return write_registers(tracee, &tracee->regs);
}

/* Time has gone by since. */
static int mend_limit(struct limpet_tracee *tracee)
{
	if (!tracee->wait.shortened || !limpet_interrupted_shorten(&tracee->wait, &tracee->regs))
		return 0;
	return tracee->hijacked ? 0 : write_registers(tracee, &tracee->regs);
}

/* Strays: threads that were interrupted and did not stop in time (D state). Only a stopped thread
 * can be detached, so they stay traced until they leave their system call; the next look detaches
 * them. */
#define MAX_STRAYS 4096u
#define STRAY_WAIT_NS 2000000u
static struct {
	pid_t pid, tid;
	uint64_t unstopped_ns;    /* when it was last seen running */
	struct limpet_rest *rest; /* it is not held, but makes the rest of its call */
} strays[MAX_STRAYS];
static size_t stray_count;
static bool at_rest; /* limpet_tracee_rest */

bool limpet_tracee_holds(void)
{
	return tracees || stray_count;
}

/* While limpet is stopped, traced threads stand: at once, or when they leave their system call. */
static void note_held(void)
{
	bool held = limpet_tracee_holds();

	limpet_watchdog_hold(held);
	if (!held) {
		limpet_tick_end();
		limpet_step_released();
	}
	if (at_rest && !held) {
		limpet_watchdog_end();
		limpet_watchdog_bury(false);
	}
}

void limpet_tracee_rest(void)
{
	at_rest = true;
	note_held();
}

static void stray_add(pid_t pid, pid_t tid, struct limpet_rest *rest)
{
	if (stray_count == MAX_STRAYS)
		return;
	strays[stray_count].pid = pid;
	strays[stray_count].tid = tid;
	strays[stray_count].rest = rest;
	strays[stray_count++].unstopped_ns = limpet_monotonic_ns();
	note_held();
}

/* It was asked to stop, and now has. What that did to its call is undone; true: it goes on as a
 * stray, with the rest of the call. From a handler of signals, too. */
static bool mend_stray(size_t i)
{
	struct user_regs_struct regs;

	if (ptrace(PTRACE_GETREGS, strays[i].tid, NULL, &regs) < 0)
		return false;
	strays[i].rest = limpet_rest_new(strays[i].pid, strays[i].tid, &regs);
	if (strays[i].rest && limpet_rest_start(strays[i].rest) == 0)
		return true;
	limpet_interrupted_mend(strays[i].tid, NULL);
	return false;
}

/* Whether stray `i` stays one, after what waitpid(2) has said of it. */
static bool stays_stray(size_t i, bool stopped, int status)
{
	const pid_t tid = strays[i].tid;
	int signal_number = 0;

	if (strays[i].rest) {
		if (stopped)
			return limpet_rest_stopped(strays[i].rest, status);
		limpet_rest_free(strays[i].rest);
	}
	if (!stopped)
		return false;
	/* A signal that came first is delivered; the stop that we asked for is not. */
	if (!(status >> 16) && WSTOPSIG(status) != (SIGTRAP | 0x80))
		signal_number = WSTOPSIG(status);
	if (status >> 16 == PTRACE_EVENT_STOP && WSTOPSIG(status) == SIGTRAP && mend_stray(i))
		return true;
	if (ptrace(PTRACE_DETACH, tid, NULL, (void *)(intptr_t)signal_number) == 0)
		limpet_tracee_note_stop_ns(limpet_monotonic_ns() - strays[i].unstopped_ns);
	return false;
}

void limpet_tracee_release_strays(void)
{
	for (size_t i = 0; i < stray_count;) {
		int status;
		pid_t tid = strays[i].tid, got = look(tid, &status);

		if (got == 0) {
			if (strays[i].rest)
				limpet_rest_bound(strays[i].rest);
			strays[i++].unstopped_ns = limpet_monotonic_ns();
		} else if (stays_stray(i, got == tid && WIFSTOPPED(status), status)) {
			i++;
		} else {
			strays[i] = strays[--stray_count];
		}
	}
	note_held();
}

uint64_t limpet_tracee_bound_sleep_ns(uint64_t wait_ns)
{
	return stray_count && wait_ns > STRAY_WAIT_NS ? STRAY_WAIT_NS : wait_ns;
}

size_t limpet_tracee_strays(void)
{
	return stray_count;
}

static int tracee_new(pid_t pid, pid_t tid, struct limpet_tracee **ret)
{
	struct limpet_tracee *tracee = calloc(1, sizeof(*tracee));

	if (!tracee)
		return -ENOMEM;
	tracee->pid = pid;
	tracee->tid = tid;
	tracee->link = &tracees;
	tracee->next = tracees;
	if (tracees)
		tracees->link = &tracee->next;
	tracees = tracee;
	at_rest = false;
	limpet_watchdog_begin();
	note_held();
	*ret = tracee;
	return 0;
}

static void tracee_free(struct limpet_tracee *tracee)
{
	*tracee->link = tracee->next;
	if (tracee->next)
		tracee->next->link = tracee->link;
	free(tracee->xstate);
	free(tracee);
	note_held();
}

/* The kernel refuses to trace an ended thread, or one of this process, with the same errno as a
 * stranger's. */
static bool is_none(pid_t tid)
{
	struct limpet_proc_status status;
	int error = limpet_proc_status_read(tid, &status);

	return error ? limpet_proc_says_gone(error)
		     : status.state == 'Z' || status.state == 'X' || status.kernel_thread;
}

static bool is_stray(pid_t tid)
{
	for (size_t i = 0; i < stray_count; i++)
		if (strays[i].tid == tid)
			return true;
	return false;
}

/* A thread that executes another program stays traced, and takes the pid of the process as its tid.
 */
static void follow_exec(pid_t pid, pid_t tid)
{
	struct limpet_proc_status status;

	if (tid != pid && !is_stray(pid) && limpet_proc_status_read(pid, &status) == 0 &&
	    status.tracer == getpid())
		stray_add(pid, pid, NULL);
}

/* Reaps tracees that have ended; keeps their stops to be seen. A wait for a tracee consumes its
 * stops, whatever it asks for, unless it only looks (WNOWAIT). */
static void reap_held(void)
{
	for (const struct limpet_tracee *tracee = tracees; tracee; tracee = tracee->next) {
		siginfo_t info = {.si_pid = 0};

		if (tracee->tid == own_child || waitid(P_PID, (id_t)tracee->tid, &info,
						       WEXITED | WNOHANG | WNOWAIT | __WALL) < 0)
			continue;
		if (info.si_pid && info.si_code != CLD_TRAPPED && info.si_code != CLD_STOPPED)
			waitid(P_PID, (id_t)tracee->tid, &info, WEXITED | WNOHANG | __WALL);
	}
}

/* Runs only while a thread is being seized, and in what takes long (limpet_tracee_begin_long). */
static void on_child(int number)
{
	int kept = errno;

	(void)number;
	limpet_tracee_release_strays();
	if (many)
		reap_held();
	errno = kept;
}

static struct sigaction kept_action;

static void watch_children(bool begin, int flags)
{
	const struct sigaction action = {.sa_handler = on_child, .sa_flags = flags};

	sigaction(SIGCHLD, begin ? &action : &kept_action, begin ? &kept_action : NULL);
}

static void watch_ends(bool begin)
{
	watch_children(begin, SA_NOCLDSTOP);
}

bool limpet_tracee_begin_long(void)
{
	const sigset_t child = limpet_sigchld_set();

	limpet_tracee_release_strays();
	if (!stray_count)
		return false;
	watch_children(true, SA_RESTART);
	pthread_sigmask(SIG_UNBLOCK, &child, NULL);
	return true;
}

void limpet_tracee_end_long(bool begun)
{
	const sigset_t child = limpet_sigchld_set();

	if (!begun)
		return;
	pthread_sigmask(SIG_BLOCK, &child, NULL);
	watch_children(false, 0);
	limpet_tracee_release_strays();
}

void limpet_tracee_many(bool begin)
{
	many = begin;
	watch_ends(begin);
}

/* An exec holds a lock that this call waits for, and waits itself for all other threads to end: a
 * tracee among them ends only when we have reaped it. SIGCHLD interrupts the wait, the handler
 * reaps, and the call is restarted. No other code of ours runs meanwhile. */
static long seize(pid_t tid)
{
	const sigset_t child = limpet_sigchld_set();
	sigset_t kept_mask;
	long answer;
	int error;

	if (!stray_count && !many)
		return trace(PTRACE_SEIZE, tid, NULL, (void *)PTRACE_O_TRACESYSGOOD);
	if (!many)
		watch_ends(true);
	/* The SIGCHLD of a thread that ended since the last look is pending, and is delivered now.
	 */
	pthread_sigmask(SIG_UNBLOCK, &child, &kept_mask);
	answer = trace(PTRACE_SEIZE, tid, NULL, (void *)PTRACE_O_TRACESYSGOOD);
	error = errno;
	pthread_sigmask(SIG_SETMASK, &kept_mask, NULL);
	if (!many)
		watch_ends(false);
	errno = error;
	return answer;
}

int limpet_tracee_ask(pid_t pid, pid_t tid, const struct limpet_timed_wait *wait,
		      struct limpet_tracee **ret)
{
	struct limpet_tracee *tracee;
	int error;

	limpet_tracee_release_strays();
	/* Without an entry in the list it would stay stopped until limpet ends. */
	if (is_stray(tid) || stray_count == MAX_STRAYS)
		return -ETIMEDOUT;
	error = tracee_new(pid, tid, &tracee);
	if (error)
		return error;
	if (wait)
		tracee->wait = *wait;
	if (seize(tid) < 0) {
		error = -errno;
		if (error == -EPERM && is_none(tid))
			error = -ESRCH;
		tracee_free(tracee);
		return error ? error : -EIO;
	}
	tracee->running = true;
	tracee->stopped_since_ns = limpet_monotonic_ns();
	if (trace(PTRACE_INTERRUPT, tid, NULL, NULL) < 0) {
		error = -errno;
		if (error == -ESRCH)
			follow_exec(pid, tid);
		limpet_tracee_release(tracee);
		return error ? error : -EIO;
	}
	*ret = tracee;
	return 0;
}

/* 0 if it is unknown. */
static uint64_t run_time(const struct limpet_tracee *tracee)
{
	uint64_t run_ns;

	return limpet_proc_run_time(tracee->pid, tracee->tid, &run_ns) < 0 ? 0 : run_ns;
}

/* Inside a system call that the kernel will restart or end with EINTR. */
static bool is_in_syscall(const struct limpet_tracee *tracee)
{
	return (int64_t)tracee->regs.orig_rax >= 0;
}

/* A thread in a short loop often has the same registers again. *ret_run_ns: its time on a
 * processor, if so. */
static bool is_as_released(const struct limpet_tracee *tracee, uint64_t *ret_run_ns)
{
	uint64_t run_ns;

	if (tracee->tid != last_stop.tid || tracee->group_stop || is_in_syscall(tracee) ||
	    last_stop.run_ns == UNKNOWN_NS ||
	    memcmp(&tracee->regs, &last_stop.regs, sizeof(tracee->regs)))
		return false;
	run_ns = run_time(tracee);
	if (run_ns - last_stop.run_ns >= STOP_COST_NS)
		return false;
	*ret_run_ns = run_ns;
	return true;
}

int limpet_tracee_await(struct limpet_tracee *tracee, uint64_t deadline_ns)
{
	int error = wait_event(tracee, deadline_ns);

	if (!error)
		error = read_registers(tracee);
	if (!error)
		error = mend(tracee);
	if (error == -ESRCH)
		follow_exec(tracee->pid, tracee->tid);
	if (error) {
		limpet_tracee_release(tracee);
		return error;
	}
	if (is_as_released(tracee, &tracee->run_ns))
		tracee->stopped_since_ns = last_stop.stopped_since_ns;
	return 0;
}

int limpet_tracee_stop(pid_t pid, pid_t tid, uint64_t deadline_ns, struct limpet_tracee **ret)
{
	const uint64_t began_ns = limpet_monotonic_ns();
	struct limpet_timed_wait wait;
	struct limpet_tracee *tracee;
	int error;

	/* No part of the patience: a thread that sleeps and wakes all the time is hard to read. */
	limpet_timed_wait_look(pid, tid, &wait);
	deadline_ns += limpet_monotonic_ns() - began_ns;
	error = limpet_tracee_ask(pid, tid, &wait, &tracee);

	if (!error)
		error = limpet_tracee_await(tracee, deadline_ns);
	if (!error)
		*ret = tracee;
	return error;
}

int limpet_tracee_adopt(pid_t pid, pid_t tid, struct limpet_tracee **ret)
{
	struct limpet_tracee *tracee;
	int error = tracee_new(pid, tid, &tracee);

	if (error)
		return error;
	own_child = pid;
	error = read_registers(tracee);
	if (error) {
		tracee_free(tracee);
		return error;
	}
	*ret = tracee;
	return 0;
}

pid_t limpet_tracee_tid(const struct limpet_tracee *tracee)
{
	return tracee->tid;
}

const struct user_regs_struct *limpet_tracee_regs(const struct limpet_tracee *tracee)
{
	return &tracee->regs;
}

int limpet_tracee_move(struct limpet_tracee *tracee, uint64_t pc)
{
	struct user_regs_struct regs = tracee->regs;
	int error;

	if (tracee->hijacked || is_in_syscall(tracee))
		return -EBUSY;
	regs.rip = pc;
	error = write_registers(tracee, &regs);
	if (!error)
		tracee->regs = regs;
	return error;
}

uint64_t limpet_tracee_take_longest_stop_ns(void)
{
	uint64_t longest_ns = longest_stop_ns;

	longest_stop_ns = 0;
	last_stop.tid = 0;
	return longest_ns;
}

void limpet_tracee_note_stop_ns(uint64_t stop_ns)
{
	if (stop_ns > longest_stop_ns)
		longest_stop_ns = stop_ns;
}

/* struct rseq_cs, from the kernel's user interface */
struct critical_section {
	uint32_t version, flags;
	uint64_t start, length, abort;
};

#define GET_RSEQ_CONFIGURATION 0x420f /* Linux 5.13 */

bool limpet_tracee_in_rseq(const struct limpet_tracee *tracee)
{
	/* struct ptrace_rseq_configuration */
	struct {
		uint64_t pointer;
		uint32_t bytes, signature, flags, unused;
	} rseq;
	struct critical_section section;
	const uint64_t section_offset = 8; /* of rseq_cs in struct rseq */
	uint64_t pointer;

	/* No section has a system call in it. Elsewhere, what cannot be read may be one. */
	if (ptrace((enum __ptrace_request)GET_RSEQ_CONFIGURATION, tracee->tid, (void *)sizeof(rseq),
		   &rseq) != sizeof(rseq))
		return (int64_t)tracee->regs.orig_rax < 0;
	if (!rseq.pointer)
		return false;
	if (limpet_memory_read(tracee->pid, rseq.pointer + section_offset, &pointer,
			       sizeof(pointer)) < 0)
		return true;
	if (!pointer)
		return false;
	if (limpet_memory_read(tracee->pid, pointer, &section, sizeof(section)) < 0)
		return true;
	return tracee->regs.rip - section.start < section.length;
}

#ifndef PTRACE_GET_SYSCALL_USER_DISPATCH_CONFIG /* Linux 6.4 */
#define PTRACE_GET_SYSCALL_USER_DISPATCH_CONFIG 0x4211
#endif

bool limpet_tracee_runs_32_bit(const struct limpet_tracee *tracee)
{
	return tracee->regs.cs != LIMPET_ARCH_USER_CODE &&
	       tracee->regs.cs != LIMPET_ARCH_USER_CODE_XEN;
}

bool limpet_tracee_dispatches(const struct limpet_tracee *tracee)
{
	/* struct ptrace_sud_config */
	struct {
		uint64_t mode, selector, offset, length;
	} config = {0};

	/* Mode 0 is PR_SYS_DISPATCH_OFF; in any other, calls may be dispatched. */
	return ptrace((enum __ptrace_request)PTRACE_GET_SYSCALL_USER_DISPATCH_CONFIG, tracee->tid,
		      (void *)sizeof(config), &config) == 0 &&
	       config.mode;
}

bool limpet_tracee_find_gadgets(const uint8_t *code, size_t bytes, uint64_t address,
				struct limpet_tracee_gadgets *gadgets)
{
	for (size_t i = 0; i + 3 <= bytes && !(gadgets->syscall && gadgets->restorer); i++) {
		if (!gadgets->syscall &&
		    !memcmp(code + i, LIMPET_ARCH_SYSCALL_RET, sizeof(LIMPET_ARCH_SYSCALL_RET) - 1))
			gadgets->syscall = address + i;
		if (!gadgets->pop_rax &&
		    !memcmp(code + i, LIMPET_ARCH_POP_RAX_RET, sizeof(LIMPET_ARCH_POP_RAX_RET) - 1))
			gadgets->pop_rax = address + i;
		if (gadgets->restorer)
			continue;
		if (i + 9 <= bytes && !memcmp(code + i, LIMPET_ARCH_RESTORER_LONG,
					      sizeof(LIMPET_ARCH_RESTORER_LONG) - 1))
			gadgets->restorer = address + i;
		else if (i + 7 <= bytes && !memcmp(code + i, LIMPET_ARCH_RESTORER_SHORT,
						   sizeof(LIMPET_ARCH_RESTORER_SHORT) - 1))
			gadgets->restorer = address + i;
	}
	return gadgets->syscall && (gadgets->restorer || gadgets->pop_rax);
}

static uint64_t way_home(const struct limpet_tracee_gadgets *gadgets)
{
	return gadgets->restorer ?: gadgets->pop_rax;
}

static int read_extended_state(struct limpet_tracee *tracee)
{
	struct iovec vector;

	tracee->xstate = malloc(XSTATE_MAX);
	if (!tracee->xstate)
		return -ENOMEM;
	vector = (struct iovec){tracee->xstate, XSTATE_MAX};
	if (trace(PTRACE_GETREGSET, tracee->tid, (void *)NT_X86_XSTATE, &vector) < 0)
		return -errno;
	tracee->xstate_bytes = vector.iov_len;
	return 0;
}

static int head_home(struct limpet_tracee *tracee)
{
	struct user_regs_struct regs = tracee->regs;
	int error;

	regs.orig_rax = ~0ull;
	regs.rip = way_home(&tracee->gadgets);
	regs.rsp = tracee->home + sizeof(uint64_t);
	regs.eflags &= ~(uint64_t)LIMPET_ARCH_FLAGS_CLEAR;
	error = write_registers(tracee, &regs);
	if (!error)
		tracee->hijacked = tracee->moved = true;
	return error;
}

/* False after an exec: the addresses belong to the program that was there when they were looked up.
 */
static bool gadgets_are_there(pid_t pid, const struct limpet_tracee_gadgets *gadgets)
{
	struct limpet_tracee_gadgets found = {.syscall = 0};
	uint8_t code[sizeof(LIMPET_ARCH_RESTORER_LONG) - 1];
	ssize_t bytes = limpet_memory_read_some(pid, gadgets->syscall, code, sizeof(code));

	if (bytes > 0)
		limpet_tracee_find_gadgets(code, (size_t)bytes, gadgets->syscall, &found);
	bytes = limpet_memory_read_some(pid, way_home(gadgets), code, sizeof(code));
	found.restorer = found.pop_rax = 0;
	if (found.syscall && bytes > 0)
		limpet_tracee_find_gadgets(code, (size_t)bytes, way_home(gadgets), &found);
	return found.syscall == gadgets->syscall &&
	       (gadgets->restorer ? found.restorer == gadgets->restorer
				  : found.pop_rax == gadgets->pop_rax);
}

int limpet_tracee_touch(const struct limpet_tracee *tracee, uint64_t address)
{
	errno = 0;
	trace(PTRACE_PEEKDATA, tracee->tid, (void *)(uintptr_t)address, NULL);
	return -errno;
}

int limpet_tracee_hijack(struct limpet_tracee *tracee, const struct limpet_tracee_gadgets *gadgets,
			 uint64_t stack_low)
{
	uint64_t all = ~0ull, top = tracee->regs.rsp - RED_ZONE;
	LIMPET_FREE uint8_t *image = NULL;
	struct limpet_sigreturn_state state;
	struct limpet_sigreturn_frame frame;
	struct limpet_step step;
	int error;

	if (top < stack_low || top - stack_low < STACK_NEEDED)
		return -ENOSPC;
	if (!gadgets_are_there(tracee->pid, gadgets))
		return -ESTALE;
	if (!tracee->stopped_since_ns)
		tracee->stopped_since_ns = limpet_monotonic_ns();
	if (trace(PTRACE_GETSIGMASK, tracee->tid, (void *)sizeof(tracee->signal_mask),
		  &tracee->signal_mask) < 0)
		return -errno;
	error = read_extended_state(tracee);
	if (error)
		return error;
	if (limpet_xstate_denies_key_0(tracee->xstate, tracee->xstate_bytes,
				       limpet_xstate_pkru_offset()))
		return -EACCES;
	state = (struct limpet_sigreturn_state){&tracee->regs, tracee->xstate, tracee->xstate_bytes,
						tracee->signal_mask};
	error = limpet_sigreturn_frame_build(&state, gadgets->restorer ?: gadgets->syscall, top,
					     &frame);
	if (error)
		return error;
	image = frame.image;
	tracee->home = frame.address;
	step = limpet_step_begin(LIMPET_STEP_WRITE_WAY_HOME, tracee->tid, 0);
	error = limpet_memory_write(tracee->pid, tracee->home, image, frame.bytes);
	limpet_step_end(&step, error);
	tracee->frame = tracee->home;
	if (!error && !gadgets->restorer) {
		const uint64_t words[] = {gadgets->pop_rax, SYS_rt_sigreturn};

		tracee->home -= sizeof(words);
		error = limpet_memory_write(tracee->pid, tracee->home, words, sizeof(words));
	}
	if (error)
		return error;
	tracee->spare = tracee->home - SPARE_BYTES;
	tracee->gadgets = *gadgets;
	/* First the way home, then the signal mask: if we die between the two, no signal stays
	 * blocked. */
	error = head_home(tracee);
	if (error)
		return error;
	if (trace(PTRACE_SETSIGMASK, tracee->tid, (void *)sizeof(all), &all) < 0)
		return -errno;
	return 0;
}

uint64_t limpet_tracee_sigreturn_sp(const struct limpet_tracee *tracee)
{
	return tracee->home;
}

uint64_t limpet_tracee_spare(const struct limpet_tracee *tracee)
{
	return tracee->spare;
}

static int resume(struct limpet_tracee *tracee, int request, int signal_number)
{
	if (trace(request, tracee->tid, NULL, (void *)(intptr_t)signal_number) < 0)
		return -errno;
	tracee->running = true;
	return 0;
}

/* All signals are blocked but SIGSTOP, which is the program's own: if delivered, it stops the whole
 * target, but does not keep our call from finishing. -EPROTO: a fault in code that cannot fault. */
static int signal_to_pass(enum stop_kind kind, int signal_number)
{
	if (kind != STOP_SIGNAL)
		return 0;
	return signal_number == SIGSTOP ? SIGSTOP : -EPROTO;
}

/* Resumes the thread until the next syscall stop. */
static int to_syscall_stop(struct limpet_tracee *tracee, uint64_t deadline_ns)
{
	int pass = 0;

	for (;;) {
		enum stop_kind kind = STOP_OTHER;
		int signal_number = 0, error = resume(tracee, PTRACE_SYSCALL, pass);

		if (!error)
			error = wait_stop(tracee, deadline_ns, &kind, &signal_number);
		if (error)
			return error;
		if (kind == STOP_SYSCALL)
			return 0;
		pass = signal_to_pass(kind, signal_number);
		if (pass < 0)
			return pass;
	}
}

/* Continues from the entry stop of a system call to its exit stop. */
static int end_call(struct limpet_tracee *tracee, uint64_t deadline_ns)
{
	int error = to_syscall_stop(tracee, deadline_ns);

	tracee->at_entry = tracee->at_entry && error;
	tracee->at_syscall = tracee->at_syscall || !error;
	return error;
}

/* If the thread left a syscall-exit stop, an -ERESTART* in rax would reach the program. So continue
 * to an event stop, where the kernel checks the registers once more before it returns to user mode.
 */
static int leave_syscall_stop(struct limpet_tracee *tracee, uint64_t deadline_ns)
{
	int error;

	if (!tracee->at_syscall && !tracee->at_entry)
		return 0;
	if (trace(PTRACE_INTERRUPT, tracee->tid, NULL, NULL) < 0)
		return -errno;
	error = resume(tracee, PTRACE_CONT, 0);
	if (!error)
		error = wait_event(tracee, deadline_ns);
	if (!error)
		tracee->at_syscall = tracee->at_entry = false;
	return error;
}

/* Resumes the thread with `regs`, and stops it after the next system call: `leaving`, on the way
 * out of the kernel, with a stop less. */
static int through_syscall(struct limpet_tracee *tracee, struct user_regs_struct *regs,
			   bool leaving, uint64_t deadline_ns, int64_t *ret_answer)
{
	struct iovec vector = {regs, sizeof(*regs)};
	/* An earlier call was not finished: registers written now would be taken for its arguments.
	 */
	int error = tracee->at_entry ? end_call(tracee, deadline_ns) : 0;

	if (!error)
		error = write_registers(tracee, regs);
	if (error)
		return error;
	tracee->moved = true;
	error = to_syscall_stop(tracee, deadline_ns);
	tracee->at_entry = !error;
	if (!error)
		error = leaving ? leave_syscall_stop(tracee, deadline_ns)
				: end_call(tracee, deadline_ns);
	if (error)
		return error;
	if (trace(PTRACE_GETREGSET, tracee->tid, (void *)NT_PRSTATUS, &vector) < 0)
		return -errno;
	*ret_answer = (int64_t)regs->rax;
	return 0;
}

static void prepare_syscall(const struct limpet_tracee *tracee, long number, const uint64_t args[6],
			    struct user_regs_struct *regs)
{
	*regs = tracee->regs;
	regs->orig_rax = ~0ull; /* the kernel must not restart a system call on the way there */
	regs->rip = tracee->gadgets.syscall;
	regs->rsp = tracee->home;
	regs->eflags &= ~(uint64_t)LIMPET_ARCH_FLAGS_CLEAR;
	regs->rax = (uint64_t)number;
	regs->rdi = args[0];
	regs->rsi = args[1];
	regs->rdx = args[2];
	regs->r10 = args[3];
	regs->r8 = args[4];
	regs->r9 = args[5];
}

int limpet_tracee_syscall(struct limpet_tracee *tracee, long number, const uint64_t args[6],
			  uint64_t deadline_ns, int64_t *ret_answer)
{
	const struct limpet_step step = limpet_step_begin(LIMPET_STEP_CALL, tracee->tid, number);
	struct user_regs_struct regs;

	prepare_syscall(tracee, number, args, &regs);
	return limpet_step_end(&step,
			       through_syscall(tracee, &regs, false, deadline_ns, ret_answer));
}

int limpet_tracee_last_syscall(struct limpet_tracee *tracee, long number, const uint64_t args[6],
			       uint64_t deadline_ns, int64_t *ret_answer)
{
	const struct limpet_step step = limpet_step_begin(LIMPET_STEP_CALL, tracee->tid, number);
	struct user_regs_struct regs;

	prepare_syscall(tracee, number, args, &regs);
	return limpet_step_end(&step,
			       through_syscall(tracee, &regs, true, deadline_ns, ret_answer));
}

int limpet_tracee_run(struct limpet_tracee *tracee, uint64_t pc, uint64_t sp, uint64_t argument,
		      uint64_t deadline_ns)
{
	struct user_regs_struct regs = tracee->regs;
	/* As in through_syscall(). */
	int error = tracee->at_entry ? end_call(tracee, deadline_ns) : 0;

	regs.orig_rax = ~0ull;
	regs.rip = pc;
	regs.rsp = sp;
	regs.rbp = 0;
	regs.rdi = argument;
	regs.eflags &= ~(uint64_t)LIMPET_ARCH_FLAGS_CLEAR;
	if (!error)
		error = write_registers(tracee, &regs);
	if (error)
		return error;
	tracee->moved = true;
	/* What is pending tells of stops before this: limpet_tracee_sleep_on() would wake for it.
	 */
	(void)is_signal_left();
	error = resume(tracee, PTRACE_CONT, 0);
	tracee->at_syscall = tracee->at_syscall && error;
	return error;
}

/* ---------------------------------------------------------------- a maker */

/* The way of a maker that nobody traces any more: from any system call to its end. */
static int write_end(const struct limpet_tracee *tracee, uint64_t *ret_home)
{
	const struct limpet_tracee_gadgets *gadgets = &tracee->gadgets;
	uint8_t image[2 * sizeof(uint64_t) + LIMPET_EXIT_FRAME_BYTES];
	uint8_t *frame = image + 2 * sizeof(uint64_t);
	const uint64_t words[] = {gadgets->pop_rax, SYS_rt_sigreturn};
	const uint64_t home =
		limpet_sigreturn_frame_exit(&tracee->regs, gadgets->restorer ?: gadgets->syscall,
					    gadgets->syscall, tracee->spare, frame);
	struct limpet_step step;
	int error;

	memcpy(image, words, sizeof(words));
	step = limpet_step_begin(LIMPET_STEP_WRITE_END, tracee->tid, 0);
	error = limpet_memory_write(tracee->pid, home - sizeof(words), image, sizeof(image));
	limpet_step_end(&step, error);
	if (!error)
		*ret_home = gadgets->restorer ? home : home - sizeof(words);
	return error;
}

static int set_options(const struct limpet_tracee *tracee, unsigned options)
{
	return trace(PTRACE_SETOPTIONS, tracee->tid, NULL,
		     (void *)(uintptr_t)(PTRACE_O_TRACESYSGOOD | options)) < 0
		       ? -errno
		       : 0;
}

/* A lost answer would leave a thread that nobody knows of. */
static int get_new_tid(const struct limpet_tracee *tracee, pid_t *ret)
{
	const unsigned tries = 2;
	unsigned long tid = 0;
	long answer = -1;

	for (unsigned i = 0; i < tries && answer < 0; i++)
		answer = trace(PTRACE_GETEVENTMSG, tracee->tid, NULL, &tid);
	if (answer < 0)
		return -errno;
	*ret = (pid_t)tid;
	return 0;
}

/* Continues from the entry stop of clone(2). *ret_tid: the new thread, and the call goes on; 0:
 * there is none, and *ret_answer says why. */
static int to_new_thread(struct limpet_tracee *tracee, uint64_t deadline_ns, pid_t *ret_tid,
			 int64_t *ret_answer)
{
	enum stop_kind kind = STOP_OTHER;
	struct user_regs_struct regs;
	struct iovec vector = {&regs, sizeof(regs)};
	int signal_number = 0, pass = 0, error;

	do {
		error = resume(tracee, PTRACE_SYSCALL, pass);
		if (!error)
			error = wait_stop(tracee, deadline_ns, &kind, &signal_number);
		if (error)
			return error;
		pass = signal_to_pass(kind, signal_number);
		if (pass < 0)
			return pass;
	} while (kind != STOP_OTHER && kind != STOP_SYSCALL);
	if (kind == STOP_OTHER)
		return get_new_tid(tracee, ret_tid);
	tracee->at_entry = false;
	tracee->at_syscall = true;
	if (trace(PTRACE_GETREGSET, tracee->tid, (void *)NT_PRSTATUS, &vector) < 0)
		return -errno;
	*ret_tid = 0;
	*ret_answer = (int64_t)regs.rax;
	return 0;
}

/* The new thread, which has not executed an instruction. */
static int adopt_maker(const struct limpet_tracee *tracee, pid_t tid, uint64_t home,
		       uint64_t deadline_ns, struct limpet_tracee **ret)
{
	struct limpet_tracee *maker;
	int error = tracee_new(tracee->pid, tid, &maker);

	if (error) {
		stray_add(tracee->pid, tid, NULL);
		return error;
	}
	maker->running = true;
	maker->gadgets = tracee->gadgets;
	maker->home = home;
	maker->spare = home - MAKER_BYTES;
	error = wait_event(maker, deadline_ns);
	if (!error)
		error = read_registers(maker);
	if (error) {
		limpet_tracee_release(maker);
		return error;
	}
	*ret = maker;
	return 0;
}

/* One clone(2). *ret_tid: 0 if it has failed, with *ret_answer. */
static int try_to_clone(struct limpet_tracee *tracee, const uint64_t args[6], uint64_t deadline_ns,
			pid_t *ret_tid, int64_t *ret_answer)
{
	struct user_regs_struct regs;
	int error;

	prepare_syscall(tracee, SYS_clone, args, &regs);
	error = write_registers(tracee, &regs);
	if (error)
		return error;
	tracee->moved = true;
	error = to_syscall_stop(tracee, deadline_ns);
	tracee->at_entry = !error;
	/* A thread that it makes is traced from its first instruction on. Left for longer, the
	 * option would do nothing. */
	if (!error)
		error = set_options(tracee, PTRACE_O_TRACEVFORK);
	if (!error)
		error = to_new_thread(tracee, deadline_ns, ret_tid, ret_answer);
	if (!tracee->running)
		(void)set_options(tracee, 0);
	return error;
}

int limpet_tracee_begin_maker(struct limpet_tracee *tracee, uint64_t deadline_ns,
			      struct limpet_tracee **ret, int64_t *ret_answer)
{
	uint64_t args[6] = {CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD |
			    CLONE_VFORK};
	int64_t answer = 0;
	pid_t tid = 0;
	int error = tracee->at_entry ? end_call(tracee, deadline_ns) : 0, resumed;

	if (!error)
		error = write_end(tracee, &args[1]);
	if (!error)
		error = try_to_clone(tracee, args, deadline_ns, &tid, &answer);
	/* The kernel makes no thread while something is to be dealt with first: a SIGCONT's news, a
	 * stop of the whole process, a freeze (copy_process() in kernel/fork.c). */
	while (!error && answer == -ERESTARTNOINTR && limpet_monotonic_ns() < deadline_ns) {
		answer = 0;
		error = leave_syscall_stop(tracee, deadline_ns);
		if (!error)
			error = try_to_clone(tracee, args, deadline_ns, &tid, &answer);
	}
	if (!error && !tid)
		*ret_answer = answer == -ERESTARTNOINTR ? -EAGAIN : answer;
	/* From here to the end of the call it is as at its entry: registers that were written now
	 * would be lost. */
	if (error || !tid)
		return error;
	resumed = resume(tracee, PTRACE_SYSCALL, 0);
	error = adopt_maker(tracee, tid, args[1], deadline_ns, ret);
	return error ? error : resumed;
}

int limpet_tracee_end_maker(struct limpet_tracee *tracee, struct limpet_tracee *maker,
			    uint64_t deadline_ns)
{
	static const uint64_t none[6];
	struct user_regs_struct regs;
	enum stop_kind kind = STOP_OTHER;
	int signal_number = 0, pass = 0, error = maker->at_entry ? end_call(maker, deadline_ns) : 0;

	prepare_syscall(maker, SYS_exit, none, &regs);
	if (!error)
		error = write_registers(maker, &regs);
	limpet_boost_raise_last(maker->tid);
	/* Until it is reaped, and so in no list of threads. */
	while (!error) {
		error = resume(maker, PTRACE_CONT, pass);
		if (!error)
			error = wait_stop(maker, deadline_ns, &kind, &signal_number);
		if (!error)
			pass = signal_to_pass(kind, signal_number);
		error = pass < 0 ? pass : error;
	}
	limpet_tracee_release(maker);
	/* The call that made it has an answer now. */
	pass = 0;
	do {
		error = tracee->running ? 0 : resume(tracee, PTRACE_SYSCALL, pass);
		if (!error)
			error = wait_stop(tracee, deadline_ns, &kind, &signal_number);
		if (!error)
			pass = signal_to_pass(kind, signal_number);
		if (error || pass < 0)
			return error ?: pass;
	} while (kind != STOP_SYSCALL);
	tracee->at_entry = false;
	tracee->at_syscall = true;
	return 0;
}

bool limpet_tracee_is_running(const struct limpet_tracee *tracee)
{
	return tracee->running;
}

int limpet_tracee_keep_going(struct limpet_tracee *tracee)
{
	enum stop_kind kind = STOP_OTHER;
	int signal_number = 0, error = await_stop(tracee, 0, &kind, &signal_number);

	if (error)
		return error == -ETIMEDOUT ? 0 : error;
	signal_number = signal_to_pass(kind, signal_number);
	return signal_number < 0 ? signal_number : resume(tracee, PTRACE_CONT, signal_number);
}

void limpet_tracee_sleep_on(uint32_t *word, uint64_t limit_ns)
{
	const struct timespec limit = {(time_t)(limit_ns / 1000000000),
				       (long)(limit_ns % 1000000000)};
	const sigset_t child = limpet_sigchld_set();
	uint32_t stopped = LIMPET_TRACEE_STOPPED;

	woken = word;
	pthread_sigmask(SIG_UNBLOCK, &child, NULL);
	syscall(SYS_futex, word, FUTEX_WAIT, 0, &limit, NULL, 0);
	pthread_sigmask(SIG_BLOCK, &child, NULL);
	woken = NULL;
	__atomic_compare_exchange_n(word, &stopped, 0, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
}

int limpet_tracee_halt(struct limpet_tracee *tracee, uint64_t deadline_ns)
{
	if (!tracee->running)
		return 0;
	if (trace(PTRACE_INTERRUPT, tracee->tid, NULL, NULL) < 0)
		return -errno;
	tracee->at_syscall = tracee->at_entry = false;
	return wait_event(tracee, deadline_ns);
}

/* The signal mask is restored first: until the registers follow, the thread is still on the way
 * home, and the frame there restores the mask, too. */
static int put_back(struct limpet_tracee *tracee, uint64_t deadline_ns)
{
	struct iovec vector = {tracee->xstate, tracee->xstate_bytes};
	int first = leave_syscall_stop(tracee, deadline_ns), error;

	if (first)
		return first;
	if (trace(PTRACE_SETSIGMASK, tracee->tid, (void *)sizeof(tracee->signal_mask),
		  &tracee->signal_mask) < 0)
		first = -errno;
	if (trace(PTRACE_SETREGSET, tracee->tid, (void *)NT_X86_XSTATE, &vector) < 0 && !first)
		first = -errno;
	(void)!mend_limit(tracee);
	error = write_registers(tracee, &tracee->regs);
	if (error)
		return first ? first : error;
	tracee->hijacked = tracee->moved = false;
	return first;
}

static void note_stop(const struct limpet_tracee *tracee)
{
	if (!tracee->stopped_since_ns)
		return;
	/* Without limpet it would not have run either. */
	if (tracee->stopped_since_ns > frozen_seen_ns)
		limpet_tracee_note_stop_ns(limpet_monotonic_ns() - tracee->stopped_since_ns);
	last_stop.tid = tracee->tid;
	/* Not while others stand: with 10,000 of them that would take 40 ms. */
	last_stop.run_ns = tracees == tracee && !tracee->next ? tracee->run_ns ?: run_time(tracee)
							      : UNKNOWN_NS;
	last_stop.stopped_since_ns = tracee->stopped_since_ns;
	last_stop.regs = tracee->regs;
}

/* Detaches and frees; `error` is an earlier failure, or 0. */
static int detach(struct limpet_tracee *tracee, int error)
{
	if (error != -ESRCH && !tracee->running) {
		if (trace(PTRACE_DETACH, tracee->tid, NULL, NULL) == 0) {
			note_stop(tracee);
			if (tracee->wait.shortened)
				limpet_timed_wait_returns(tracee->tid);
		} else {
			tracee->running = true;
			error = error ?: -errno;
		}
	}
	/* We must reap a thread that is ending before its parent can. */
	if (error == -ESRCH || tracee->running)
		stray_add(tracee->pid, tracee->tid, NULL);
	limpet_tracee_release_strays();
	tracee_free(tracee);
	return error;
}

/* How long limpet, when it ends, waits for the rest of calls; then they are cut short after all,
 * but those that have a frame. */
#define REST_PATIENCE_NS 1000000000u
static pid_t rests_owner;

static bool wait_for_rests(bool ask)
{
	const uint64_t until_ns = limpet_monotonic_ns() + REST_PATIENCE_NS;
	const struct timespec nap = {0, 1000000};
	bool found = true;

	while (found && limpet_monotonic_ns() < until_ns) {
		limpet_tracee_release_strays();
		found = false;
		for (size_t i = 0; i < stray_count; i++) {
			if (!strays[i].rest || (ask && limpet_rest_has_frame(strays[i].rest)))
				continue;
			found = true;
			if (ask)
				(void)ptrace(PTRACE_INTERRUPT, strays[i].tid, NULL, NULL);
		}
		if (found)
			nanosleep(&nap, NULL);
	}
	return !found;
}

static void end_rests(void)
{
	if (getpid() == rests_owner && !wait_for_rests(false))
		wait_for_rests(true);
}

/* Instead of being detached, the thread makes the rest of its call, if a stop has cut it short. */
static bool make_rest(struct limpet_tracee *tracee, bool was_hijacked)
{
	const uint64_t until_ns = limpet_monotonic_ns() + TICKS_MOST_NS;
	struct limpet_rest *rest;

	if (tracee->group_stop || stray_count == MAX_STRAYS)
		return false;
	rest = limpet_rest_new(tracee->pid, tracee->tid, &tracee->regs);
	if (!rest)
		return false;
	if (was_hijacked)
		limpet_rest_use_frame(rest, tracee->gadgets.syscall, tracee->home,
				      limpet_sigreturn_frame_answer(tracee->frame));
	if (!rests_owner)
		atexit(end_rests);
	rests_owner = getpid();
	if (limpet_rest_start(rest) < 0)
		return false;
	note_stop(tracee);
	stray_add(tracee->pid, tracee->tid, rest);
	tracee_free(tracee);
	/* It stands for us once more, when it enters the call. */
	while (limpet_rest_is_starting(rest) && limpet_monotonic_ns() < until_ns) {
		sched_yield();
		limpet_tracee_release_strays();
	}
	return true;
}

int limpet_tracee_release(struct limpet_tracee *tracee)
{
	const uint64_t patience_ns = 10000000000u; /* it may wait long for a processor */
	uint64_t deadline_ns = limpet_monotonic_ns() + patience_ns;
	bool was_hijacked;
	int first = 0;

	if (!tracee)
		return 0;
	if (tracee->running) {
		/* Interrupted already, or in a remote call: only a stopped thread can be detached.
		 */
		first = tracee->hijacked ? limpet_tracee_halt(tracee, deadline_ns)
					 : wait_event(tracee, 0);
		if (!first && !tracee->hijacked)
			first = read_registers(tracee) ?: mend(tracee);
	}
	was_hijacked = tracee->hijacked;
	if (!first)
		first = was_hijacked ? put_back(tracee, deadline_ns) : mend_limit(tracee);
	if (!first && make_rest(tracee, was_hijacked))
		return 0;
	return detach(tracee, first);
}

int limpet_tracee_abandon(struct limpet_tracee *tracee)
{
	const uint64_t patience_ns = 10000000000u; /* it may wait long for a processor */

	return detach(tracee, limpet_tracee_halt(tracee, limpet_monotonic_ns() + patience_ns));
}
