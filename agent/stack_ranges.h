/* Stacks other than the thread's own: a fibre's, an alternate signal stack, and the one that the
 * signal has interrupted.
 *
 * The collector looks up in the maps what may be read of them; until then, such a stack is cut to
 * its first frame and counted. The page on which the thread runs exists, and so do those of the
 * frames above; the rest of the mapping may be gone since the collector looked. A frame pointer, in
 * code without unwind information, may lead there: it is followed within pages that are known to be
 * there (limpet_walk_frame.sure). */
#ifndef LIMPET_AGENT_STACK_RANGES_H
#define LIMPET_AGENT_STACK_RANGES_H

#include "agent/agent.h"

struct limpet_known_stacks {
	uint64_t low, high;         /* where the walk begins, from there on */
	uint64_t own_low, own_high; /* the thread's own; 0: unknown */
};

/* Returns the end of the range that contains `sp`; 0: none is known. */
uint64_t limpet_stack_range_end(uint64_t sp);
/* Asks the collector to look for the stack of `sp`. */
void limpet_stack_range_request(uint64_t sp);
/* A range was used: the collector keeps checking whether the ranges still exist. */
void limpet_stack_ranges_note_use(void);

/* The thread's own stack; high 0: unknown. The bounds are 0 in a child that is forked meanwhile. */
static inline void limpet_stack_own(const struct limpet_thread *thread, uint64_t *ret_low,
				    uint64_t *ret_high)
{
	const uint64_t high = __atomic_load_n(&thread->stack_high, __ATOMIC_ACQUIRE);

	*ret_low = __atomic_load_n(&thread->stack_low, __ATOMIC_ACQUIRE);
	*ret_high = __atomic_load_n(&thread->stack_high, __ATOMIC_RELAXED) ? high : 0;
}

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
