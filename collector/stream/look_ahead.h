/* Searches for descriptions of stacks in what the threads have written and the collector has not
 * read yet: the description of an event's stack may be in another thread's chunks.
 *
 * A thread records such an event after the description was committed, so that the description is
 * there, unless its chunk was lost or the target forges records. Only descriptions are read, each
 * of them once: a search continues where the last one ended. No chunk is freed. Only for the
 * collector's thread. */
#ifndef LIMPET_COLLECTOR_STREAM_LOOK_AHEAD_H
#define LIMPET_COLLECTOR_STREAM_LOOK_AHEAD_H

#include <stdbool.h>
#include <stdint.h>

#include "collector/stream/stack_tree.h"
#include "common/err.h"
#include "injector/session/session.h"

struct limpet_look_ahead;

/* Both must outlive it. NULL: no memory. */
struct limpet_look_ahead *limpet_look_ahead_new(const struct limpet_segment *segment,
						struct limpet_stack_tree *tree) LIMPET_MUST_CHECK;
void limpet_look_ahead_free(struct limpet_look_ahead *ahead);

/* Call before all streams are read: until the next call, what a malicious target can cause is
 * bounded. */
void limpet_look_ahead_begin(struct limpet_look_ahead *ahead);
/* The collector now reads this chunk of the thread, and none before it. LIMPET_CHUNK_NONE: the
 * thread's stream has ended, and another one may begin. */
void limpet_look_ahead_follow(struct limpet_look_ahead *ahead, uint32_t thread, uint32_t chunk,
			      uint64_t sequence);
/* Searches until the stack with that number is in the tree; false: there is no description of
 * it. */
bool limpet_look_ahead_find(struct limpet_look_ahead *ahead, uint32_t number);

#endif
