/* The start of every walk in the agent: the tables in use, and the hook's caller. */
#ifndef LIMPET_AGENT_STACK_WALK_H
#define LIMPET_AGENT_STACK_WALK_H

#include "agent/hook_frame.h"

/* `current` is limpet_shm.unwind_current, `gone` limpet_shm.gone_count, both loaded with acquire.
 */
static inline struct limpet_walk_map limpet_stack_walk_map(uint32_t current, uint32_t gone)
{
	uint32_t list = current & 1;

	return (struct limpet_walk_map){
		.modules = limpet_hot.modules + list * LIMPET_MAX_UNWIND_MODULES,
		.arena = limpet_unwind_arena,
		.sorted = limpet_shm->unwind_count[list],
		.count = limpet_shm->unwind_count[list],
		.generation = current << 16 ^ gone,
		.gone = limpet_shm->gone,
		.gone_then = limpet_shm->unwind_gone[list],
		.gone_now = gone,
		.gone_places = limpet_shm->gone_places,
		.interpreter = limpet_shm->interpreter.is_known ? &limpet_shm->interpreter : NULL,
	};
}

static inline struct limpet_walk_cache limpet_stack_walk_cache(void)
{
	return (struct limpet_walk_cache){limpet_hot.rules, LIMPET_RULE_CACHE - 1};
}

/* Whether a list of tables is still in use: while it is, nobody writes to it. A thread that was
 * preempted during a walk may have read two lists. Pairs with the release of the next list's
 * number. */
static inline bool limpet_stack_is_in_force(uint32_t current)
{
	__atomic_thread_fence(__ATOMIC_ACQUIRE);
	return __atomic_load_n(&limpet_shm->unwind_current, __ATOMIC_RELAXED) == current;
}

/* How often a walk is made anew when the tables were replaced meanwhile. */
#define LIMPET_STACK_WALKS 4u

static inline struct limpet_walk_frame limpet_stack_first_frame(
	const struct limpet_hook_frame *hook_frame)
{
	return (struct limpet_walk_frame){.pc = hook_frame->caller_pc,
					  .sp = limpet_frame_caller_sp(hook_frame),
					  .fp = hook_frame->caller_fp};
}

#endif
