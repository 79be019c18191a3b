/* Stops all threads of a target at once for a bounded moment, in which the caller reads what it
 * needs of one and the same state.
 *
 * A process is left alone if a thread of it sleeps in a call that would notice the stop
 * (stop_effect.h), or in one that no stop wakes. Nothing is loaded into the target, and nothing in
 * it is changed. */
#ifndef LIMPET_INJECTOR_STACKS_STOP_MOMENT_H
#define LIMPET_INJECTOR_STACKS_STOP_MOMENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/err.h"

/* General registers, the thread pointer, and those for vectors. */
#define LIMPET_STOPPED_WORDS 512u
struct limpet_stopped_thread {
	pid_t tid;
	uint64_t sp; /* nothing below it is in use, but for a red zone of 128 bytes */
	size_t count;
	uint64_t words[LIMPET_STOPPED_WORDS];
};
struct limpet_stopped {
	const struct limpet_stopped_thread *threads;
	size_t count;
	uint64_t deadline_ns; /* CLOCK_MONOTONIC: by then `look` returns */
};

struct limpet_stop_moment {
	uint64_t most_ns; /* of the stop */
	void (*look)(void *context, const struct limpet_stopped *stopped);
	void *context;
	uint64_t stop_ns; /* out: the longest that a thread stood */
	size_t threads;   /* out: stopped */
	pid_t tid;        /* out: in the way: -EBUSY */
};

struct limpet_target;
/* Calls `look` once. The caller has seen that preflight does not refuse to stop threads. -EBUSY: a
 * thread sleeps in a call that would notice; -EAGAIN: not all stopped in time; -EPERM: another
 * process traces one; -EALREADY: another limpet is at work in it; -ESRCH, -ESTALE: see
 * limpet_target_check(); -ENOMEM. No thread is held when this returns. */
int limpet_stop_moment(const struct limpet_target *target, struct limpet_stop_moment *moment,
		       struct limpet_err *err) LIMPET_MUST_CHECK;

#endif
