/* The calling thread's state around an original: the first and last steps of every hook. */
#ifndef LIMPET_AGENT_HOOK_STATE_H
#define LIMPET_AGENT_HOOK_STATE_H

#include "agent/hook_frame.h"
#include "agent/record.h"
#include "agent/sampled.h"
#include "agent/stack.h"
#include "agent/stack_describe.h"

/* For a state inside a hook: NULL if this call must pass, otherwise the state is reset. Passed
 * calls are counted as lost, except an allocator's inner calls: these come from below the hook, and
 * the outer call is recorded. limpet_hook_beside() records or counts calls under a hook whose
 * original calls nothing. */
__attribute__((noinline)) struct limpet_thread *limpet_hook_settle(
	struct limpet_thread *thread, const struct limpet_hook_frame *frame);
/* The hook whose original the thread executes; NULL: none, or the thread is in the agent's own
 * code. */
const struct limpet_hook *limpet_hook_outer(const struct limpet_thread *thread);
/* Whether calls under it are not part of it. mmap and similar calls allocate nothing: calls under
 * them come from a signal handler. What dlsym allocates and frees (the text of an error) it does
 * for the program, as without a hook. */
bool limpet_hook_has_no_inner_calls(const struct limpet_hook *outer);

/* After limpet_hook_begin() returned NULL: the calling thread, if the call is not an inner one;
 * NULL: it is. */
struct limpet_thread *limpet_hook_beside(const struct limpet_hook_frame *frame,
					 const struct limpet_hook *hook);

/* A call of a function of which only that is recorded. `may_ask`: the allocator may be called,
 * since the thread's state says that a hook was begun; it is worth it if limpet_hook_is_numbered().
 * In hook_noted.c. */
void limpet_hook_note(const struct limpet_hook *hook, const uint64_t *args, bool may_ask);
bool limpet_hook_is_numbered(const struct limpet_hook *hook, const uint64_t *args);

/* Size of the block that contains the address. In hook_nim.c. */
uint64_t limpet_nim_bytes(uint64_t address);

/* The arguments that the op uses. */
static inline const uint64_t *limpet_hook_args(const struct limpet_hook_frame *frame,
					       const struct limpet_hook *hook)
{
	return frame->args + LIMPET_HOOK_SKIP(hook->flags);
}

/* Calls what the program did not call here itself. At a slot that is a call by an address, of which
 * a compiler knows nothing: registers change as for any. At a function's entry its caller may count
 * on all that the function leaves alone (-fipa-ra), and the paths of thunks.S keep the general
 * registers only. */
static inline uint64_t limpet_hook_ask(const struct limpet_hook *hook, uint64_t a, uint64_t b,
				       uint64_t c)
{
	if (hook->flags & LIMPET_HOOK_ENTRY)
		return limpet_call_beside(a, b, c, hook->usable_size);
	return ((limpet_call_fn *)(uintptr_t)hook->usable_size)(a, b, c);
}

static inline uint64_t limpet_hook_usable_size(const struct limpet_hook *hook, uint64_t block)
{
	if (__builtin_expect(hook->flags & LIMPET_HOOK_NIM, 0))
		return limpet_nim_bytes(block);
	return hook->usable_size ? limpet_hook_ask(hook, block, 0, 0) : 0;
}

/* Relaxed: the collector only needs to know which stack the hook is on. */
static inline void note_entry(struct limpet_thread *thread, const struct limpet_hook_frame *frame)
{
	__atomic_store_n(&thread->entry_sp, (uint64_t)(uintptr_t)frame, __ATOMIC_RELAXED);
}

static inline void limpet_hook_set_phase(struct limpet_thread *thread, uint32_t phase)
{
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	thread->phase = phase;
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
}

/* Rare. `time`: of the event; what comes after the end of the capture is missed by nobody. Nor is
 * what a forked child does. */
static inline void limpet_hook_count_lost_at(uint64_t *count, uint32_t time)
{
	if (limpet_is_alive() && (!limpet_record_has_ended() || limpet_record_is_late(time)))
		__atomic_fetch_add(count, 1, __ATOMIC_RELAXED);
}

static inline void limpet_hook_count_lost(uint64_t *count)
{
	limpet_hook_count_lost_at(count, LIMPET_RECORD_NOW);
}

static inline void limpet_hook_done(struct limpet_thread *thread)
{
	__atomic_store_n(&thread->depth, 0, __ATOMIC_RELEASE);
}

/* The calling thread's state, now recording; NULL if this call must pass. */
static inline __attribute__((always_inline)) struct limpet_thread *limpet_hook_begin(
	struct limpet_hook_frame *frame)
{
	uint64_t sp = limpet_frame_caller_sp(frame);
	struct limpet_thread *thread = limpet_thread_self(sp);

	if (__builtin_expect(!thread, 0)) {
		limpet_hook_count_lost(&limpet_shm->lost_no_thread);
		return NULL;
	}
	if (__builtin_expect(thread->phase | thread->depth, 0) &&
	    !limpet_hook_settle(thread, frame))
		return NULL;
	/* A signal handler must neither find a half-written entry nor leave its own marks in one:
	 * until the state is whole, its calls pass and are counted. entry_sp is stored before and
	 * after the phase: a handler in between would otherwise be compared with an older value, or
	 * leave its own. */
	note_entry(thread, frame);
	limpet_hook_set_phase(thread, LIMPET_PHASE_RECORDING);
	note_entry(thread, frame);
	return thread;
}

static inline uint32_t limpet_hook_capture(struct limpet_thread *thread,
					   const struct limpet_hook_frame *frame,
					   const struct limpet_hook *hook)
{
	uint32_t stack = limpet_stack_capture(thread, frame);
	uint32_t owner = LIMPET_HOOK_OWNER(hook->flags);

	return __builtin_expect(owner != 0, 0) ? limpet_stack_mark(thread, stack, owner) : stack;
}

/* In an overload: whether the freed block was not recorded. Checked before the thread's state: the
 * entry must be removed even if the call passes. */
static inline bool limpet_hook_was_not_recorded(uint64_t block)
{
	uint32_t overload = limpet_overload_now();

	return __builtin_expect(overload != 0, 0) && limpet_overload_remove(block, overload);
}

static inline uint64_t limpet_hook_choose(struct limpet_thread *thread, const uint64_t *args,
					  uint32_t op)
{
	if (__builtin_expect(!limpet_shm->sample_bytes && !limpet_overload_now(), 1))
		return LIMPET_WANTED_NEW | LIMPET_WANTED_OLD;
	return limpet_sample_choose(thread, op, args);
}

/* The size of a Nim block or of a string is known only when it has been allocated. */
static inline uint64_t limpet_hook_choose_first(struct limpet_thread *thread, const uint64_t *args,
						const struct limpet_hook *hook)
{
	if ((hook->flags & LIMPET_HOOK_NIM && hook->op != LIMPET_OP_FREE) ||
	    limpet_op_is_string(hook->op))
		return 0;
	return limpet_hook_choose(thread, args, hook->op);
}

#endif
