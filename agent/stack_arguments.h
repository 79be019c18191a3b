/* The arguments of a call on the stack. */
#ifndef LIMPET_AGENT_STACK_ARGUMENTS_H
#define LIMPET_AGENT_STACK_ARGUMENTS_H

#include "agent/agent.h"

/* The original is to be jumped to. */
#define LIMPET_PASS (-1)

struct limpet_hook_frame;

/* How many bytes, from the caller's stack pointer on, hold all arguments that the call can have
 * there: the caller's frame. LIMPET_PASS: unknown, or more than can be copied. */
int64_t limpet_stack_arguments(const struct limpet_thread *thread,
			       const struct limpet_hook_frame *frame);

#endif
