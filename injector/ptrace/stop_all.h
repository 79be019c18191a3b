/* Stops all threads of a target at once, for a moment. */
#ifndef LIMPET_INJECTOR_PTRACE_STOP_ALL_H
#define LIMPET_INJECTOR_PTRACE_STOP_ALL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/err.h"
#include "injector/ptrace/tracee.h"

struct limpet_stop_all {
	struct limpet_tracee **list;
	size_t count, capacity;
	struct limpet_tracer *tracer;
	struct limpet_priority priority; /* our own, to be restored */
};

/* Whether a thread other than `except` (0: none) sleeps in a system call that the stop would cut
 * short. */
bool limpet_stop_all_cuts(pid_t pid, pid_t except);
/* Stops every thread except `except` (0: none; a thread that the caller holds already) before the
 * deadline: first interrupts all, then waits for them. -EAGAIN: a thread is in an uninterruptible
 * sleep (this is checked, as far as possible, before any thread is stopped), or did not stop in
 * time; then, as after any failure, all have been released. Raises our priority while the threads
 * are stopped: they wait as long as we wait for a processor. */
int limpet_stop_all_begin(struct limpet_tracer *tracer, pid_t pid, pid_t except,
			  uint64_t deadline_ns, struct limpet_stop_all *ret) LIMPET_MUST_CHECK;
/* Releases them. */
void limpet_stop_all_end(struct limpet_stop_all *still);

#endif
