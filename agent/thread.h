/* A thread's state, and the part of it that is private to the process. */
#ifndef LIMPET_AGENT_THREAD_H
#define LIMPET_AGENT_THREAD_H

#include "agent/agent.h"

static inline struct limpet_own *limpet_own(const struct limpet_thread *thread)
{
	return (struct limpet_own *)((uintptr_t)thread - LIMPET_OWN_BYTES);
}

static inline uint32_t limpet_thread_index(const struct limpet_thread *thread)
{
	return (uint32_t)(thread - limpet_hot.threads);
}

#endif
