/* Processes that share the target's memory and are none of its threads: children of vfork and
 * posix_spawn until they execute a program, helpers made by clone(CLONE_VM) without CLONE_THREAD.
 *
 * They stand in nobody's list of threads, cannot be held with these, and run in hooks as these do.
 * All processes that limpet may see are looked at once: one read of a stat file each, some ten
 * microseconds, 3,000 processes make some thirty milliseconds of ours; no thread stands meanwhile.
 * What that says of the memory is the same in all that share it, and in what was forked: of the few
 * that are alike the kernel is asked (kcmp). Where it does not answer (CONFIG_KCMP, a filter of
 * ours) nothing is known of them, and none is found. */
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

/* Those there are, malloc'ed; answers their number, or -errno. */
int limpet_sharers_find(pid_t pid, struct limpet_sharer **ret);
/* Whether the memory of process `other` is that of `pid`. */
bool limpet_sharers_share(pid_t pid, pid_t other);

/* Until all that were there at the call have ended, or executed another program. -EBUSY: one,
 * *ret_pid, has not by the deadline; or what `check` answered. Of those that come meanwhile nothing
 * is said. */
int limpet_sharers_wait(pid_t pid, const struct limpet_wait *wait,
			pid_t *ret_pid) LIMPET_MUST_CHECK;

#endif
