/* malloc and free, the two hooks that matter most: they call the original themselves. */
#include "agent/hook.h"
#include "agent/hook_state.h"

/* Writes one record, and does not touch the marks of the outer hook, which is still unfinished. */
static void record_beside(struct limpet_thread *thread, const struct limpet_hook_frame *frame,
			  const struct limpet_hook *hook, uint32_t type, uint64_t block,
			  uint64_t size)
{
	uint32_t stack = 0;

	limpet_hook_set_phase(thread, LIMPET_PHASE_RECORDING);
	if (type == LIMPET_EVENT_ALLOC)
		stack = limpet_hook_capture(thread, frame, hook);
	limpet_record_append(thread, type, block, size, stack);
	limpet_record_publish(thread);
	limpet_hook_set_phase(thread, LIMPET_PHASE_OUTSIDE);
}

typedef uint64_t malloc_fn(uint64_t a, uint64_t b, uint64_t c);

static __attribute__((noinline)) struct limpet_answer pass_on(uint64_t a, uint64_t b, uint64_t c,
							      uint64_t hook,
							      struct limpet_hook_frame *frame)
{
	frame->args[0] = a;
	frame->args[1] = b;
	frame->args[2] = c;
	frame->hook = hook;
	return (struct limpet_answer){0, 1};
}

/* In an overload, with the state that limpet_hook_begin() returned: most blocks are not sampled and
 * are only added to the table. */
static __attribute__((noinline)) struct limpet_answer overloaded_malloc(
	struct limpet_thread *thread, uint32_t overload, struct limpet_hook_frame *frame)
{
	const uint64_t *args = frame->args;
	malloc_fn *original = (malloc_fn *)(uintptr_t)limpet_hooks[frame->hook].original;
	bool room = __atomic_load_n(&limpet_shm->overload_room, __ATOMIC_RELAXED);

	if (room ||
	    !limpet_sample_passes(&limpet_own(thread)->sample, limpet_sample_charge(args[0]))) {
		limpet_hook_set_phase(thread, LIMPET_PHASE_OUTSIDE);
		if (!limpet_hook_enter(frame))
			return (struct limpet_answer){0, 1};
		frame->result = original(args[0], args[1], args[2]);
		limpet_hook_exit(frame);
		return (struct limpet_answer){frame->result, 0};
	}
	thread->depth = (uint32_t)frame->hook + 1;
	limpet_hook_set_phase(thread, LIMPET_PHASE_OUTSIDE);
	frame->result = original(args[0], args[1], args[2]);
	if (!limpet_is_alive())
		return (struct limpet_answer){frame->result, 0};
	limpet_hook_set_phase(thread, LIMPET_PHASE_RECORDING);
	if (frame->result)
		limpet_overload_note(frame->result, overload);
	limpet_hook_done(thread);
	limpet_hook_set_phase(thread, LIMPET_PHASE_OUTSIDE);
	return (struct limpet_answer){frame->result, 0};
}

/* A call for which limpet_hook_begin() returned NULL. */
static __attribute__((noinline)) struct limpet_answer malloc_inside(uint64_t a, uint64_t b,
								    uint64_t c, uint64_t hook,
								    struct limpet_hook_frame *frame)
{
	struct limpet_thread *thread = limpet_hook_beside(frame, &limpet_hooks[hook]);
	uint64_t result;

	if (!thread)
		return pass_on(a, b, c, hook, frame);
	result = ((malloc_fn *)(uintptr_t)limpet_hooks[hook].original)(a, b, c);
	if (result && __atomic_load_n(&limpet_control->on, __ATOMIC_ACQUIRE))
		record_beside(thread, frame, &limpet_hooks[hook], LIMPET_EVENT_ALLOC, result, a);
	return (struct limpet_answer){result, 0};
}

static __attribute__((noinline)) bool free_inside(uint64_t block, uint64_t hook,
						  const struct limpet_hook_frame *frame)
{
	struct limpet_thread *thread = limpet_hook_beside(frame, &limpet_hooks[hook]);

	if (thread)
		record_beside(thread, frame, &limpet_hooks[hook], LIMPET_EVENT_FREE, block,
			      limpet_hook_usable_size(&limpet_hooks[hook], block));
	return thread;
}

struct limpet_answer limpet_hook_malloc(uint64_t a, uint64_t b, uint64_t c, uint64_t hook,
					struct limpet_hook_frame *frame)
{
	malloc_fn *original = (malloc_fn *)(uintptr_t)limpet_hooks[hook].original;
	uint32_t overload = limpet_overload_now();
	struct limpet_thread *thread = limpet_hook_begin(frame);
	uint64_t result;

	/* From here on, mark the thread as inside a hook before calling anything. */
	if (__builtin_expect(!thread, 0))
		return malloc_inside(a, b, c, hook, frame);
	if (__builtin_expect(overload != 0, 0)) {
		pass_on(a, b, c, hook, frame);
		return overloaded_malloc(thread, overload, frame);
	}
	thread->depth = (uint32_t)hook + 1;
	limpet_hook_set_phase(thread, LIMPET_PHASE_OUTSIDE);
	result = original(a, b, c);
	/* A signal handler may have forked during the original: the child must not write to memory
	 * that the parent uses. */
	if (__builtin_expect(!limpet_is_alive(), 0))
		return (struct limpet_answer){result, 0};
	limpet_hook_set_phase(thread, LIMPET_PHASE_RECORDING);
	if (__builtin_expect(result && __atomic_load_n(&limpet_control->on, __ATOMIC_ACQUIRE), 1)) {
		uint32_t stack = limpet_hook_capture(thread, frame, &limpet_hooks[hook]);

		limpet_record_append(thread, LIMPET_EVENT_ALLOC, result, a, stack);
		limpet_record_publish(thread);
	}
	limpet_hook_done(thread);
	limpet_hook_set_phase(thread, LIMPET_PHASE_OUTSIDE);
	return (struct limpet_answer){result, 0};
}

bool limpet_hook_free(uint64_t block, uint64_t hook, struct limpet_hook_frame *frame)
{
	struct limpet_thread *thread;

	if (limpet_hook_was_not_recorded(block))
		return false;
	thread = limpet_hook_begin(frame);
	if (__builtin_expect(!thread, 0))
		return free_inside(block, hook, frame);
	/* From here on, mark the thread as inside a hook before calling anything. */
	thread->depth = (uint32_t)hook + 1;
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	if (!limpet_record_free_last(thread, block))
		limpet_record_append(thread, LIMPET_EVENT_FREE, block,
				     limpet_hook_usable_size(&limpet_hooks[hook], block), 0);
	limpet_record_publish(thread);
	limpet_hook_done(thread);
	limpet_hook_set_phase(thread, LIMPET_PHASE_OUTSIDE);
	return true;
}
