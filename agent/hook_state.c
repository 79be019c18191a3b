#include "agent/hook_state.h"
#include "agent/stack_left.h"

#define LIMPET_MAX_WITNESS 104u /* the farthest of limpet_entry_witness */
_Static_assert(offsetof(struct limpet_hook_frame, caller_pc) == LIMPET_MAX_WITNESS,
	       "a probe's witness");

/* Only reads the thread's own stack, as far as it is known, or this call's frame. */
static bool witness_is_gone(const struct limpet_thread *thread)
{
	const uint64_t low = (uint64_t)(uintptr_t)limpet_paths;
	const uint64_t bytes = (uint64_t)(uintptr_t)limpet_paths_end - low;
	uint64_t entry = thread->entry_sp;

	if (entry % sizeof(uint64_t) || entry < thread->stack_low + LIMPET_MAX_WITNESS ||
	    entry + LIMPET_MAX_WITNESS + sizeof(uint64_t) > thread->stack_high)
		return false;
	for (unsigned i = 0; i < LIMPET_ENTRY_WITNESSES; i++) {
		uint64_t word =
			*(const uint64_t *)(uintptr_t)(entry + (uint64_t)limpet_entry_witness[i]);

		if (word - low <= bytes || limpet_may_be_return_probe(word))
			return false;
	}
	return true;
}

/* Whether the hook noted in the state was left by longjmp, an exception or cancellation. This never
 * relies on the order of addresses: the call may come from a signal handler on a stack at higher
 * addresses, or from another coroutine. The proof is memory that an unfinished hook would need:
 * this call's frame covers it, or its return address was overwritten. Otherwise it is the chain of
 * frames that leads here. */
static bool was_left(const struct limpet_thread *thread, const struct limpet_hook_frame *frame)
{
	uint64_t distance = (uint64_t)(uintptr_t)frame - thread->entry_sp;

	return distance + sizeof(*frame) - 1 < 2 * sizeof(*frame) - 1 || witness_is_gone(thread) ||
	       limpet_stack_is_above_entry(thread, frame);
}

const struct limpet_hook *limpet_hook_outer(const struct limpet_thread *thread)
{
	/* Read once: it is 0 in a child that is forked meanwhile. */
	const uint32_t hook = __atomic_load_n(&thread->depth, __ATOMIC_RELAXED) - 1;

	return thread->phase == LIMPET_PHASE_OUTSIDE && hook < LIMPET_MAX_HOOKS
		       ? &limpet_hooks[hook]
		       : NULL;
}

bool limpet_hook_has_no_inner_calls(const struct limpet_hook *outer)
{
	return limpet_family[outer->symbol].flags & (LIMPET_FAMILY_MMAP | LIMPET_FAMILY_LOADER);
}

/* The maximum distance of an allocator's inner calls below its hook. Calls from further below, or
 * from above, are on another stack, a coroutine's. */
#define INNER_REACH 65536u

__attribute__((noinline)) struct limpet_thread *limpet_hook_settle(
	struct limpet_thread *thread, const struct limpet_hook_frame *frame)
{
	const struct limpet_hook *outer;

	if (was_left(thread, frame)) {
		thread->phase = LIMPET_PHASE_OUTSIDE;
		thread->depth = 0;
		limpet_record_forget_intents(thread);
		return thread;
	}
	outer = limpet_hook_outer(thread);
	if (thread->phase == LIMPET_PHASE_RECORDING ||
	    (thread->entry_sp - (uint64_t)(uintptr_t)frame > INNER_REACH &&
	     !(outer && limpet_hook_has_no_inner_calls(outer))))
		limpet_hook_count_lost(&limpet_shm->lost_state_in_use);
	return NULL;
}

/* Calls under an unfinished hook that are not inner calls.
 *
 * A signal handler that interrupts mmap may allocate, and dlsym does so by itself. If an allocator
 * library's operator new finds no memory, it calls the program's new handler and throws. Other code
 * allocates the exception, under the library's unfinished hook, and frees it after the hook was
 * left. */
struct limpet_thread *limpet_hook_beside(const struct limpet_hook_frame *frame,
					 const struct limpet_hook *hook)
{
	uint64_t sp = limpet_frame_caller_sp(frame);
	struct limpet_thread *thread = limpet_thread_self(sp);
	const bool sampled = limpet_shm->sample_bytes || limpet_overload_now();
	const struct limpet_hook *outer = thread ? limpet_hook_outer(thread) : NULL;
	const struct limpet_unwind_module *module;

	if (!outer)
		return NULL;
	if (limpet_hook_has_no_inner_calls(outer)) {
		if (sampled)
			limpet_hook_count_lost(&limpet_shm->lost_state_in_use);
		return sampled ? NULL : thread;
	}
	if (sampled)
		return NULL;
	/* Finalizers run inside Nim's allocator, which gets its own memory from mmap. */
	if (outer->flags & LIMPET_HOOK_NIM)
		return limpet_family[hook->symbol].flags & LIMPET_FAMILY_MMAP ? NULL : thread;
	if (!(limpet_family[outer->symbol].flags & LIMPET_FAMILY_CXX) ||
	    (outer->op != LIMPET_OP_MALLOC && outer->op != LIMPET_OP_MEMALIGN))
		return NULL;
	module = limpet_stack_module(outer->original);
	if (!module || (frame->caller_pc >= module->start && frame->caller_pc < module->end))
		return NULL;
	return thread;
}
