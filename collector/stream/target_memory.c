#include "collector/stream/target_memory.h"

#include <errno.h>

#include "common/wire.h"
#include "injector/proc/proc.h"

void limpet_target_memory_init(struct limpet_target_memory *memory, struct limpet_session *session)
{
	*memory = (struct limpet_target_memory){.session = session};
	memory->has_cgroup =
		limpet_cgroup_find(limpet_session_target(session), &memory->cgroup) == 0;
}

/* While bell and RSS are unchanged, so is this: without a call the agent touches nothing, and
 * memory that is reclaimed from it is missing in RSS. */
static void measure_agent(struct limpet_target_memory *memory, uint64_t rss_bytes)
{
	uint32_t bell = __atomic_load_n(&limpet_session_segment(memory->session)->shm->bell,
					__ATOMIC_ACQUIRE);

	if (!memory->agent_bytes || memory->agent_bell != bell ||
	    memory->agent_rss_bytes != rss_bytes) {
		int error;

		memory->agent_bytes = memory->agent_file_bytes = 0;
		error = limpet_session_resident_bytes(memory->session, &memory->agent_bytes,
						      &memory->agent_file_bytes);
		memory->agent_is_known = error == 0 || error == -ESRCH; /* it has left */
	}
	memory->agent_bell = bell;
	memory->agent_rss_bytes = rss_bytes;
}

static void copy_status(struct limpet_target_memory *memory,
			const struct limpet_proc_status *status, struct limpet_recorder_tick *tick)
{
	tick->rss_bytes = status->rss_bytes;
	tick->threads = status->threads;
	if (!status->rss_bytes)
		return;
	measure_agent(memory, status->rss_bytes);
	tick->agent_bytes = memory->agent_bytes;
	if (memory->agent_is_known && status->file_rss_bytes > memory->agent_file_bytes)
		tick->file_bytes = status->file_rss_bytes - memory->agent_file_bytes;
}

void limpet_target_memory_sample(struct limpet_target_memory *memory,
				 struct limpet_recorder_tick *tick)
{
	const pid_t pid = limpet_session_target(memory->session)->pid;
	struct limpet_proc_status status;

	/* /proc shows no memory for a main thread that has ended. */
	if (limpet_proc_status_read(limpet_proc_resident(pid), &status) == 0)
		copy_status(memory, &status, tick);
	if (memory->has_cgroup)
		(void)limpet_cgroup_usage(&memory->cgroup, &tick->cgroup_bytes);
}
