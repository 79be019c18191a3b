/* Hooks of Nim's own allocator, which may be nested. */
#ifndef LIMPET_AGENT_HOOK_NIM_H
#define LIMPET_AGENT_HOOK_NIM_H

#include "agent/hook_state.h"

#define LIMPET_NIM_PAGE ((uint64_t)4096)

/* The calling thread, if limpet_hook_begin() passed a call of Nim's for that reason; NULL: another
 * reason. */
struct limpet_thread *limpet_nim_thread(const struct limpet_frame *frame,
					const struct limpet_hook *hook);
/* In place of limpet_hook_enter()'s work, then. `unrecorded`: the block was not recorded, as
 * limpet_hook_was_not_recorded() said. */
void limpet_nim_enter(struct limpet_thread *thread, struct limpet_frame *frame,
		      const struct limpet_hook *hook, bool unrecorded);
/* The block that a hook of Nim's has made, and its size; 0: none. */
uint64_t limpet_nim_result(const struct limpet_frame *frame, const struct limpet_hook *hook,
			   uint64_t *ret_bytes);

#endif
