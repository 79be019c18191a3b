#include "injector/session/session_private.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <time.h>

#include "common/clock.h"
#include "injector/hook/mseal.h"
#include "injector/proc/cgroup.h"
#include "injector/proc/memory.h"
#include "injector/proc/proc.h"
#include "injector/proc/target_process.h"
#include "injector/ptrace/target_lock.h"
#include "injector/ptrace/tracer.h"
#include "injector/remote/loader_lock.h"
#include "injector/session/leftovers.h"

/* Rounds of a cleanup that are made before its deadline counts: each may uncover something for the
 * next. */
#define CLEANUPS 8
/* How long a cleanup waits for threads that have no processor. */
#define SETTLE_NS UINT64_C(1000000000)
/* A collector that lives reads the events more often than this. */
#define BEAT_NS UINT64_C(3000000000) /* several times the longest between two scans */

/* A limpet that we cannot see (in another container, or of another user) may be collecting from it:
 * whether the collector is not known to be dead, and reads the events some times a second. */
static bool collector_lives(const struct limpet_session *session)
{
	const struct timespec pause = {0, 10000000};
	uint64_t deadline_ns = limpet_monotonic_ns() + BEAT_NS, first = 0, beats;
	uint64_t shm = session->info.shm;
	uint32_t collector;

	for (bool checked = false;; checked = true) {
		if (!shm ||
		    limpet_memory_read_own(session->target->pid,
					   shm + offsetof(struct limpet_shm, collector), &collector,
					   sizeof(collector)) < 0 ||
		    limpet_memory_read_own(session->target->pid,
					   shm + offsetof(struct limpet_shm, beats), &beats,
					   sizeof(beats)) < 0 ||
		    !collector || collector & LIMPET_COLLECTOR_DIED)
			return false;
		if (checked && beats != first)
			return true;
		if (limpet_monotonic_ns() >= deadline_ns)
			return false;
		first = beats;
		nanosleep(&pause, NULL);
	}
}

/* Unmaps only what we mapped, whatever the agent's own record says. */
static bool is_mapped_there(const struct limpet_agent_info *info, const struct limpet_module *agent)
{
	const uint64_t page = 4096;

	return !info->handle && info->map == agent->start &&
	       info->map_bytes == (agent->end - agent->start + page - 1) / page * page;
}

/* The agent was released, and what was to unmap it did not come to that: limpet died, or the
 * process was forked at that moment. Nothing leads there, and it is no agent any more. */
static int remove_released(struct limpet_session *session, struct limpet_module *agent,
			   struct limpet_err *err)
{
	struct limpet_hijack_setup setup;

	agent->end = agent->start;
	limpet_session_hijack_setup(session, limpet_monotonic_ns() + session->timeout_ns, &setup);
	return limpet_leftovers_remove(&setup, &session->modules, err);
}

/* By which the agent in the target got there. */
static enum limpet_method method_of(const struct limpet_agent_info *info)
{
	const bool knows = info->bytes >=
			   offsetof(struct limpet_agent_info, restores) + sizeof(info->restores);

	if (!info->map)
		return LIMPET_METHOD_DLOPEN;
	return knows && info->restores ? LIMPET_METHOD_MAP : LIMPET_METHOD_OUTSIDE;
}

static int leave_behind(struct limpet_session *session, struct limpet_module *agent, bool abandoned,
			struct limpet_err *err)
{
	struct limpet_module copy = *agent;
	uint64_t address;

	copy.symbols = NULL;
	copy.strings = NULL;
	copy.symbol_count = copy.string_bytes = 0;
	address = limpet_module_symbol(session->target, &copy, "limpet_agent_info", NULL);
	free(copy.symbols);
	free(copy.strings);
	if (!address ||
	    limpet_memory_read_own(session->target->pid, address, &session->info,
				   sizeof(session->info)) < 0 ||
	    session->info.magic != LIMPET_INFO_MAGIC)
		return limpet_err_set(
			err, -EPROTO,
			"process %d has a mapping named like the agent that is not one",
			session->target->pid);
	if (!abandoned && collector_lives(session)) {
		limpet_err_set(
			err, -EALREADY,
			"process %d is already captured, by a limpet that cannot be seen from here",
			session->target->pid);
		limpet_err_hint(err,
				"stop it where it was started: on the host, or in the container");
		return -EALREADY;
	}
	if (session->info.map && !is_mapped_there(&session->info, agent))
		return limpet_err_set(
			err, -EPROTO,
			"process %d has a mapping named like the agent that is not one",
			session->target->pid);
	session->info_address = address;
	session->handle = session->info.handle;
	session->method = method_of(&session->info);
	session->left_behind = true;
	if ((session->handle || session->info.map) && session->info.state != LIMPET_AGENT_RELEASED)
		return limpet_session_detach_locked(session, err);
	if (!abandoned && limpet_mseal_check(session->target, &session->modules.maps))
		return limpet_mseal_explain(session->target, err);
	if (session->info.map && !session->handle)
		return remove_released(session, agent, err);
	/* The process was forked while the agent was being loaded or unloaded: the agent is not
	 * whole in the loader's lists. No slot leads to it. */
	if (abandoned)
		return limpet_err_set(err, -EBUSY,
				      "the agent in process %d was not loaded completely",
				      session->target->pid);
	/* Its boot stub is at work: it will start the agent, find that nobody answers and switch it
	 * off; or end. */
	return limpet_err_set(
		err, -EINPROGRESS,
		"the agent in process %d is in the middle of being loaded or unloaded",
		session->target->pid);
}

/* Removes one leftover: 1 removed, 0 there is none, or -errno. */
static int cleanup_one(struct limpet_session *session, bool abandoned, uint64_t deadline_ns,
		       struct limpet_err *err)
{
	const struct limpet_capture_config config = {.agent_memory_bytes = 64u << 20,
						     .assume_seccomp_ok = true};
	struct limpet_module *agent = NULL;
	struct limpet_hijack_setup setup;
	int error;

	for (size_t i = 0; i < session->modules.count && !agent; i++)
		if (session->modules.list[i].agent)
			agent = &session->modules.list[i];
	if (!agent) {
		int found = limpet_leftovers_find(session->target, &session->modules);

		/* A process that we may not look at is not ours. */
		if (found <= 0)
			return 0;
	}
	error = limpet_session_arm(session, &config, err);
	if (error && error != -ENOENT)
		return error;
	if (abandoned)
		limpet_loader_lock_free_orphaned(session->wait.tracer, session->target->pid,
						 session->plan.loader_lock);
	limpet_session_hijack_setup(session, deadline_ns, &setup);
	error = agent ? leave_behind(session, agent, abandoned, err)
		      : limpet_leftovers_remove(&setup, &session->modules, err);
	return error ? error : 1;
}

int limpet_session_cleanup_locked(struct limpet_tracer *tracer, const struct limpet_target *target,
				  uint64_t timeout_ns, bool abandoned, struct limpet_err *err)
{
	const struct timespec pause = {0, 10000000};
	uint64_t deadline_ns = limpet_monotonic_ns() + timeout_ns;
	int removed = 0;

	for (;;) {
		struct limpet_session *session = NULL;
		int answer = limpet_session_open(tracer, target, timeout_ns, &session, err);

		if (answer || !session)
			return answer;
		answer = cleanup_one(session, abandoned, deadline_ns, err);
		limpet_session_free(session);
		if (answer == -EINPROGRESS && limpet_monotonic_ns() < deadline_ns) {
			nanosleep(&pause, NULL);
			continue;
		}
		if (answer <= 0)
			return answer == -EINPROGRESS ? -EBUSY : answer ? answer : removed;
		/* What was there is gone after a few rounds; what somebody keeps adding is not. */
		if (++removed >= CLEANUPS && limpet_monotonic_ns() >= deadline_ns)
			return limpet_err_set(err, -EBUSY,
					      "what looks like leftovers of an earlier limpet "
					      "keeps coming back in process %d",
					      target->pid);
	}
}

int limpet_session_cleanup(struct limpet_tracer *tracer, const struct limpet_target *target,
			   uint64_t timeout_ns, bool abandoned, struct limpet_err *err)
{
	LIMPET_CLOSE int lock_fd = limpet_target_lock_acquire(
		tracer, target->pid, limpet_monotonic_ns() + timeout_ns, err);
	int result;

	if (lock_fd < 0)
		return lock_fd;
	if (limpet_cgroup_explain_frozen(target, err))
		return -EBUSY;
	limpet_tracer_bound_frozen(tracer, limpet_monotonic_ns() + timeout_ns);
	/* A thread that was released because its limpet died may not have run since. Its next step
	 * has to be seen, too. Unless all threads were seen there is still something to clean. */
	if (!abandoned)
		limpet_proc_settle(target, limpet_monotonic_ns() + SETTLE_NS);
	result = limpet_session_cleanup_locked(tracer, target, timeout_ns, abandoned, err);
	limpet_tracer_rest(tracer);
	return result;
}
