/* Only one limpet at a time changes a process, whoever started it and in whatever container it
 * runs.
 *
 * The lock is that of a byte (F_OFD_SETLK, fcntl(2)) of a pidfd: since Linux 6.9 all pidfds of a
 * process share one inode. It is not flock(2), as a program may use that on its own pidfd. It
 * needs no file, no right and no name, is visible through every namespace, and is released when its
 * holder ends. Before 6.9 all pidfds of the machine share one inode: then only one limpet at a time
 * changes any process at all.
 *
 * The lock is advisory: anyone who can open a pidfd can hold it, which only delays limpet until it
 * gives up. */
#ifndef LIMPET_INJECTOR_PTRACE_TARGET_LOCK_H
#define LIMPET_INJECTOR_PTRACE_TARGET_LOCK_H

#include <stdint.h>
#include <sys/types.h>

#include "common/err.h"

struct limpet_tracer;

/* Returns a descriptor that holds the lock until it is closed (O_CLOEXEC: not inherited), or
 * -errno: -EALREADY if another process has held it until `deadline_ns` (monotonic), -ESRCH if there
 * is no such process. */
int limpet_target_lock_acquire(struct limpet_tracer *tracer, pid_t pid, uint64_t deadline_ns,
			       struct limpet_err *err) LIMPET_MUST_CHECK;

#endif
