/* Finding agents that stayed behind: mapped into a process (or only open there), and nobody
 * collects from them.
 *
 * That is what remains when limpet was killed, or could not prove that it was safe to unload. It is
 * read from /proc alone; nothing is touched. */
#ifndef LIMPET_INJECTOR_PREFLIGHT_DORMANT_H
#define LIMPET_INJECTOR_PREFLIGHT_DORMANT_H

#include <stdbool.h>
#include <sys/types.h>

#include "common/err.h"

/* Processes that hold an agent without a living collector, ascending; only those whose maps we may
 * read. *ret_pids is malloc'ed; answers their number. An agent counts as watched, and is left out,
 * if some process without an agent (the collector) maps the same shared memory, in whatever
 * container it runs: so forked children of a captured process are left out too. A capture that we
 * may not look into (root's, for others) is left out if its control socket is there. */
int limpet_dormant_find(pid_t **ret_pids) LIMPET_MUST_CHECK;

/* The same for one process: 1 dormant, 0 not, -errno when its maps cannot be read. Waits for two
 * seconds where somebody has the memory and does not answer: it may just have been killed. */
int limpet_dormant_check(pid_t pid) LIMPET_MUST_CHECK;

/* Other processes with an agent that nobody watches, and which is the same that `pid` has: forked
 * from it, or it from one of them. Ascending; *ret_pids is malloc'ed; answers their number. */
int limpet_dormant_relatives(pid_t pid, pid_t **ret_pids) LIMPET_MUST_CHECK;

/* What a capture that has ended has left mapped in a process. */
enum limpet_left {
	LIMPET_LEFT_NOTHING, /* or it cannot be read */
	LIMPET_LEFT_JUMPS,   /* thunks alone (thunks.h) */
	LIMPET_LEFT_AGENT,
	LIMPET_LEFT_SEALED, /* something that cannot be removed (sealed.h) */
};
enum limpet_left limpet_dormant_look(pid_t pid);

#endif
