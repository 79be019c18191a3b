/* Of the frames on a stack that a runtime made, which functions they are of. */
#ifndef LIMPET_AGENT_STACK_FUNCTIONS_H
#define LIMPET_AGENT_STACK_FUNCTIONS_H

#include "agent/agent.h"
#include "agent/stack_ranges.h"

/* Where a walk is to put the frames that it passes by frame pointer; NULL: there is no runtime
 * whose frames tell their functions. */
static inline struct limpet_walk_by_fp *limpet_stack_by_fp(struct limpet_walk_by_fp *by_fp)
{
	by_fp->count = 0;
	return limpet_shm->interpreter.is_known ? by_fp : NULL;
}

/* Replaces the frame pointers by what their frames have for their functions, as
 * LIMPET_FUNCTION_WORD; leaves out frames of modules, and those without a function. `frames`: those
 * of the walk. */
void limpet_stack_functions(struct limpet_walk_by_fp *by_fp, const uint64_t *frames,
			    const struct limpet_known_stacks *stacks);

#endif
