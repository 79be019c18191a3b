/* Looks for descriptions of stacks in what the threads have written and the collector has not read
 * yet: an event may come with a number whose description is in another thread's chunks.
 *
 * Whoever records such an event does so after the description was committed; so what is looked for
 * is there, unless its chunk was lost or the target lies. It reads descriptions alone, frees
 * nothing, and each of them once: it goes on where it stood. One thread, the collector's. */
#ifndef LIMPET_COLLECTOR_LOOK_AHEAD_H
#define LIMPET_COLLECTOR_LOOK_AHEAD_H

#include <stdbool.h>
#include <stdint.h>

#include "collector/stack_tree.h"
#include "common/err.h"
#include "injector/session.h"

struct limpet_look_ahead;

/* Both must outlive it. NULL: no memory. */
struct limpet_look_ahead *limpet_look_ahead_new(const struct limpet_segment *segment,
						struct limpet_stack_tree *tree) LIMPET_MUST_CHECK;
void limpet_look_ahead_free(struct limpet_look_ahead *ahead);

/* Before all streams are read: what a target that lies may make us do until then is bounded. */
void limpet_look_ahead_begin(struct limpet_look_ahead *ahead);
/* The collector reads that chunk of the thread from now on, and none before it. LIMPET_CHUNK_NONE:
 * the thread's stream has ended, and another one may begin. */
void limpet_look_ahead_follow(struct limpet_look_ahead *ahead, uint32_t thread, uint32_t chunk,
			      uint64_t sequence);
/* Reads on until the stack of that number is in the tree; false: nobody has described it. */
bool limpet_look_ahead_find(struct limpet_look_ahead *ahead, uint32_t number);

#endif
