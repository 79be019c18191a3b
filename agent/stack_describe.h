/* Descriptions: a stack is described to the collector once, in the chunks of the thread that
 * captures it first, and has a number from then on (layout: LIMPET_EVENT_STACK in
 * common/wire.h). */
#ifndef LIMPET_AGENT_STACK_DESCRIBE_H
#define LIMPET_AGENT_STACK_DESCRIBE_H

#include "agent/agent.h"

struct limpet_described_stack {
	const uint64_t *frames; /* innermost first */
	uint32_t count;         /* up to LIMPET_STACK_FRAMES */
	bool truncated;
	const uint64_t *functions; /* LIMPET_FUNCTION_WORD */
	uint32_t function_count;   /* up to LIMPET_STACK_FUNCTIONS_MAX */
};
/* The stack's number. 0: there was no room for
 * the description, or all numbers are taken; the collector counts events without a number. */
uint32_t limpet_stack_describe(struct limpet_thread *thread,
			       const struct limpet_described_stack *stack);
/* The same stack, for blocks of that allocator; 0 as above. */
uint32_t limpet_stack_mark(struct limpet_thread *thread, uint32_t stack, uint32_t owner);

#endif
