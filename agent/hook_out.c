#include "agent/hook_out.h"

#include "agent/hook_state.h"

/* Below the frame at a function's entry: the registers with which limpet_path_kept calls the
 * original, and afterwards those that it has left (thunks.S). */
struct kept {
	uint64_t rax, rcx, rdx, rsi, rdi, r8, r9, r10, r11, original;
};
_Static_assert(sizeof(struct kept) == 80, "KEPT_BYTES");

/* Whether the value can be the address of a word that is written. */
static bool is_pointer(uint64_t value)
{
	return value >= LIMPET_LOWEST_ADDRESS && value < LIMPET_HIGHEST_ADDRESS &&
	       value % sizeof(void *) == 0;
}

static uint64_t *place_in(struct limpet_hook_frame *frame, const struct limpet_hook *hook)
{
	return &frame->args[LIMPET_HOOK_SKIP(hook->flags)];
}

/* NULL: the original gets its arguments from the frame. */
static uint64_t *kept_argument(struct limpet_hook_frame *frame, const struct limpet_hook *hook)
{
	struct kept *kept = (struct kept *)(void *)frame - 1;
	uint64_t *const arguments[] = {&kept->rdi, &kept->rsi, &kept->rdx, &kept->rcx};

	return hook->flags & LIMPET_HOOK_ENTRY ? arguments[LIMPET_HOOK_SKIP(hook->flags)] : NULL;
}

/* Until the original writes there, the place in the frame holds its own address. */
void limpet_out_begin(struct limpet_hook_frame *frame, const struct limpet_hook *hook)
{
	uint64_t *place = place_in(frame, hook), *kept = kept_argument(frame, hook);

	frame->aux = 0;
	if (hook->flags & (LIMPET_HOOK_NIM | LIMPET_HOOK_STACK) || !is_pointer(*place))
		return;
	frame->aux = *place;
	*place = (uint64_t)(uintptr_t)place;
	if (kept)
		*kept = *place;
}

/* Its callers may count on a register that the function leaves alone (-fipa-ra). */
void limpet_out_end(struct limpet_hook_frame *frame, const struct limpet_hook *hook)
{
	const uint64_t *place = place_in(frame, hook);
	uint64_t *kept = kept_argument(frame, hook);

	if (hook->flags & (LIMPET_HOOK_NIM | LIMPET_HOOK_STACK) || !frame->aux)
		return;
	if (kept && *kept == (uint64_t)(uintptr_t)place)
		*kept = frame->aux;
	if (*place != (uint64_t)(uintptr_t)place)
		*(volatile uint64_t *)(uintptr_t)frame->aux = *place;
}

bool limpet_out_block(struct limpet_hook_frame *frame, const struct limpet_hook *hook,
		      uint64_t *ret)
{
	const uint64_t *place = place_in(frame, hook);
	const bool is_written = *place != (uint64_t)(uintptr_t)place;

	if (!frame->aux ? !is_pointer(*place) : !is_written)
		return false;
	*ret = frame->aux ? *place : *(const uint64_t *)(uintptr_t)*place;
	return true;
}
