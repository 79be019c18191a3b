/* For how long a thread has waited in a system call whose limit is in a register (epoll_wait).
 *
 * Such a call can be made again after a stop only with what is left of its time. When a thread went
 * to sleep is known to the scheduler alone (/proc/PID/task/TID/sched), by the clock of a processor,
 * which is compared with ours on that processor. It is the last time that it went to sleep: a
 * thread that was woken in vain within the call, and slept on, is taken to have waited since then,
 * so that its call may last longer by what came before; never shorter. */
#ifndef LIMPET_INJECTOR_PTRACE_TIMED_WAIT_H
#define LIMPET_INJECTOR_PTRACE_TIMED_WAIT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct limpet_timed_wait {
	uint64_t begun_ns; /* CLOCK_MONOTONIC, at the latest; 0: not in such a call, or unknown */
	/* Of the thread, with this one: one more when it has stopped. It may have been preempted on
	 * the way. */
	uint64_t sleeps;
	uint64_t pc, sp;
	long number;
	int32_t limit_ms;
	bool shortened;
};

/* To be called before the stop: after it, nothing is known. Moves this thread for a moment to the
 * processor that the other one slept on. */
void limpet_timed_wait_probe(pid_t pid, pid_t tid, struct limpet_timed_wait *ret);
/* It is being released, and goes back into such a call: if it is looked at next, it is first given
 * time to fall asleep there. A thread that is stopped on its way would see EINTR. */
void limpet_timed_wait_returns(pid_t tid);
/* Once it has stopped: whether it slept until then. */
bool limpet_timed_wait_lasted(pid_t pid, pid_t tid, const struct limpet_timed_wait *wait);
/* What is left of the limit now, in milliseconds, rounded up. */
int32_t limpet_timed_wait_left(const struct limpet_timed_wait *wait);

#endif
