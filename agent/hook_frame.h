/* The frame of a hook: what its functions share, and where a walk of the caller's stack begins. */
#ifndef LIMPET_AGENT_HOOK_FRAME_H
#define LIMPET_AGENT_HOOK_FRAME_H

#include "agent/agent.h"

/* The frame of a thunk's path (thunks.S). It ends with the caller's rbp and the return address. */
struct limpet_hook_frame {
	uint64_t args[6];
	uint64_t hook;
	uint64_t result;
	struct limpet_thread *thread;
	uint64_t held;   /* number taken before the original, LIMPET_HELD, and the time; 0: none */
	uint64_t aux;    /* usable size of the block that realloc got */
	uint64_t wanted; /* LIMPET_WANTED_*; in an overload, its number in the high half */
	uint64_t caller_fp;
	uint64_t caller_pc;
};

/* What to record of a call; under sampling not everything. */
#define LIMPET_WANTED_NEW 1u /* the block that it allocates */
#define LIMPET_WANTED_OLD 2u /* the block that it releases */
#define LIMPET_NESTED 4u     /* inside an unfinished hook (LIMPET_HOOK_NIM) */
#define LIMPET_HELD (1ull << 32)
#define LIMPET_HELD_TIME_SHIFT 33

static inline uint64_t limpet_frame_caller_sp(const struct limpet_hook_frame *frame)
{
	return (uint64_t)(uintptr_t)frame + sizeof(*frame);
}

#endif
