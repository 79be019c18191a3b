#include "agent/stack_functions.h"

#include "agent/stack.h"

static bool may_have_function(uint64_t frame)
{
	return frame & LIMPET_FRAME_INTERPRETED || !limpet_stack_module(frame - 1);
}

void limpet_stack_functions(struct limpet_walk_by_fp *by_fp, const uint64_t *frames,
			    const struct limpet_known_stacks *stacks)
{
	const uint64_t offset = (uint64_t)(int64_t)limpet_shm->interpreter.function;
	uint32_t kept = 0;

	for (uint32_t i = 0; i < by_fp->count; i++) {
		const uint64_t at = by_fp->list[i];
		uint64_t word;

		if (!may_have_function(frames[LIMPET_FUNCTION_FRAME(at)]) ||
		    !limpet_known_stacks_read(stacks, LIMPET_FUNCTION_SLOT(at) + offset, &word) ||
		    (word & 7) != 1 || word >> 47)
			continue;
		by_fp->list[kept++] = LIMPET_FUNCTION_WORD(LIMPET_FUNCTION_FRAME(at), word);
	}
	by_fp->count = kept;
}
