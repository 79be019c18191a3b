/* Children that the target forked during a capture. They hold a copy of the agent, which is
 * switched off from their first instruction on, and slots that lead into it. A child forked while a
 * thread was hijacked holds a copy of the boot stub. */
#ifndef LIMPET_INJECTOR_SESSION_CHILDREN_H
#define LIMPET_INJECTOR_SESSION_CHILDREN_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/err.h"

struct limpet_target;
struct limpet_tracer;

struct limpet_children {
	unsigned cleaned;
	pid_t *left; /* could not be cleaned; malloc'ed */
	size_t left_count, left_capacity;
};

/* Finds every process that was forked from a target of ours and holds one of our objects, and
 * removes the object as from the parent, until the deadline. Skips `parent`, and processes, each
 * by its pid as it is found among all, for which `is_followed` returns true (NULL: none). Returns 0
 * or -errno, and lists the processes that could not be cleaned. On an error the list may lack some:
 * -ENOMEM: one that was found; -EAGAIN: they forked for as long as it was looked for them; others:
 * /proc could not be read. The list must be released all the same. */
int limpet_children_clean(struct limpet_tracer *tracer, const struct limpet_target *parent,
			  uint64_t deadline_ns, bool (*is_followed)(void *context, pid_t pid),
			  void *context, struct limpet_children *ret);
void limpet_children_done(struct limpet_children *children);

#endif
