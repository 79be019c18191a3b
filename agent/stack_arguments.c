/* Arguments on the stack are the lowest part of the caller's frame (System V ABI, 3.2.3), and end
 * below its CFA. If the caller's code has no unwind row, a frame pointer that points upwards is
 * enough: it points to a frame's base, or at least not to an argument, and so above all
 * arguments. */
#include "agent/stack_arguments.h"

#include "agent/stack_walk.h"

/* Less than a page together with the path's frame: the copy cannot skip a guard page. While the
 * stack is not known, as in a thread's first calls, no more is copied. */
#define SMALL_FRAME_BYTES 3584u
#define LARGE_FRAME_BYTES 16384u
#define STACK_RESERVE_BYTES 16384u /* below a large copy: for the function itself */

static inline __attribute__((always_inline)) bool read_caller(const void *memory, uint64_t address,
							      uint64_t *ret_word)
{
	return address && limpet_walk_read_ranges(memory, address, ret_word);
}

/* By the tables of the list `current`. */
static int64_t arguments_by(const struct limpet_thread *thread,
			    const struct limpet_hook_frame *frame, uint32_t current)
{
	uint32_t gone = __atomic_load_n(&limpet_shm->gone_count, __ATOMIC_ACQUIRE);
	uint64_t high = __atomic_load_n(&thread->stack_high, __ATOMIC_ACQUIRE);
	struct limpet_walk_map map = limpet_stack_walk_map(current, gone);
	struct limpet_walk_cache cache = limpet_stack_walk_cache();
	struct limpet_walk_frame caller = limpet_stack_first_frame(frame);
	uint64_t sp = caller.sp, bytes, most = SMALL_FRAME_BYTES;
	bool known = high && sp >= thread->stack_low && sp < high;
	struct limpet_walk_ranges readable = {.low = {sp}, .high = {sp + SMALL_FRAME_BYTES}};

	if (known) {
		if (sp - thread->stack_low >= LARGE_FRAME_BYTES + STACK_RESERVE_BYTES)
			most = LARGE_FRAME_BYTES;
		readable.high[0] = high - sp < most ? high : sp + most;
	}
	/* If the stack's end is not known, nothing is read through a frame pointer that no unwind
	 * row confirms. */
	if (!known && limpet_walk_find_rule(&map, &cache, caller.pc - 1).cfa <= LIMPET_CFA_UNKNOWN)
		return LIMPET_PASS;
	if (limpet_walk_step(&map, &cache, read_caller, &readable, &caller) != LIMPET_WALK_MORE ||
	    caller.flags & LIMPET_FRAME_SIGNAL || (caller.flags & LIMPET_FRAME_BY_FP && !known))
		return LIMPET_PASS;
	bytes = caller.sp - sp;
	return caller.sp < sp || caller.sp > readable.high[0] || bytes % 8 ? LIMPET_PASS
									   : (int64_t)bytes;
}

int64_t limpet_stack_arguments(const struct limpet_thread *thread,
			       const struct limpet_hook_frame *frame)
{
	for (unsigned i = 0; i < LIMPET_STACK_WALKS; i++) {
		uint32_t current = __atomic_load_n(&limpet_shm->unwind_current, __ATOMIC_ACQUIRE);
		int64_t bytes = arguments_by(thread, frame, current);

		if (__builtin_expect(limpet_stack_is_in_force(current), 1))
			return bytes;
	}
	return LIMPET_PASS;
}
