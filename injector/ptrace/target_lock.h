/* One limpet at a time changes a process, whoever started it and in whatever container it runs.
 *
 * The lock is flock(2) on a pidfd: since Linux 6.9 all pidfds of a process are one inode. It takes
 * no file, no right and no name, is seen through every namespace, and is gone with its holder.
 * Before 6.9 all pidfds are one inode: then one limpet at a time changes any process at all.
 *
 * The lock is advisory: whoever can open a pidfd can hold it, and all it does is make us wait and
 * then give up. */
#ifndef LIMPET_INJECTOR_PTRACE_TARGET_LOCK_H
#define LIMPET_INJECTOR_PTRACE_TARGET_LOCK_H

#include <stdint.h>
#include <sys/types.h>

#include "common/err.h"

/* A descriptor that holds the lock until it is closed (O_CLOEXEC: not handed on), or -errno:
 * -EALREADY if another has kept it until `deadline_ns` (monotonic), -ESRCH if there is no such
 * process. */
int limpet_target_lock_take(pid_t pid, uint64_t deadline_ns,
			    struct limpet_err *err) LIMPET_MUST_CHECK;

#endif
