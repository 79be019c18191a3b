#include "agent/stack_left.h"

#include "agent/stack_ranges.h"
#include "agent/stack_walk.h"

#define ROOT_WORDS (32u << 10) /* above the outermost frame: thread-local storage, environment */
#define CHAIN_FRAMES 4096u

struct own_stack {
	uint64_t low, high;
};

static inline __attribute__((always_inline)) bool read_own(const void *memory, uint64_t address,
							   uint64_t *ret_word)
{
	const struct own_stack *stack = memory;

	if (!address || address < stack->low || address > stack->high - sizeof(*ret_word))
		return false;
	*ret_word = *(const uint64_t *)(uintptr_t)address;
	return true;
}

static bool is_root(const struct limpet_walk_map *map, const struct limpet_walk_cache *cache,
		    uint64_t pc)
{
	return limpet_walk_find_rule(map, cache, pc - 1).cfa == LIMPET_CFA_END;
}

/* A coroutine may have its stack in an array on this one: then the thread's root is further up. */
static bool is_outermost(const struct own_stack *stack, const struct limpet_walk_map *map,
			 const struct limpet_walk_cache *cache, uint64_t sp)
{
	if (stack->high - sp > ROOT_WORDS * sizeof(uint64_t))
		return false;
	for (uint64_t word; read_own(stack, sp, &word); sp += sizeof(word))
		if (limpet_walk_plausible_pc(word) && is_root(map, cache, word))
			return false;
	return true;
}

/* Frame by frame, by unwind rows only, up to the thread's first function. */
static bool leads_to_root(const struct own_stack *stack, struct limpet_walk_frame frame,
			  uint32_t current)
{
	const struct limpet_walk_map map = limpet_stack_walk_map(
		current, __atomic_load_n(&limpet_shm->gone_count, __ATOMIC_ACQUIRE));
	const struct limpet_walk_cache cache = limpet_stack_walk_cache();

	for (unsigned i = 0; i < CHAIN_FRAMES; i++) {
		if (frame.sp >= stack->high ||
		    frame.flags & (LIMPET_FRAME_SIGNAL | LIMPET_FRAME_BY_FP | LIMPET_FRAME_DOUBT))
			return false;
		if (is_root(&map, &cache, frame.pc))
			return is_outermost(stack, &map, &cache, frame.sp);
		if (limpet_walk_step(&map, &cache, read_own, stack, &frame) != LIMPET_WALK_MORE)
			return false;
	}
	return false;
}

bool limpet_stack_is_above_entry(const struct limpet_thread *thread,
				 const struct limpet_hook_frame *hook_frame)
{
	const struct limpet_walk_frame first = limpet_stack_first_frame(hook_frame);
	struct own_stack stack;

	limpet_stack_own(thread, &stack.low, &stack.high);
	if (!stack.high || thread->entry_sp < stack.low || thread->entry_sp >= first.sp)
		return false;
	for (unsigned i = 0; i < LIMPET_STACK_WALKS; i++) {
		uint32_t current = __atomic_load_n(&limpet_shm->unwind_current, __ATOMIC_ACQUIRE);
		bool leads = leads_to_root(&stack, first, current);

		if (__builtin_expect(limpet_stack_is_in_force(current), 1))
			return leads;
	}
	return false;
}
