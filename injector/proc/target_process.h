/* The target: one process, running one program. A pid alone may be another process by now, and a
 * process another program. Whoever opened it closes it; it is read-only in between. */
#ifndef LIMPET_INJECTOR_TARGET_PROCESS_H
#define LIMPET_INJECTOR_TARGET_PROCESS_H

#include <stdint.h>
#include <sys/types.h>

#include "common/err.h"

struct limpet_target {
	pid_t pid;
	int pidfd; /* -1: not open */
	uint64_t start_ticks;
	/* private: AT_RANDOM, bytes that the kernel draws for each exec; 0: it is not known where
	 */
	uint64_t mark_address;
	uint64_t mark[2];
};

/* As it is now. On failure nothing is open, and `err` says why. */
int limpet_target_open(pid_t pid, struct limpet_target *ret,
		       struct limpet_err *err) LIMPET_MUST_CHECK;
void limpet_target_close(struct limpet_target *target);
/* 0: still the same process, with the same program. -ESRCH: it is gone; -ESTALE: it has executed
 * another program; -errno: cannot tell. To be called before each change. Takes a struct
 * limpet_target. */
int limpet_target_check(const void *target) LIMPET_MUST_CHECK;
/* What failed for a process that ended or became another program meanwhile failed for that reason:
 * answers that, with words in `err`, or else `error`. May take 0.2 s. */
int limpet_target_explain(const struct limpet_target *target, int error, struct limpet_err *err);

#endif
