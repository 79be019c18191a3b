/* Hooks that were left by longjmp, an exception or cancellation. */
#ifndef LIMPET_AGENT_STACK_LEFT_H
#define LIMPET_AGENT_STACK_LEFT_H

#include "agent/agent.h"

struct limpet_hook_frame;

/* Whether the thread runs on its own stack, in no signal handler, and above the hook noted in its
 * state: then that hook was left. False: unknown. */
bool limpet_stack_is_above_entry(const struct limpet_thread *thread,
				 const struct limpet_hook_frame *frame);

#endif
