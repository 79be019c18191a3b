#include "injector/ptrace/tracer.h"

#include <errno.h>
#include <linux/futex.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "common/clock.h"
#include "injector/ptrace/arch.h"
#include "injector/ptrace/sigchld.h"
#include "injector/ptrace/step.h"
#include "injector/ptrace/tracee_private.h"
#include "injector/ptrace/watchdog.h"

#define STRAY_WAIT_NS 2000000u
#define STRAYS_PATIENCE_NS UINT64_C(2000000000)
/* How long limpet, when it ends, waits for the rest of calls; then they are cut short after all,
 * but those that have a frame. */
#define REST_PATIENCE_NS 1000000000u

/* For the handlers of SIGCHLD, which get no argument: the word that is to tell of a stop, and whose
 * strays are to be released. NULL: nobody sleeps on one, and none are. */
static uint32_t *woken;
static struct limpet_tracer *handled;

static void on_stop(int number)
{
	uint32_t none = 0;

	(void)number;
	if (!woken)
		return;
	__atomic_compare_exchange_n(woken, &none, LIMPET_TRACEE_STOPPED, false, __ATOMIC_ACQ_REL,
				    __ATOMIC_RELAXED);
}

int limpet_tracer_new(struct limpet_tracer **ret)
{
	const struct sigaction action = {.sa_handler = on_stop};
	const sigset_t child = limpet_sigchld_set();
	struct limpet_tracer *tracer = calloc(1, sizeof(*tracer));
	int error;

	if (!tracer)
		return -ENOMEM;
	/* SIGCHLD must be blocked to stay pending: a wait for a stop sleeps on it. An inherited
	 * SIG_IGN would discard it, and so the news of stops. */
	if (sigaction(SIGCHLD, &action, NULL) < 0 || sigprocmask(SIG_BLOCK, &child, NULL) < 0) {
		error = -errno;
		free(tracer);
		return error;
	}
	limpet_sigreturn_frame_prepare();
	tracer->frozen_deadline_ns = UINT64_MAX;
	*ret = tracer;
	return 0;
}

pid_t limpet_tracer_poll(const struct limpet_tracer *tracer, pid_t tid, int *ret_status)
{
	siginfo_t info = {.si_pid = 0};

	if (tid != tracer->own_child)
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

/* While limpet is stopped, traced threads stand: at once, or when they leave their system call. */
void limpet_tracer_note_held(struct limpet_tracer *tracer)
{
	const bool held = tracer->tracees || tracer->stray_count;

	limpet_watchdog_hold(held);
	if (!held)
		limpet_tick_end(&tracer->tick);
	limpet_step_held(held);
	if (tracer->at_rest && !held) {
		limpet_watchdog_end();
		limpet_watchdog_bury(false);
	}
}

void limpet_tracer_rest(struct limpet_tracer *tracer)
{
	tracer->at_rest = true;
	limpet_tracer_note_held(tracer);
}

/* ---------------------------------------------------------------- strays */

void limpet_tracer_add_stray(struct limpet_tracer *tracer, const struct limpet_stray *stray)
{
	if (tracer->stray_count == LIMPET_STRAYS_MOST)
		return;
	tracer->strays[tracer->stray_count] = *stray;
	tracer->strays[tracer->stray_count++].unstopped_ns = limpet_monotonic_ns();
	limpet_tracer_note_held(tracer);
}

bool limpet_tracer_is_stray(const struct limpet_tracer *tracer, pid_t tid)
{
	for (size_t i = 0; i < tracer->stray_count; i++)
		if (tracer->strays[i].tid == tid)
			return true;
	return false;
}

/* It was asked to stop, and now has. What that did to its call is undone; true: it goes on as a
 * stray, with the rest of the call. From a handler of signals, too. */
static bool mend_stray(struct limpet_stray *stray)
{
	struct user_regs_struct regs;

	if (ptrace(PTRACE_GETREGS, stray->tid, NULL, &regs) < 0)
		return false;
	stray->rest = limpet_rest_new(stray->pid, stray->tid, &regs);
	if (stray->rest && limpet_rest_start(stray->rest) == 0)
		return true;
	limpet_interrupted_mend(stray->tid, NULL);
	return false;
}

/* Whether it stays one, after what waitpid(2) has said of it. */
static bool stays_stray(struct limpet_tracer *tracer, struct limpet_stray *stray, bool stopped,
			int status)
{
	int signal_number = 0;

	if (stray->rest) {
		if (stopped)
			return limpet_rest_stopped(stray->rest, status);
		limpet_rest_free(stray->rest);
	}
	if (!stopped)
		return false;
	/* A signal that came first is delivered; the stop that we asked for is not. */
	if (!(status >> 16) && WSTOPSIG(status) != (SIGTRAP | 0x80))
		signal_number = WSTOPSIG(status);
	if (status >> 16 == PTRACE_EVENT_STOP && WSTOPSIG(status) == SIGTRAP && mend_stray(stray))
		return true;
	if (ptrace(PTRACE_DETACH, stray->tid, NULL, (void *)(intptr_t)signal_number) == 0)
		limpet_tracer_note_stop_ns(tracer, limpet_monotonic_ns() - stray->unstopped_ns);
	return false;
}

void limpet_tracer_release_strays(struct limpet_tracer *tracer)
{
	for (size_t i = 0; i < tracer->stray_count;) {
		struct limpet_stray *stray = &tracer->strays[i];
		int status;
		pid_t tid = stray->tid, got = limpet_tracer_poll(tracer, tid, &status);

		if (got == 0) {
			if (stray->rest)
				limpet_rest_bound(stray->rest);
			stray->unstopped_ns = limpet_monotonic_ns();
			i++;
		} else if (stays_stray(tracer, stray, got == tid && WIFSTOPPED(status), status)) {
			i++;
		} else {
			*stray = tracer->strays[--tracer->stray_count];
		}
	}
	limpet_tracer_note_held(tracer);
}

void limpet_tracer_await_strays(struct limpet_tracer *tracer)
{
	const struct timespec pause = {0, STRAY_WAIT_NS};
	const uint64_t deadline_ns = limpet_monotonic_ns() + STRAYS_PATIENCE_NS;

	limpet_tracer_release_strays(tracer);
	while (tracer->stray_count && limpet_monotonic_ns() < deadline_ns) {
		nanosleep(&pause, NULL);
		limpet_tracer_release_strays(tracer);
	}
}

void limpet_tracer_idle(struct limpet_tracer *tracer)
{
	limpet_tracer_release_strays(tracer);
	limpet_awake_check(&tracer->awake, limpet_monotonic_ns());
}

uint64_t limpet_tracer_bound_sleep_ns(const struct limpet_tracer *tracer, uint64_t wait_ns)
{
	return tracer->stray_count && wait_ns > STRAY_WAIT_NS ? STRAY_WAIT_NS : wait_ns;
}

size_t limpet_tracer_strays(const struct limpet_tracer *tracer)
{
	return tracer->stray_count;
}

static bool wait_for_rests(struct limpet_tracer *tracer, bool ask)
{
	const uint64_t until_ns = limpet_monotonic_ns() + REST_PATIENCE_NS;
	const struct timespec nap = {0, 1000000};
	bool found = true;

	while (found && limpet_monotonic_ns() < until_ns) {
		limpet_tracer_release_strays(tracer);
		found = false;
		for (size_t i = 0; i < tracer->stray_count; i++) {
			const struct limpet_stray *stray = &tracer->strays[i];

			if (!stray->rest || (ask && limpet_rest_has_frame(stray->rest)))
				continue;
			found = true;
			if (ask)
				(void)ptrace(PTRACE_INTERRUPT, stray->tid, NULL, NULL);
		}
		if (found)
			nanosleep(&nap, NULL);
	}
	return !found;
}

void limpet_tracer_free(struct limpet_tracer *tracer)
{
	if (!tracer)
		return;
	if (!wait_for_rests(tracer, false))
		wait_for_rests(tracer, true);
	limpet_tick_close(&tracer->tick);
	free(tracer);
}

/* ---------------------------------------------------------------- SIGCHLD */

/* Reaps tracees that have ended; keeps their stops to be seen. A wait for a tracee consumes its
 * stops, whatever it asks for, unless it only looks (WNOWAIT). */
static void reap_held(const struct limpet_tracer *tracer)
{
	for (const struct limpet_tracee *tracee = tracer->tracees; tracee; tracee = tracee->next) {
		siginfo_t info = {.si_pid = 0};

		if (tracee->tid == tracer->own_child ||
		    waitid(P_PID, (id_t)tracee->tid, &info, WEXITED | WNOHANG | WNOWAIT | __WALL) <
			    0)
			continue;
		if (info.si_pid && info.si_code != CLD_TRAPPED && info.si_code != CLD_STOPPED)
			waitid(P_PID, (id_t)tracee->tid, &info, WEXITED | WNOHANG | __WALL);
	}
}

/* Runs only while a thread is being seized, and in what takes long (limpet_tracer_begin_long). */
static void on_child(int number)
{
	int kept = errno;

	(void)number;
	limpet_tracer_release_strays(handled);
	if (handled->many)
		reap_held(handled);
	errno = kept;
}

static void watch_children(struct limpet_tracer *tracer, bool begin, int flags)
{
	const struct sigaction action = {.sa_handler = on_child, .sa_flags = flags};

	if (begin)
		handled = tracer;
	sigaction(SIGCHLD, begin ? &action : &tracer->kept_action,
		  begin ? &tracer->kept_action : NULL);
}

void limpet_tracer_watch_ends(struct limpet_tracer *tracer, bool begin)
{
	watch_children(tracer, begin, SA_NOCLDSTOP);
}

bool limpet_tracer_begin_long(struct limpet_tracer *tracer)
{
	const sigset_t child = limpet_sigchld_set();

	limpet_tracer_release_strays(tracer);
	if (!tracer->stray_count)
		return false;
	watch_children(tracer, true, SA_RESTART);
	pthread_sigmask(SIG_UNBLOCK, &child, NULL);
	return true;
}

void limpet_tracer_end_long(struct limpet_tracer *tracer, bool begun)
{
	const sigset_t child = limpet_sigchld_set();

	if (!begun)
		return;
	pthread_sigmask(SIG_BLOCK, &child, NULL);
	watch_children(tracer, false, 0);
	limpet_tracer_release_strays(tracer);
}

void limpet_tracer_many(struct limpet_tracer *tracer, bool begin)
{
	tracer->many = begin;
	limpet_tracer_watch_ends(tracer, begin);
}

void limpet_tracee_sleep_on(uint32_t *word, uint64_t limit_ns)
{
	const struct timespec limit = limpet_timespec(limit_ns);
	const sigset_t child = limpet_sigchld_set();
	uint32_t stopped = LIMPET_TRACEE_STOPPED;

	woken = word;
	pthread_sigmask(SIG_UNBLOCK, &child, NULL);
	syscall(SYS_futex, word, FUTEX_WAIT, 0, &limit, NULL, 0);
	pthread_sigmask(SIG_BLOCK, &child, NULL);
	woken = NULL;
	__atomic_compare_exchange_n(word, &stopped, 0, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
}

/* ---------------------------------------------------------------- priority and times */

struct limpet_priority limpet_tracer_raise(struct limpet_tracer *tracer)
{
	limpet_awake_begin(&tracer->awake);
	return limpet_priority_raise(LIMPET_PRIORITY_STOP);
}

void limpet_tracer_lower(struct limpet_tracer *tracer, struct limpet_priority before)
{
	limpet_awake_end(&tracer->awake);
	limpet_priority_restore(before);
}

void limpet_tracer_bound_frozen(struct limpet_tracer *tracer, uint64_t deadline_ns)
{
	tracer->frozen_deadline_ns = deadline_ns;
}

uint64_t limpet_tracer_pop_longest_stop_ns(struct limpet_tracer *tracer)
{
	uint64_t longest_ns = tracer->longest_stop_ns;

	tracer->longest_stop_ns = 0;
	tracer->last_stop.tid = 0;
	return longest_ns;
}

void limpet_tracer_note_stop_ns(struct limpet_tracer *tracer, uint64_t stop_ns)
{
	if (stop_ns > tracer->longest_stop_ns)
		tracer->longest_stop_ns = stop_ns;
}
