#include "agent/hook_paths.h"

/* The offsets that thunks.S uses. */
_Static_assert(sizeof(struct limpet_thread) == 128, "SHIFT_THREAD");
_Static_assert(offsetof(struct limpet_thread, thread_pointer) == 0, "thread_pointer");
_Static_assert(offsetof(struct limpet_thread, depth) == 40, "THREAD_DEPTH");
_Static_assert(offsetof(struct limpet_thread, phase) == 44, "THREAD_DEPTH, of both");
_Static_assert(offsetof(struct limpet_own, sample.left) == 40, "THREAD_LEFT");
_Static_assert(LIMPET_OWN_BYTES == 128 * 4096, "THREAD_LEFT, its distance");
_Static_assert(offsetof(struct limpet_hot, threads) == 0, "HOT_THREADS");
_Static_assert(offsetof(struct limpet_hot, thread_mask) == 24, "HOT_MASK");
_Static_assert(offsetof(struct limpet_hot, sample_counters) == 64, "HOT_COUNTERS");
_Static_assert(offsetof(struct limpet_hot, sample_shift) == 44, "HOT_SHIFT");
_Static_assert(sizeof(struct limpet_hot) <= 128, "two cache lines");
_Static_assert(offsetof(struct limpet_control, alive) == 4, "CONTROL_ALIVE");

static const char *full_path(const struct limpet_hook *hook)
{
	if (hook->op == LIMPET_OP_MALLOC && !LIMPET_HOOK_SKIP(hook->flags))
		return limpet_path_malloc;
	if (hook->op == LIMPET_OP_FREE && hook->flags & LIMPET_HOOK_LEAF)
		return limpet_path_free;
	return limpet_path_any;
}

/* An original that may call other hooks is called with `depth` set, sampled or not. */
static const char *sampled_path(const struct limpet_hook *hook)
{
	if (!(hook->flags & LIMPET_HOOK_LEAF))
		return limpet_path_any;
	switch (hook->op) {
	case LIMPET_OP_MALLOC:
		return limpet_path_sampled_malloc;
	case LIMPET_OP_CALLOC:
		return limpet_path_sampled_calloc;
	case LIMPET_OP_FREE:
		return limpet_path_sampled_free;
	default:
		return limpet_path_any;
	}
}

static const char *path_of_hook(const struct limpet_hook *hook)
{
	if (hook->op == LIMPET_OP_LOADER)
		return limpet_path_loader;
	if (hook->flags & LIMPET_HOOK_PROBE)
		return limpet_path_probe;
	if (hook->op == LIMPET_OP_FINDER)
		return hook->flags & LIMPET_HOOK_ENTRY ? limpet_path_finder_kept
						       : limpet_path_finder;
	if (hook->flags & LIMPET_HOOK_ENTRY)
		return hook->flags & LIMPET_HOOK_STACK ? limpet_path_copied : limpet_path_kept;
	return limpet_shm->sample_bytes ? sampled_path(hook) : full_path(hook);
}

void limpet_hook_set(uint32_t index, const struct limpet_hook *hook)
{
	struct limpet_hook *place = &limpet_hooks[index];
	const char *path = path_of_hook(hook);

	place->usable_size = hook->usable_size;
	place->op = hook->op;
	place->flags = hook->flags;
	place->symbol = hook->symbol;
	limpet_thunk_paths()[index] = path;
	__atomic_store_n(&place->original, hook->original, __ATOMIC_RELEASE);
}

void limpet_hook_pass_all(bool also_loader, bool also_finder)
{
	for (uint32_t i = 0; i < LIMPET_MAX_HOOKS; i++) {
		const struct limpet_hook *hook = &limpet_hooks[i];

		if (hook->original && (also_loader || hook->op != LIMPET_OP_LOADER) &&
		    (also_finder || hook->op != LIMPET_OP_FINDER) &&
		    !(hook->flags & (LIMPET_HOOK_PROBE | LIMPET_HOOK_ENTRY)))
			__atomic_store_n(&limpet_thunk_paths()[i],
					 (const void *)(uintptr_t)hook->original, __ATOMIC_RELEASE);
	}
}
