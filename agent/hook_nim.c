/* Nim's own allocator.
 *
 * Its functions may collect garbage and run the program's finalizers: other hooks may begin under
 * one of its hooks. */
#include "agent/hook_nim.h"

/* lib/system/alloc.nim of Nim 1.6: a page starts with (previous size, size). The size is that of
 * small blocks, many after a header of 64 bytes, or that of a large chunk with a header of 32. */
#define NIM_SMALL_HEAD ((uint64_t)64)
#define NIM_LARGE_HEAD ((uint64_t)32)

/* The block that contains the address. */
static uint64_t block_at(uint64_t address, uint64_t *ret_bytes)
{
	uint64_t chunk = address & -LIMPET_NIM_PAGE, at = address - chunk;
	uint64_t bytes = ((const uint64_t *)(uintptr_t)chunk)[1];

	if (!bytes || bytes > LIMPET_NIM_PAGE - NIM_SMALL_HEAD || at < NIM_SMALL_HEAD) {
		*ret_bytes = bytes > NIM_LARGE_HEAD ? bytes - NIM_LARGE_HEAD : 0;
		return chunk + NIM_LARGE_HEAD;
	}
	*ret_bytes = bytes;
	return address - (at - NIM_SMALL_HEAD) % bytes;
}

uint64_t limpet_nim_bytes(uint64_t address)
{
	uint64_t bytes;

	block_at(address, &bytes);
	return bytes;
}

struct limpet_thread *limpet_nim_thread(const struct limpet_hook_frame *frame,
					const struct limpet_hook *hook)
{
	const struct limpet_hook *outer;
	struct limpet_thread *thread;

	if (!(hook->flags & LIMPET_HOOK_NIM))
		return NULL;
	thread = limpet_thread_self(limpet_frame_caller_sp(frame));
	outer = thread ? limpet_hook_outer(thread) : NULL;
	if (!outer || !(outer->flags & LIMPET_HOOK_NIM))
		return NULL;
	limpet_hook_set_phase(thread, LIMPET_PHASE_RECORDING);
	return thread;
}

void limpet_nim_enter(struct limpet_thread *thread, struct limpet_hook_frame *frame,
		      const struct limpet_hook *hook, bool unrecorded)
{
	uint64_t block = limpet_hook_args(frame, hook)[0];

	frame->thread = thread;
	frame->held = 0;
	frame->wanted = limpet_hook_choose_first(thread, limpet_hook_args(frame, hook), hook) |
			LIMPET_NESTED;
	if (hook->op != LIMPET_OP_FREE || unrecorded || !(frame->wanted & LIMPET_WANTED_OLD))
		goto out;
	limpet_record_append(thread, LIMPET_EVENT_FREE, block, limpet_hook_usable_size(hook, block),
			     0);
	limpet_record_publish(thread);
out:
	limpet_hook_set_phase(thread, LIMPET_PHASE_OUTSIDE);
}

uint64_t limpet_nim_result(const struct limpet_hook_frame *frame, const struct limpet_hook *hook,
			   uint64_t *ret_bytes)
{
	const uint64_t *args = limpet_hook_args(frame, hook);
	uint64_t block = frame->result;

	/* A string that owns its text: the pointer follows the length. */
	if (hook->op == LIMPET_OP_POSIX_MEMALIGN)
		block = ((const uint64_t *)(uintptr_t)args[0])[1];
	if (!block)
		return 0;
	block = block_at(block, ret_bytes);
	if (!(hook->flags & LIMPET_HOOK_SIZELESS))
		*ret_bytes = args[0];
	return block;
}
