/* Descriptions: a stack is described to the collector once, in the chunks of the thread that
 * captures it first, and has a number from then on (layout: LIMPET_EVENT_STACK in
 * common/wire.h). */
#ifndef LIMPET_AGENT_STACK_DESCRIBE_H
#define LIMPET_AGENT_STACK_DESCRIBE_H

#include "agent/agent.h"

/* The stack's number; frames innermost first, up to LIMPET_STACK_FRAMES. 0: there was no room for
 * the description, or all numbers are taken; the collector counts events without a number. */
uint32_t limpet_stack_describe(struct limpet_thread *thread, const uint64_t *frames, uint32_t count,
			       bool truncated);
/* The same stack, for blocks of that allocator; 0 as above. */
uint32_t limpet_stack_mark(struct limpet_thread *thread, uint32_t stack, uint32_t owner);

#endif
