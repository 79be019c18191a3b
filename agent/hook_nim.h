/* Hooks of Nim's own allocator, which may be nested. */
#ifndef LIMPET_AGENT_HOOK_NIM_H
#define LIMPET_AGENT_HOOK_NIM_H

#include "agent/hook_state.h"

#define LIMPET_NIM_PAGE ((uint64_t)4096)

/* The calling thread, if limpet_hook_begin() returned NULL because a Nim hook is inside another;
 * NULL: another reason. */
struct limpet_thread *limpet_nim_thread(const struct limpet_hook_frame *frame,
					const struct limpet_hook *hook);
/* Does the work of limpet_hook_enter() for such a call. `unrecorded`: what
 * limpet_hook_was_not_recorded() returned for the block. */
void limpet_nim_enter(struct limpet_thread *thread, struct limpet_hook_frame *frame,
		      const struct limpet_hook *hook, bool unrecorded);
/* The block that a Nim hook has allocated, and its size; 0: none. */
uint64_t limpet_nim_result(const struct limpet_hook_frame *frame, const struct limpet_hook *hook,
			   uint64_t *ret_bytes);

#endif
