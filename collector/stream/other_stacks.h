/* Stacks other than the threads' own, as those of fibres and signal handlers: publishes for the
 * agent in which ranges of memory it may walk them.
 *
 * The agent reports the stack pointers that lie in no range that it knows; limpet looks in the
 * kernel's list of mappings, and publishes ranges of that list alone. Addresses are the target's.
 * Private memory but for what is published; one thread. */
#ifndef LIMPET_COLLECTOR_STREAM_OTHER_STACKS_H
#define LIMPET_COLLECTOR_STREAM_OTHER_STACKS_H

#include <stdint.h>

#include "common/err.h"
#include "injector/session/session.h"

struct limpet_other_stacks;

/* NULL: no memory. `session` must outlive it. */
struct limpet_other_stacks *limpet_other_stacks_new(struct limpet_session *session)
	LIMPET_MUST_CHECK;
void limpet_other_stacks_free(struct limpet_other_stacks *stacks);

/* Publishes the mappings of the session's list that may be stacks: the first walks there need not
 * wait for a look at the maps. */
void limpet_other_stacks_begin(struct limpet_other_stacks *stacks);
/* Publishes ranges for the stack pointers that the agent reported, in at most a twentieth of the
 * time. As long as some ranges are in use, they are checked again. */
void limpet_other_stacks_publish(struct limpet_other_stacks *stacks, uint64_t now_ns);

#endif
