/* The target: one process that runs one program. A pid alone may be reused for another process, and
 * a process may execute another program. Whoever opened it closes it; it is read-only in between.
 */
#ifndef LIMPET_INJECTOR_TARGET_PROCESS_H
#define LIMPET_INJECTOR_TARGET_PROCESS_H

#include <stdint.h>
#include <sys/types.h>

#include "common/err.h"

struct limpet_target {
	pid_t pid;
	int pidfd; /* -1: not open */
	uint64_t start_ticks;
	/* private: address of AT_RANDOM, random bytes that the kernel chooses at each exec; 0:
	 * unknown */
	uint64_t mark_address;
	uint64_t mark[2];
	int memory_fd; /* private: the memory that the program has had since; -1: not open */
};

/* The process as it is now. On failure nothing is open, and `err` says why. */
int limpet_target_open(pid_t pid, struct limpet_target *ret,
		       struct limpet_err *err) LIMPET_MUST_CHECK;
void limpet_target_close(struct limpet_target *target);
/* Returns 0 if it is still the same process with the same program. -ESRCH: it is gone; -ESTALE: it
 * has executed another program; -errno: unknown. To be called before each change. Takes a struct
 * limpet_target. */
int limpet_target_check(const void *target) LIMPET_MUST_CHECK;
/* If the process ended or executed another program meanwhile, this is why `error` occurred: returns
 * that reason, with a message in `err`; otherwise returns `error`. May take 0.2 s. */
int limpet_target_explain(const struct limpet_target *target, int error, struct limpet_err *err);

#endif
