/* How much memory the target takes, by the kernel's count, and how much of it is the agent's.
 *
 * Bytes. Private memory; one thread. */
#ifndef LIMPET_COLLECTOR_STREAM_TARGET_MEMORY_H
#define LIMPET_COLLECTOR_STREAM_TARGET_MEMORY_H

#include <stdbool.h>
#include <stdint.h>

#include "collector/record/recorder.h"
#include "injector/proc/cgroup.h"
#include "injector/session/session.h"

struct limpet_target_memory {
	struct limpet_session *session;
	struct limpet_cgroup cgroup;
	bool has_cgroup;
	/* How much of the agent's memory the target has, and the bell and RSS when that was
	 * measured. */
	uint64_t agent_bytes, agent_file_bytes, agent_rss_bytes;
	bool agent_is_known;
	uint32_t agent_bell;
};

/* `session` must outlive it. */
void limpet_target_memory_init(struct limpet_target_memory *memory, struct limpet_session *session);
/* Fills in the tick's memory and number of threads, as far as they are known; the rest of it stays
 * as it is. */
void limpet_target_memory_sample(struct limpet_target_memory *memory,
				 struct limpet_recorder_tick *tick);

#endif
