/* Children of a process that were there before it was captured, and theirs: they have no copy of
 * the agent, and nobody follows them. */
#ifndef LIMPET_INJECTOR_PROC_DESCENDANTS_H
#define LIMPET_INJECTOR_PROC_DESCENDANTS_H

#include <sys/types.h>

#include "common/err.h"

/* Those that run the same program as `pid` does, ascending; *ret_pids is malloc'ed. Read from /proc
 * alone. Answers their number, or -errno. */
int limpet_descendants(pid_t pid, pid_t **ret_pids) LIMPET_MUST_CHECK;

#endif
