/* Children that the target forked during a capture: they hold a copy of the agent, switched off
 * from the first instruction on, and slots that lead into it; or, forked while a thread was
 * hijacked, of the stub and of descriptors. */
#ifndef LIMPET_INJECTOR_CHILDREN_H
#define LIMPET_INJECTOR_CHILDREN_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/err.h"

struct limpet_children {
	unsigned cleaned;
	pid_t *left; /* could not be cleaned; malloc'ed */
	size_t left_count, left_capacity;
};

/* Finds every process but `parent`, and those of which `is_followed` answers true (NULL: none),
 * that was forked from a target of ours and has one of our objects, and removes it there as
 * from the parent, until the deadline.
 * 0 or -errno; what could not be cleaned is listed. -ENOMEM: one of these is not, and the search
 * ended there; the list is to be released all the same. */
int limpet_children_clean(pid_t parent, uint64_t deadline_ns,
			  bool (*is_followed)(void *context, pid_t pid), void *context,
			  struct limpet_children *ret);
void limpet_children_done(struct limpet_children *children);

#endif
