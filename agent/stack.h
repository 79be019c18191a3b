/* The caller's stack: captured, and described to the collector once. */
#ifndef LIMPET_AGENT_STACK_H
#define LIMPET_AGENT_STACK_H

#include "agent/agent.h"

struct limpet_hook_frame;

/* Returns the stack's number (stack_describe.h), or 0 if it could not be described. May open a
 * chunk: call it before a number is taken from an order counter. */
uint32_t limpet_stack_capture(struct limpet_thread *thread, const struct limpet_hook_frame *frame);

/* The module that contains the address, if its table is known; NULL: none. */
const struct limpet_unwind_module *limpet_stack_module(uint64_t address);

#endif
