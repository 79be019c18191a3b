/* The states of the target's threads in shared memory: clears those of threads that have ended,
 * publishes the bounds of the threads' stacks for the agent, and reads which order counters the
 * threads are about to use. Names the threads in the trace.
 *
 * The agent claims a state by its thread pointer, and the target may overwrite all of it. What
 * limpet has to remember of a state is in private memory. One thread; never blocks. All that is
 * passed to limpet_thread_states_new() must outlive it. */
#ifndef LIMPET_COLLECTOR_STREAM_THREAD_STATES_H
#define LIMPET_COLLECTOR_STREAM_THREAD_STATES_H

#include <stdint.h>

#include "collector/record/recorder.h"
#include "collector/stream/agent_counts.h"
#include "collector/stream/chunk_reader.h"
#include "common/err.h"
#include "injector/session/session.h"

struct limpet_thread_states;

/* `reader` and `counts` are told of threads that have ended. NULL: no memory. */
struct limpet_thread_states *limpet_thread_states_new(
	struct limpet_session *session, struct limpet_recorder *recorder,
	struct limpet_chunk_reader *reader, struct limpet_agent_counts *counts) LIMPET_MUST_CHECK;
void limpet_thread_states_free(struct limpet_thread_states *states);

/* Reads to its end what threads wrote that are gone, and frees their states. Names new threads. If
 * not every thread of the target can be read, it does nothing. */
void limpet_thread_states_clear_dead(struct limpet_thread_states *states);
/* Records the names that all threads have now. */
void limpet_thread_states_name_all(struct limpet_thread_states *states);
/* Publishes how far up the agent may read each thread's stack. libc's thread control block is at
 * the top of a thread's stack and exists as long as the thread. */
void limpet_thread_states_publish_stacks(struct limpet_thread_states *states);
/* A bitmap of the order counters of which some thread has taken a number whose record it may not
 * have published yet; valid until the next call. */
const uint64_t *limpet_thread_states_intents(struct limpet_thread_states *states);
/* States that were ever claimed. */
uint32_t limpet_thread_states_count(const struct limpet_thread_states *states);

#endif
