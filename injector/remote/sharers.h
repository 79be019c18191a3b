/* Processes that share the target's memory without being threads of it: children of vfork and
 * posix_spawn until they execute a program, helpers made by clone(CLONE_VM) without CLONE_THREAD.
 *
 * No list of threads contains them, stopping all threads does not stop them, and they execute hooks
 * like threads. limpet looks once at every process that it may see: it reads one stat file each,
 * which takes some ten microseconds; 3,000 processes take limpet some thirty milliseconds, and no
 * thread is stopped meanwhile. The fields about memory are equal in all processes that share it,
 * and in forked ones; of the few that are equal limpet asks the kernel (kcmp). If the kernel does
 * not answer (CONFIG_KCMP, a seccomp filter on limpet) they are unknown, and none is found. */
#ifndef LIMPET_INJECTOR_REMOTE_SHARERS_H
#define LIMPET_INJECTOR_REMOTE_SHARERS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/err.h"
#include "injector/ptrace/wait.h"

struct limpet_sharer {
	pid_t pid;
	uint64_t start_ticks;
};

/* Returns the number of such processes, or -errno; *ret is malloc'ed. */
int limpet_sharers_find(pid_t pid, struct limpet_sharer **ret);
/* Whether process `other` has the same memory as `pid`. */
bool limpet_sharers_share(pid_t pid, pid_t other);

/* Waits until all that existed at the call have ended, or executed another program. -EBUSY: one,
 * *ret_pid, has not by the deadline; or what `check` returned. Processes created meanwhile are not
 * awaited. */
int limpet_sharers_wait(pid_t pid, const struct limpet_wait *wait,
			pid_t *ret_pid) LIMPET_MUST_CHECK;

#endif
