/* All threads of a target at once, for a moment. */
#ifndef LIMPET_INJECTOR_PTRACE_STOP_ALL_H
#define LIMPET_INJECTOR_PTRACE_STOP_ALL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/err.h"
#include "injector/ptrace/priority.h"
#include "injector/ptrace/tracee.h"

struct limpet_stop_all {
	struct limpet_tracee **list;
	size_t count, capacity;
	struct limpet_priority priority; /* of ours, before */
};

/* Whether a thread but `except` (0: none) sleeps in a call that the stop would cut short. */
bool limpet_stop_all_cuts(pid_t pid, pid_t except);
/* Stops every thread but `except` (0: none; one that the caller holds already) before the deadline:
 * all are asked first, then awaited. -EAGAIN: one sleeps in a way that cannot be interrupted (which
 * is looked for before any is stopped, as far as that goes), or did not stop in time; then, as
 * after any failure, all have been let go. For as long we are as important as we may be: while we
 * wait for a processor, they stand. */
int limpet_stop_all_begin(pid_t pid, pid_t except, uint64_t deadline_ns,
			  struct limpet_stop_all *ret) LIMPET_MUST_CHECK;
/* Lets them go. */
void limpet_stop_all_end(struct limpet_stop_all *still);

#endif
