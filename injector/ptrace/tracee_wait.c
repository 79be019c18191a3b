#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <time.h>

#include "common/clock.h"
#include "injector/proc/cgroup.h"
#include "injector/proc/proc.h"
#include "injector/ptrace/boost.h"
#include "injector/ptrace/sigchld.h"
#include "injector/ptrace/step.h"
#include "injector/ptrace/tracee_private.h"

/* A thread that is on another processor usually stops within that time. While we sleep for it, the
 * target stands. */
#define SPIN_NS 30000u

/* A thread that has not stopped for that long may be frozen; then it is looked at again. */
#define FROZEN_AFTER_NS 50000000u
#define FROZEN_POLL_NS 100000000u

static bool is_on_our_processor(const struct limpet_tracee *tracee)
{
	uint64_t fields[LIMPET_STAT_FIELDS];

	return limpet_proc_stat_read(tracee->pid, tracee->tid, fields) >=
		       (int)LIMPET_STAT_PROCESSOR &&
	       fields[LIMPET_STAT_PROCESSOR] == (uint64_t)sched_getcpu();
}

bool limpet_tracee_consume_signal(void)
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
	enum limpet_tick_news tick;

	if (!tracee->is_here || tracee->crowded)
		return false;
	tick = limpet_tick_sleep(&tracee->tracer->tick);
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

	if (limpet_tracee_consume_signal() || (left_ns >= LIMPET_TICK_NS && sleep_here(tracee)))
		return;
	if (!limpet_boost_lend(tracee->pid, tracee->tid, waited_ns, &turn_ns) &&
	    waited_ns < LIMPET_TICKS_MOST_NS && turn_ns >= LIMPET_TICK_NS &&
	    left_ns >= LIMPET_TICK_NS &&
	    limpet_tick_sleep(&tracee->tracer->tick) != LIMPET_TICK_NONE)
		return;
	if (turn_ns > left_ns)
		turn_ns = left_ns;
	if ((uint64_t)left.tv_nsec > turn_ns)
		left.tv_nsec = (long)turn_ns;
	sigtimedwait(&child, NULL, &left);
	limpet_boost_return();
}

bool limpet_tracee_probe_frozen(const struct limpet_tracee *tracee)
{
	struct limpet_cgroup group;
	const bool frozen = limpet_cgroup_frozen(tracee->pid, &group);

	if (frozen)
		tracee->tracer->frozen_seen_ns = limpet_monotonic_ns();
	return frozen;
}

int limpet_tracee_await_stop(struct limpet_tracee *tracee, uint64_t deadline_ns,
			     enum limpet_stop_kind *ret_kind, int *ret_signal)
{
	struct limpet_tracer *tracer = tracee->tracer;
	const uint64_t began_ns = limpet_monotonic_ns();
	uint64_t frozen_poll_ns = began_ns + FROZEN_AFTER_NS;

	limpet_awake_check(&tracer->awake, began_ns);
	for (;;) {
		int status;
		pid_t got = limpet_tracer_poll(tracer, tracee->tid, &status);
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
				*ret_kind = LIMPET_STOP_KIND_EVENT;
			} else if (signal_number == (SIGTRAP | 0x80)) {
				*ret_kind = LIMPET_STOP_KIND_SYSCALL;
			} else if (status >> 16) {
				*ret_kind = LIMPET_STOP_KIND_OTHER;
			} else {
				*ret_kind = LIMPET_STOP_KIND_SIGNAL;
			}
			tracee->running = false;
			return 0;
		}
		now = limpet_monotonic_ns();
		if (now >= frozen_poll_ns) {
			if (limpet_tracee_probe_frozen(tracee) &&
			    tracer->frozen_deadline_ns < deadline_ns)
				deadline_ns = tracer->frozen_deadline_ns;
			frozen_poll_ns = now + FROZEN_POLL_NS;
		}
		if (now >= deadline_ns)
			return -ETIMEDOUT;
		if (!tracee->is_here && now - began_ns < SPIN_NS) {
			sched_yield();
			continue;
		}
		/* Once in a stop: a look takes as long as an answer. */
		if (!tracee->examined)
			tracee->is_here = is_on_our_processor(tracee);
		tracee->examined = true;
		limpet_awake_check(&tracer->awake, now);
		sleep_until_stop(tracee, now - began_ns, deadline_ns - now);
		/* One that has stopped by now may hold what this one waits for. */
		limpet_tracer_release_strays(tracer);
	}
}

int limpet_tracee_wait_stop(struct limpet_tracee *tracee, uint64_t deadline_ns,
			    enum limpet_stop_kind *ret_kind, int *ret_signal)
{
	const struct limpet_step step = limpet_step_begin(LIMPET_STEP_WAIT, tracee->tid, 0);

	(tracee->made_by ?: tracee)->exchanges++;
	return limpet_step_end(&step,
			       limpet_tracee_await_stop(tracee, deadline_ns, ret_kind, ret_signal));
}

int limpet_tracee_wait_event(struct limpet_tracee *tracee, uint64_t deadline_ns)
{
	for (;;) {
		enum limpet_stop_kind kind = LIMPET_STOP_KIND_OTHER;
		int signal_number = 0,
		    error = limpet_tracee_wait_stop(tracee, deadline_ns, &kind, &signal_number);

		if (error)
			return error;
		if (kind == LIMPET_STOP_KIND_EVENT)
			return 0;
		tracee->running = true;
		if (limpet_ptrace(PTRACE_CONT, tracee->tid, NULL,
				  (void *)(intptr_t)(kind == LIMPET_STOP_KIND_SIGNAL ? signal_number
										     : 0)) < 0)
			return -errno;
	}
}
