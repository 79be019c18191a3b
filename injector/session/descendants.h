/* Descendants of a process from before the capture: they have no copy of the agent, and limpet does
 * not follow them. */
#ifndef LIMPET_INJECTOR_SESSION_DESCENDANTS_H
#define LIMPET_INJECTOR_SESSION_DESCENDANTS_H

#include <sys/types.h>

#include "common/err.h"

struct limpet_target;

/* Returns the number of descendants that run the same program as the target, ascending; *ret_pids
 * is malloc'ed. Or returns -errno. Reads only /proc. */
int limpet_descendants(const struct limpet_target *target, pid_t **ret_pids) LIMPET_MUST_CHECK;

#endif
