/* The code before and after the original function.
 *
 * Order: the number of a free is taken before the original runs, that of an allocation after it.
 * The free of a block thus always has a lower number than the next allocation of its address, on
 * any thread. realloc, munmap and mremap take the number of the release before, and hold it until
 * they know whether they released anything. */
#include <sys/mman.h>

#include "agent/hook.h"
#include "agent/hook_nim.h"
#include "agent/hook_out.h"
#include "agent/hook_state.h"
#include "agent/patch.h"
#include "agent/stack_arguments.h"

#define MAP_FAILED_VALUE ((uint64_t)-1)

/* For an allocator that may call hooks itself: a thread's first call allocates the allocator's
 * state for the thread. These are inner calls. */
static uint64_t usable_size_inside(struct limpet_thread *thread, const struct limpet_hook *hook,
				   uint64_t block)
{
	uint64_t bytes;

	limpet_hook_set_phase(thread, LIMPET_PHASE_OUTSIDE);
	bytes = limpet_hook_usable_size(hook, block);
	limpet_hook_set_phase(thread, LIMPET_PHASE_RECORDING);
	return bytes;
}

/* ------------------------------------------------------------------ dlsym
 *
 * While symbols lead to thunks, dlsym returns thunks. Without a handle (RTLD_DEFAULT, RTLD_NEXT)
 * its result depends on its caller, so the hook jumps to it. With a handle the hook calls it, and
 * replaces a thunk in the result by the original, unless the caller's own code loads the thunk as
 * the function's address: a program may compare the two. */

/* Whether dlsym looks up a function of the family; recorded for the end of the capture. */
static bool requests_hooked(const struct limpet_hook_frame *frame, const struct limpet_hook *hook)
{
	const char *name = (const char *)(uintptr_t)frame->args[1];

	if (!(limpet_family[hook->symbol].flags & LIMPET_FAMILY_ANSWERS) || !name ||
	    limpet_family_find(name, UINT64_MAX) < 0)
		return false;
	__atomic_store_n(&limpet_shm->addresses_requested, 1, __ATOMIC_RELEASE);
	return true;
}

static bool has_handle(const struct limpet_hook_frame *frame)
{
	const uint64_t by_default = 0, next = UINT64_MAX; /* RTLD_DEFAULT, RTLD_NEXT */

	return frame->args[0] != by_default && frame->args[0] != next;
}

/* Works until the agent's own part of detaching begins, recording or not: until symbols are
 * restored, what dlsym returns may be a thunk, and the injector must know. Once limpet has died or
 * given up, nobody would use that.
 *
 * `depth` is set, since this calls into the loader. Mostly a plain jump, since the original depends
 * on its caller. */
int limpet_hook_enter_loader(struct limpet_hook_frame *frame)
{
	const struct limpet_hook *hook = &limpet_hooks[frame->hook];
	struct limpet_thread *thread;

	if (limpet_record_collector_has_died())
		return 0;
	thread = limpet_hook_begin(frame);
	if (!thread) {
		requests_hooked(frame, hook);
		return 0;
	}
	frame->thread = thread;
	frame->held = 0;
	frame->wanted = 0;
	thread->depth = (uint32_t)frame->hook + 1;
	limpet_hook_set_phase(thread, LIMPET_PHASE_OUTSIDE);
	limpet_patch_on_loader_call(limpet_family[hook->symbol].flags & LIMPET_FAMILY_CLOSES,
				    limpet_family[hook->symbol].flags & LIMPET_FAMILY_ANSWERS);
	if (requests_hooked(frame, hook) && has_handle(frame))
		return 1;
	limpet_hook_done(thread);
	return 0;
}

/* Held until record_release() or end_held(). */
static void hold_number(struct limpet_hook_frame *frame, uint32_t counter)
{
	uint32_t number = limpet_order_next(&frame->thread->held_intent, counter);

	frame->held =
		(uint64_t)limpet_record_time() << LIMPET_HELD_TIME_SHIFT | LIMPET_HELD | number;
}

static bool mremap_releases(const uint64_t *args)
{
	return args[1] && !(args[3] & MREMAP_DONTUNMAP);
}

/* A call that finds no usable state. */
static int enter_without_state(struct limpet_hook_frame *frame, const struct limpet_hook *hook,
			       bool unrecorded)
{
	struct limpet_thread *thread = limpet_nim_thread(frame, hook);

	if (thread) {
		limpet_nim_enter(thread, frame, hook, unrecorded);
		return 1;
	}
	if (limpet_hook_beside(frame, hook))
		limpet_hook_count_lost(&limpet_shm->lost_state_in_use);
	return 0;
}

/* To tell one number from another it asks the allocator: a call, for which a hook must be begun.
 * Without a state it does not ask. */
static void note_numbered(struct limpet_hook_frame *frame, const struct limpet_hook *hook,
			  const uint64_t *args)
{
	struct limpet_thread *thread =
		limpet_hook_is_numbered(hook, args) ? limpet_hook_begin(frame) : NULL;

	if (thread) {
		thread->depth = (uint32_t)frame->hook + 1;
		limpet_hook_set_phase(thread, LIMPET_PHASE_OUTSIDE);
	}
	limpet_hook_note(hook, args, thread != NULL);
	if (thread)
		limpet_hook_done(thread);
}

int limpet_hook_enter(struct limpet_hook_frame *frame)
{
	const struct limpet_hook *hook = &limpet_hooks[frame->hook];
	const uint64_t *args = limpet_hook_args(frame, hook);
	struct limpet_thread *thread;
	bool unrecorded;

	if (hook->op == LIMPET_OP_FREE && !args[0])
		return 0;
	if (__builtin_expect(hook->op >= LIMPET_OP_NOTED, 0)) {
		note_numbered(frame, hook, args);
		return 0;
	}
	unrecorded = limpet_op_releases(hook->op) && limpet_hook_was_not_recorded(args[0]);
	thread = limpet_hook_begin(frame);
	if (!thread)
		return enter_without_state(frame, hook, unrecorded);
	frame->thread = thread;
	frame->held = 0;
	thread->depth = (uint32_t)frame->hook + 1;
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	frame->wanted = limpet_hook_choose_first(thread, args, hook);
	if (__builtin_expect(unrecorded, 0))
		frame->wanted &= ~(uint64_t)LIMPET_WANTED_OLD;

	switch (hook->op) {
	case LIMPET_OP_FREE:
		if (!(frame->wanted & LIMPET_WANTED_OLD))
			break;
		if (!limpet_record_free_last(thread, args[0]))
			limpet_record_append(thread, LIMPET_EVENT_FREE, args[0],
					     usable_size_inside(thread, hook, args[0]), 0);
		limpet_record_publish(thread);
		break;
	case LIMPET_OP_REALLOC:
	case LIMPET_OP_REALLOCARRAY:
	case LIMPET_OP_REALLOCF:
	case LIMPET_OP_RESIZE:
		if (!args[0])
			break;
		frame->aux = usable_size_inside(thread, hook, args[0]);
		if (frame->wanted & LIMPET_WANTED_OLD)
			hold_number(frame, limpet_order_of_block(args[0]));
		break;
	case LIMPET_OP_MUNMAP:
		hold_number(frame, LIMPET_ORDER_MAPPINGS);
		break;
	case LIMPET_OP_MREMAP:
		if (mremap_releases(args))
			hold_number(frame, LIMPET_ORDER_MAPPINGS);
		break;
	case LIMPET_OP_POSIX_MEMALIGN:
		limpet_out_begin(frame, hook);
		break;
	default:
		break;
	}
	limpet_hook_set_phase(thread, LIMPET_PHASE_OUTSIDE);
	return 1;
}

/* False: do not record the block. */
static bool note_sampled(const struct limpet_hook_frame *frame, uint64_t address, uint32_t *type)
{
	uint32_t overload = (uint32_t)(frame->wanted >> 32);
	bool wanted = frame->wanted & LIMPET_WANTED_NEW;

	if (*type != LIMPET_EVENT_ALLOC)
		return wanted;
	if (!overload)
		return wanted && (!limpet_shm->sample_bytes || limpet_sample_enter(address));
	if (!wanted) {
		limpet_overload_note(address, overload);
		return false;
	}
	/* Removes the entry of a block whose free passed unchecked. */
	limpet_overload_remove(address, overload);
	*type |= LIMPET_EVENT_SAMPLED;
	return true;
}

static uint32_t held_time(const struct limpet_hook_frame *frame)
{
	return (uint32_t)(frame->held >> LIMPET_HELD_TIME_SHIFT);
}

/* With the number that was taken before the original was called, if any, and the time of that:
 * another thread may have got the block meanwhile, before the end of the capture. `half`:
 * LIMPET_EVENT_REALLOC or 0. */
static void record_release(struct limpet_hook_frame *frame, uint32_t type, uint64_t address,
			   uint64_t size, uint32_t half)
{
	const uint32_t time = held_time(frame);

	if (!frame->held)
		return;
	if (limpet_record_has_room(frame->thread, type, size, time))
		limpet_record_write(frame->thread,
				    (struct limpet_record_head){type, (uint32_t)frame->held, time},
				    address, size, half);
	frame->held = 0;
}

/* After the records were published. If the call released nothing, its number goes to a VOID
 * record. */
static void end_held(struct limpet_hook_frame *frame)
{
	struct limpet_thread *thread = frame->thread;

	if (frame->held) {
		record_release(frame, LIMPET_EVENT_VOID, thread->held_intent - 1, 0, 0);
		limpet_record_publish(thread);
	}
	__atomic_store_n(&thread->held_intent, 0, __ATOMIC_RELEASE);
}

static void record_allocation_at(struct limpet_hook_frame *frame, uint32_t time, uint64_t address,
				 uint64_t size, uint32_t type, uint32_t half)
{
	uint32_t stack;

	if (!note_sampled(frame, address, &type))
		return;
	stack = limpet_hook_capture(frame->thread, frame, &limpet_hooks[frame->hook]);
	limpet_record_append_at(frame->thread, type, time, address, size, stack | half);
}

static void record_allocation(struct limpet_hook_frame *frame, uint64_t address, uint64_t size,
			      uint32_t type)
{
	record_allocation_at(frame, LIMPET_RECORD_NOW, address, size, type, 0);
}

/* Both halves have times of the capture, or neither. If the call was still under way at the end, it
 * has not happened: the block is where it was. But if the original has given it to another thread
 * by then, the trace needs its end: the collector knows. */
static void record_move(struct limpet_hook_frame *frame, uint32_t released, uint32_t allocated,
			uint64_t old_size, uint64_t size)
{
	const uint32_t time = limpet_record_time();
	const uint64_t old = limpet_hook_args(frame, &limpet_hooks[frame->hook])[0];
	const uint32_t half = released == LIMPET_EVENT_FREE && old ? LIMPET_EVENT_REALLOC : 0;

	if (!limpet_record_has_ended()) {
		record_release(frame, released, old, old_size, half);
		record_allocation_at(frame, time, frame->result, size, allocated, half);
	} else if (released == LIMPET_EVENT_FREE && frame->result != old) {
		record_release(frame, released | LIMPET_EVENT_IF_REUSED, old, old_size, half);
	}
}

static void record_realloc(struct limpet_hook_frame *frame, uint64_t block, uint64_t size)
{
	uint64_t old = frame->wanted & LIMPET_WANTED_OLD ? block : 0;

	if (frame->result) {
		record_move(frame, LIMPET_EVENT_FREE, LIMPET_EVENT_ALLOC, frame->aux, size);
	} else if (old && !size) {
		/* realloc(p, 0) frees and returns NULL here; otherwise NULL means failure. */
		record_release(frame, LIMPET_EVENT_FREE, block, frame->aux, 0);
	} else if (old && limpet_shm->sample_bytes) {
		limpet_sample_enter(old);
	} else if (!old && block && size && frame->wanted >> 32) {
		limpet_overload_note(block, (uint32_t)(frame->wanted >> 32));
	}
}

static void record_mremap(struct limpet_hook_frame *frame)
{
	if (frame->result != MAP_FAILED_VALUE)
		record_move(frame, LIMPET_EVENT_MUNMAP, LIMPET_EVENT_MMAP, frame->args[1],
			    frame->args[2]);
}

/* The result is a size: at least the requested one, or that of before. */
static void record_resize(struct limpet_hook_frame *frame, uint64_t block, uint64_t size)
{
	const uint64_t usable = frame->result;

	frame->result = usable >= size ? block : 0;
	record_realloc(frame, block, size);
	frame->result = usable;
}

/* Of a size that is known only now. */
static void record_block(struct limpet_hook_frame *frame, uint64_t block, uint64_t bytes)
{
	frame->wanted |= limpet_hook_choose(frame->thread, &bytes, LIMPET_OP_MALLOC);
	record_allocation(frame, block, bytes, LIMPET_EVENT_ALLOC);
}

static void record_string(struct limpet_hook_frame *frame)
{
	const char *string = (const char *)(uintptr_t)frame->result;
	uint64_t bytes = 1;

	while (string[bytes - 1])
		bytes++;
	record_block(frame, frame->result, bytes);
}

static void record_nim(struct limpet_hook_frame *frame, const struct limpet_hook *hook)
{
	uint64_t bytes, block = limpet_nim_result(frame, hook, &bytes);

	if (block)
		record_block(frame, block, bytes);
}

/* Of functions that only some allocators have. */
static void record_other(struct limpet_hook_frame *frame, uint32_t op, const uint64_t *args)
{
	if (op == LIMPET_OP_REALLOCF)
		record_realloc(frame, args[0], frame->result ? args[1] : 0);
	else if (op == LIMPET_OP_RESIZE)
		record_resize(frame, args[0], args[1]);
	else if (limpet_op_is_string(op) && frame->result && (op == LIMPET_OP_STRING || !args[1]))
		record_string(frame);
}

static void record_result(struct limpet_hook_frame *frame, const struct limpet_hook *hook)
{
	const uint64_t *args = limpet_hook_args(frame, hook);
	uint64_t size, block;

	switch (hook->op) {
	case LIMPET_OP_MALLOC:
		if (frame->result)
			record_allocation(frame, frame->result, args[0], LIMPET_EVENT_ALLOC);
		break;
	case LIMPET_OP_CALLOC:
		if (frame->result)
			record_allocation(frame, frame->result, args[0] * args[1],
					  LIMPET_EVENT_ALLOC);
		break;
	case LIMPET_OP_REALLOC:
		record_realloc(frame, args[0], args[1]);
		break;
	case LIMPET_OP_REALLOCARRAY:
		/* An overflowing product is a failed call, even if it wraps to 0. */
		if (!__builtin_mul_overflow(args[1], args[2], &size))
			record_realloc(frame, args[0], size);
		break;
	case LIMPET_OP_POSIX_MEMALIGN:
		if ((uint32_t)frame->result)
			break;
		/* The user may have named a function that returns 0 and has no such argument. */
		if (!limpet_out_block(frame, hook, &block))
			limpet_hook_count_lost(&limpet_shm->lost_arguments);
		else if (block)
			record_allocation(frame, block, args[2], LIMPET_EVENT_ALLOC);
		break;
	case LIMPET_OP_MEMALIGN:
		if (frame->result)
			record_allocation(frame, frame->result, args[1], LIMPET_EVENT_ALLOC);
		break;
	case LIMPET_OP_MMAP:
		if (frame->result != MAP_FAILED_VALUE)
			record_allocation(frame, frame->result, args[1], LIMPET_EVENT_MMAP);
		break;
	case LIMPET_OP_MUNMAP:
		if (!(uint32_t)frame->result)
			record_release(frame, LIMPET_EVENT_MUNMAP, args[0], args[1], 0);
		break;
	case LIMPET_OP_MREMAP:
		record_mremap(frame);
		break;
	default:
		record_other(frame, hook->op, args);
		break;
	}
}

void limpet_hook_exit(struct limpet_hook_frame *frame)
{
	struct limpet_thread *thread = frame->thread;
	const struct limpet_hook *hook = &limpet_hooks[frame->hook];

	if (__builtin_expect(hook->op == LIMPET_OP_POSIX_MEMALIGN, 0))
		limpet_out_end(frame, hook);
	if (__builtin_expect(hook->op == LIMPET_OP_LOADER, 0) && limpet_is_thunk(frame->result) &&
	    !limpet_patch_loads_address(frame->caller_pc, frame->result))
		frame->result = limpet_original_of(frame->result);
	/* A signal handler may have forked during the original: the child must not write to memory
	 * that the parent uses. */
	if (!limpet_is_alive())
		return;
	/* A fibre has resumed in another thread, which has its own state. The first thread's state
	 * keeps its mark until the return address is gone, since another thread may be using it. */
	if (thread->thread_pointer != limpet_thread_pointer()) {
		limpet_hook_count_lost_at(&limpet_shm->lost_state_in_use,
					  frame->held ? held_time(frame) : LIMPET_RECORD_NOW);
		return;
	}
	limpet_hook_set_phase(thread, LIMPET_PHASE_RECORDING);
	if (hook->op != LIMPET_OP_FREE &&
	    (frame->held || __atomic_load_n(&limpet_control->on, __ATOMIC_ACQUIRE))) {
		if (hook->flags & LIMPET_HOOK_NIM)
			record_nim(frame, hook);
		else
			record_result(frame, hook);
		limpet_record_publish(thread);
	}
	if (__builtin_expect(thread->held_intent != 0, 0) && !(frame->wanted & LIMPET_NESTED))
		end_held(frame);
	if (!(frame->wanted & LIMPET_NESTED))
		limpet_hook_done(thread);
	limpet_hook_set_phase(thread, LIMPET_PHASE_OUTSIDE);
}

int64_t limpet_hook_enter_copied(struct limpet_hook_frame *frame)
{
	int64_t bytes;

	if (!limpet_hook_enter(frame))
		return LIMPET_PASS;
	bytes = limpet_stack_arguments(frame->thread, frame);
	if (bytes >= 0)
		return bytes;
	/* A free is already recorded; an allocation will be missed. */
	if (limpet_hooks[frame->hook].op != LIMPET_OP_FREE)
		limpet_hook_count_lost(&limpet_shm->lost_arguments);
	if (!(frame->wanted & LIMPET_NESTED)) {
		limpet_hook_set_phase(frame->thread, LIMPET_PHASE_RECORDING);
		if (frame->thread->held_intent)
			end_held(frame);
		limpet_hook_done(frame->thread);
		limpet_hook_set_phase(frame->thread, LIMPET_PHASE_OUTSIDE);
	}
	return LIMPET_PASS;
}

uint64_t limpet_hook_probe(const uint64_t *registers, uint64_t hook)
{
	const struct limpet_hook *it = &limpet_hooks[hook];
	struct limpet_hook_frame frame = {
		.args = {registers[LIMPET_HOOK_REGISTER(it->flags)]},
		.hook = hook,
		/* A witness: see limpet_entry_witness. */
		.caller_pc = (uint64_t)(uintptr_t)limpet_path_probe,
	};

	if (__atomic_load_n(&limpet_control->on, __ATOMIC_ACQUIRE) &&
	    frame.args[0] >= LIMPET_NIM_PAGE && limpet_hook_enter(&frame))
		limpet_hook_exit(&frame);
	return it->original;
}
