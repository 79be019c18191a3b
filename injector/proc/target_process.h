/* The target: one process that runs one program. A pid alone may be reused for another process, and
 * a process may execute another program. Whoever opened it closes it; it is read-only in between.
 */
#ifndef LIMPET_INJECTOR_TARGET_PROCESS_H
#define LIMPET_INJECTOR_TARGET_PROCESS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/err.h"

struct limpet_target {
	pid_t pid;
	int pidfd; /* -1: not open */
	int error; /* why it could not be opened; 0 without a pidfd: it is taken for granted */
	uint64_t start_ticks;
	/* private: address of AT_RANDOM, random bytes that the kernel chooses at each exec; 0:
	 * unknown */
	uint64_t mark_address;
	uint64_t mark[2];
	int memory_fd; /* private: the memory that the program has had since; -1: not open */
};

/* The process as it is now. On failure nothing is open, and `err` says why; limpet_target_check()
 * of it fails with the same error. What explains a refusal in more words (preflight, explain, a
 * capture) takes such a target, too. */
int limpet_target_open(pid_t pid, struct limpet_target *ret,
		       struct limpet_err *err) LIMPET_MUST_CHECK;
void limpet_target_close(struct limpet_target *target);
/* This process itself; valid until this thread asks again. */
const struct limpet_target *limpet_target_self(void);
/* Its root directory, in the caller's file system. False: it is gone, or that may not be entered.
 */
#define LIMPET_TARGET_ROOT_BYTES 64u
bool limpet_target_root(const struct limpet_target *target, char ret[LIMPET_TARGET_ROOT_BYTES]);
/* /tmp/perf-PID.map, in which a program names the code that it generates (perf(1)'s convention). It
 * is looked up in the program's own root, which is never left, by the program's pid in its own pid
 * namespace. Returns a descriptor for reading, or -errno: -ENOENT none, -ESRCH no such process,
 * -EACCES, -ELOOP (a link), -EINVAL (not a regular file), -EPERM (owned by neither the process's
 * user nor root), -EOPNOTSUPP (a program may serve the file, and could make us wait). */
int limpet_target_open_perf_map(const struct limpet_target *target);
/* Returns 0 if it is still the same process with the same program. -ESRCH: it is gone; -ESTALE: it
 * has executed another program; -EACCES, -EPERM: it may no longer be traced, but the memory of this
 * program exists; -errno: unknown. To be called before each change. Takes a struct limpet_target.
 */
int limpet_target_check(const void *target) LIMPET_MUST_CHECK;
/* Memory of this program, as limpet_memory_read_own() reads it; also of one that may no longer be
 * traced. -ESTALE: that one has executed another program. */
int limpet_target_read(const struct limpet_target *target, uint64_t address, void *ret,
		       size_t bytes) LIMPET_MUST_CHECK;
/* 0, or -ESRCH: its pid may be another process's. To be called after something was reached by the
 * pid: if it is still the target's, it was then. */
int limpet_target_still_has_pid(const struct limpet_target *target) LIMPET_MUST_CHECK;
/* If the process ended or executed another program meanwhile, this is why `error` occurred: returns
 * that reason, with a message in `err`; otherwise returns `error`. May take 0.2 s. */
int limpet_target_explain(const struct limpet_target *target, int error, struct limpet_err *err);

#endif
