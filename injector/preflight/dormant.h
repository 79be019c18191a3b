/* Finds agents that were left behind: mapped into a process (or only open there), while nobody
 * collects from them.
 *
 * This is what remains if limpet was killed, or could not prove that unloading was safe. Only /proc
 * is read; nothing is changed. */
#ifndef LIMPET_INJECTOR_PREFLIGHT_DORMANT_H
#define LIMPET_INJECTOR_PREFLIGHT_DORMANT_H

#include <stdbool.h>
#include <sys/types.h>

#include "common/err.h"

struct limpet_target;

/* Lists processes with an agent but without a living collector, ascending; only those whose maps we
 * may read. *ret_pids is malloc'ed; returns their number. An agent counts as watched, and is left
 * out, if some process without an agent (the collector) maps the same shared memory, in whatever
 * container it runs; so forked children of a captured process are left out, too. A capture that we
 * may not examine (root's, for other users) is left out if its control socket exists. */
int limpet_dormant_find(pid_t **ret_pids) LIMPET_MUST_CHECK;

/* The same for one process: 1 dormant, 0 not, -errno if its maps cannot be read. Waits up to two
 * seconds if another process has the memory but does not answer: it may just have been killed. */
int limpet_dormant_check(const struct limpet_target *target) LIMPET_MUST_CHECK;

/* Lists other processes with an agent that nobody watches and that is the same as the target's:
 * one was forked from the other. Ascending; *ret_pids is malloc'ed; returns their number. */
int limpet_dormant_relatives(const struct limpet_target *target,
			     pid_t **ret_pids) LIMPET_MUST_CHECK;

/* What a finished capture has left mapped in a process. */
enum limpet_left {
	LIMPET_LEFT_NOTHING, /* or it cannot be read */
	LIMPET_LEFT_JUMPS,   /* only thunks (thunks.h) */
	LIMPET_LEFT_AGENT,
	LIMPET_LEFT_MSEAL, /* mappings that cannot be removed (mseal.h) */
};
/* `err`: with words for LIMPET_LEFT_MSEAL alone. */
enum limpet_left limpet_dormant_probe(const struct limpet_target *target, struct limpet_err *err);
/* Whether the process is frozen, so that nothing can be removed from it until it is thawed; then
 * says so, with the command that thaws it as the hint. */
bool limpet_dormant_is_frozen(const struct limpet_target *target, struct limpet_err *err);

#endif
