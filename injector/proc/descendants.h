/* Descendants of a process from before the capture: they have no copy of the agent, and limpet does
 * not follow them. */
#ifndef LIMPET_INJECTOR_PROC_DESCENDANTS_H
#define LIMPET_INJECTOR_PROC_DESCENDANTS_H

#include <sys/types.h>

#include "common/err.h"

/* Returns the number of descendants that run the same program as `pid`, ascending; *ret_pids is
 * malloc'ed. Or returns -errno. Reads only /proc. */
int limpet_descendants(pid_t pid, pid_t **ret_pids) LIMPET_MUST_CHECK;

#endif
