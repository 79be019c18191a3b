/* Other stacks than the thread's own: a fibre, an alternate signal stack and the one that the
 * signal has interrupted.
 *
 * What may be read of them the collector has looked up in the maps; until it has, a stack is cut to
 * its first frame and counted. A mapping on which the thread is now is there; that the rest of it
 * still is as the collector saw it some time ago, no more than probable: what was unmapped since
 * from above a stack that is in use is read only if its frames lead there. */
#ifndef LIMPET_AGENT_STACK_RANGES_H
#define LIMPET_AGENT_STACK_RANGES_H

#include "agent/agent.h"

struct limpet_known_stacks {
	uint64_t low, high;         /* on which the walk begins, from there on */
	uint64_t own_low, own_high; /* the thread's own; 0: unknown */
};

/* Answers the end of the range that holds `sp`; 0: none is known. */
uint64_t limpet_stack_range_end(uint64_t sp);
/* The collector is to look for it. */
void limpet_stack_range_ask(uint64_t sp);
/* They were of use: the collector keeps looking whether they are still there. */
void limpet_stack_ranges_note_use(void);

/* A reader for the walk: `memory` is struct limpet_known_stacks. */
static inline __attribute__((always_inline)) bool limpet_known_stacks_read(const void *memory,
									   uint64_t address,
									   uint64_t *ret_word)
{
	const struct limpet_known_stacks *stacks = memory;
	const uint64_t bytes = sizeof(*ret_word);

	if ((address < stacks->low || address >= stacks->high || stacks->high - address < bytes) &&
	    (address < stacks->own_low || address >= stacks->own_high ||
	     stacks->own_high - address < bytes))
		return false;
	*ret_word = *(const uint64_t *)(uintptr_t)address;
	return true;
}

#endif
