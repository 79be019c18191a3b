#include "injector/session/session_private.h"

#include <errno.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "common/clock.h"
#include "injector/hook/mseal.h"
#include "injector/hook/remote_patch.h"
#include "injector/hook/thunks.h"
#include "injector/proc/cgroup.h"
#include "injector/proc/memfd.h"
#include "injector/proc/memory.h"
#include "injector/proc/proc.h"
#include "injector/proc/target_process.h"
#include "injector/ptrace/priority.h"
#include "injector/ptrace/target_lock.h"
#include "injector/ptrace/tracee.h"
#include "injector/ptrace/wait.h"
#include "injector/remote/own_objects.h"
#include "injector/session/leftovers.h"

/* Of a process that lives, not counting tries that failed because a hijacked thread went away. */
#define DETACH_TRIES 8u
/* How often limpet checks whether a process that is not clean is exiting, 5 ms apart. */
#define END_TRIES 200u
/* How long detaching waits for the target lock, and how long at a time. A cleanup that finds out
 * that we collect holds it for SETTLE_NS and BEAT_NS at most (session_cleanup.c). */
#define DETACH_LOCK_NS UINT64_C(6000000000)
#define LOCK_POLL_NS UINT64_C(20000000)
/* Time for the search for hook pointers, on top of the deadline and for each MiB that the program
 * holds: twice what two searches take on a busy machine. */
#define SEARCH_NS_PER_MIB UINT64_C(4000000)

/* By the kernel's list of mappings, not by what the agent says. */
static bool are_separate(const struct limpet_session *session, uint64_t thunks)
{
	const struct limpet_map *map = limpet_proc_maps_find(&session->modules.maps, thunks);

	return map && map->start == thunks && limpet_thunks_are(map);
}

/* The end of what was mapped with the agent: the stub's stack is behind it. */
static uint64_t end_of_place(const struct limpet_maps *maps, uint64_t end, uint64_t thunks)
{
	const struct limpet_map *map;

	while (end < thunks && (map = limpet_proc_maps_find(maps, end)) &&
	       limpet_memfd_is_ours(map->path))
		end = map->end;
	return end;
}

static int find_place(const struct limpet_session *session, struct limpet_agent_place *ret)
{
	const struct limpet_agent_info *info = &session->info;
	const struct limpet_module *module =
		limpet_modules_find(&session->modules, session->info_address);

	if (!module || !module->agent)
		return -ENOENT;
	*ret = (struct limpet_agent_place){
		.start = module->start,
		.end = module->end,
		.thunks = info->thunks,
		.thunks_end = info->thunks + info->thunk_bytes * LIMPET_MAX_HOOKS,
		.shm = info->shm,
	};
	if (info->map)
		ret->end = end_of_place(&session->modules.maps, ret->end, info->thunks);
	ret->thunks_separate = are_separate(session, info->thunks);
	ret->hook_area_count =
		limpet_inline_hook_find(session->target, &session->modules.maps, ret->hook_areas);
	return 0;
}

/* Time spent searching existing memory is not taken from the deadline: the deadline moves. If
 * threads wait long for a processor they may not all stop in the time given for that: they then run
 * on for a while, and it is tried again. */
static int restore_hook_pointers(struct limpet_session *session,
				 const struct limpet_agent_place *place, bool files_only,
				 uint64_t *deadline_ns, unsigned *ret_found)
{
	const uint64_t pause_ns = 20000000;
	const struct limpet_hook_pointers_options options = {
		.way = LIMPET_PAGES_SCAN,
		.modules = &session->modules,
		.files_only = files_only,
		.guard = session->guard,
		.wait = limpet_session_wait(session, *deadline_ns + session->search_ns),
	};

	for (;;) {
		uint64_t began_ns = limpet_monotonic_ns(), took_ns;
		struct limpet_hook_pointers_stats pass;
		int error = limpet_hook_pointers_restore(session->target, place,
							 session->info.hooks, &options, &pass);

		took_ns = limpet_monotonic_ns() - began_ns;
		if (took_ns > session->search_ns)
			took_ns = session->search_ns;
		session->search_ns -= took_ns;
		*deadline_ns += took_ns;
		session->stats.hook_pointers.found += pass.found;
		session->stats.hook_pointers.restored += pass.restored;
		session->stats.hook_pointers.scanned_bytes += pass.scanned_bytes;
		if (!files_only || pass.jumps)
			session->stats.hook_pointers.jumps = pass.jumps;
		if (!files_only || pass.elsewhere)
			session->stats.hook_pointers.elsewhere = pass.elsewhere;
		*ret_found = pass.found;
		if (error != -EAGAIN || limpet_monotonic_ns() >= *deadline_ns)
			return error;
		nanosleep(&(struct timespec){0, (long)limpet_tracer_bound_sleep_ns(
							session->wait.tracer, pause_ns)},
			  NULL);
		limpet_wait_idle(&options.wait);
	}
}

static int explain_hook_pointers(const struct limpet_session *session, int error,
				 struct limpet_err *err)
{
	if (error != -ETIMEDOUT)
		return limpet_err_set(
			err, error == -ESRCH ? error : -EBUSY,
			"hook addresses that the program has stored could not be restored");
	limpet_err_set(err, -EBUSY,
		       "the program has so much memory that it could not be searched in time for "
		       "hook addresses");
	limpet_err_hint(err, "limpet attach --duration 1s --attach-timeout 5m %d searches longer",
			session->target->pid);
	return -EBUSY;
}

static int explain_unproved(const struct limpet_session *session, int error, struct limpet_err *err)
{
	if (error != -EBADMSG)
		return limpet_err_set(err, error, "a thread of process %d stayed in a hook",
				      session->target->pid);
	return limpet_err_set(
		err, -EBUSY,
		"process %d has written over limpet's shared memory: whether a thread "
		"is in a hook cannot be known",
		session->target->pid);
}

static int explain_elsewhere(const struct limpet_session *session, struct limpet_err *err)
{
	return limpet_err_set(
		err, -EBUSY,
		"process %d stores addresses of hooks where limpet does not restore them: "
		"mangled (as by atexit), in code, or in packed or read-only data",
		session->target->pid);
}

/* The copy may become the program's code again, and then jumps to what is to be unmapped. */
static int explain_jumps(const struct limpet_session *session, struct limpet_err *err)
{
	limpet_err_set(err, -EBUSY,
		       "process %d keeps a copy of its code in which limpet's jumps are",
		       session->target->pid);
	limpet_err_hint(err,
			"the agent stays, switched off; limpet stop %d removes it once the "
			"copy is gone",
			session->target->pid);
	return -EBUSY;
}

/* What the search has found and could not mend. */
static int explain_left(const struct limpet_session *session,
			const struct limpet_agent_place *place, struct limpet_err *err)
{
	if (session->stats.hook_pointers.jumps)
		return explain_jumps(session, err);
	return session->stats.hook_pointers.elsewhere && !place->thunks_separate
		       ? explain_elsewhere(session, err)
		       : 0;
}

/* Such a garbage collector was loaded after the agent: otherwise that would not be in its list. */
static int explain_collector(const struct limpet_session *session, struct limpet_err *err)
{
	limpet_err_set(err, -EBUSY,
		       "process %d has loaded a garbage collector (GC_gcollect), which may be "
		       "reading the agent's memory",
		       session->target->pid);
	limpet_err_hint(err, "the agent stays until the program ends; LIMPET_LOAD=map limpet "
			     "attach avoids this");
	return -EBUSY;
}

/* Proves that no hook pointer is left and that no thread is inside a hook. A thread that held an
 * address in a register may have stored it after the scan had passed: if the proof took long,
 * memory is scanned again. */
static int prove_unused(struct limpet_session *session, const struct limpet_agent_place *place,
			uint64_t *deadline_ns, struct limpet_err *err)
{
	struct limpet_quiesce_options quiesce = {
		.stop_all = session->plan.address_slots || session->left_behind ||
			    __atomic_load_n(&session->segment.shm->addresses_requested,
					    __ATOMIC_ACQUIRE),
	};
	unsigned found;
	int error;

	do {
		error = restore_hook_pointers(session, place, false, deadline_ns, &found);
		if (error)
			return explain_hook_pointers(session, error, err);
		error = explain_left(session, place, err);
		if (error)
			return error;
		quiesce.thunks_stay = session->stats.hook_pointers.elsewhere;
		quiesce.wait = limpet_session_wait(session, *deadline_ns);
		error = limpet_quiesce_prove(session->target->pid, place, &quiesce,
					     &session->stats.quiesce);
		if (error)
			return explain_unproved(session, error, err);
		/* Code loads these addresses only to jump to them, and the linker only to bind
		 * slots. */
		if (!quiesce.stop_all && !session->plan.symbols)
			return 0;
		error = restore_hook_pointers(session, place, !quiesce.stop_all, deadline_ns,
					      &found);
	} while (!error && found && limpet_monotonic_ns() < *deadline_ns);
	if (error || found)
		return explain_hook_pointers(session, error, err);
	return explain_left(session, place, err);
}

static uint64_t search_ns(const struct limpet_session *session)
{
	struct limpet_proc_status status;

	if (limpet_proc_status_read(limpet_proc_resident(session->target->pid), &status) < 0)
		return 0;
	return (status.rss_bytes >> 20) * SEARCH_NS_PER_MIB;
}

/* munmap can fail for one mapping if the program has as many as it may have, and for all if it
 * installed a filter. Mappings are told by inode, since the program may be a limpet itself. Those
 * that an earlier limpet left are looked for in any case, round after round (cleanup). */
static int check_gone(const struct limpet_session *session, const struct limpet_maps *maps,
		      struct limpet_err *err)
{
	bool left = false;

	if (session->left_behind)
		return 0;
	for (size_t i = 0; i < maps->count && !left; i++)
		left = limpet_memfd_is_ours(maps->list[i].path) &&
		       limpet_own_objects_has_inode(maps->list[i].inode) &&
		       !limpet_thunks_were_left(session->target->pid, &maps->list[i]);
	return left ? limpet_err_set(
			      err, -EBUSY,
			      "limpet could not remove everything that it made in process %d",
			      session->target->pid)
		    : 0;
}

/* Reports what is still mapped after the end, and why. */
static int check_end(struct limpet_session *session, int error, struct limpet_err *err)
{
	struct limpet_maps maps = {0};

	if (error && error != -ELIBACC)
		return error;
	/* If the mappings can no longer be read, nothing is reported. */
	(void)limpet_proc_maps_read(session->target->pid, &maps);
	/* Nothing leads there any more, and another try would fail, too. */
	session->stats.mseal = limpet_mseal_check(session->target, &maps);
	if (session->stats.mseal)
		error = limpet_mseal_explain(session->target, err);
	else if (!error)
		error = check_gone(session, &maps, err);
	limpet_proc_maps_done(&maps);
	return error;
}

/* Modules that were loaded after the list was read may be bound to the agent, and the linker may
 * have made their slots read-only. */
static int modules_if_changed(struct limpet_session *session, struct limpet_err *err)
{
	uint64_t fingerprint;

	if (limpet_modules_fingerprint(session->target, session->modules.r_debug, &fingerprint) <
		    0 ||
	    fingerprint == session->detach_fingerprint)
		return 0;
	session->detach_fingerprint = fingerprint;
	return limpet_session_read_modules(session, err);
}

static int restore_slots(void *context, int memory)
{
	const struct limpet_session *session = context;
	int answer = limpet_remote_patch_restore(session->target, memory, &session->info);

	return answer < 0 ? answer : 0;
}

/* Whether exceptions pass the agent by a hook of its own (agent/finder.c). */
static bool has_finder(const struct limpet_session *session)
{
	struct limpet_hook hooks[LIMPET_MAX_HOOKS];

	if (limpet_memory_read_own(session->target->pid, session->info.hooks, hooks,
				   sizeof(hooks)) < 0)
		return false;
	for (unsigned i = 0; i < LIMPET_MAX_HOOKS; i++)
		if (hooks[i].original && hooks[i].op == LIMPET_OP_FINDER)
			return true;
	return false;
}

struct finder_end {
	const struct limpet_target *target;
	const struct limpet_agent_place *place;
};

/* A hook that an exception leaves needs it. New calls enter none: the hooks are switched off. */
static bool may_end_finder(void *context)
{
	const struct finder_end *end = context;

	return !limpet_quiesce_in_hook(end->target->pid, end->place);
}

/* Finds the agent, and calls its own part of detaching: it restores the slots. *ret_result: how
 * many it could not. */
static int begin_to_detach(struct limpet_session *session, uint64_t deadline_ns,
			   struct limpet_agent_place *ret_place, int *ret_result,
			   struct limpet_err *err)
{
	struct limpet_session_call call = {.operation = LIMPET_BOOT_CALL};
	int error;

	if (limpet_modules_fingerprint(session->target, session->modules.r_debug,
				       &session->detach_fingerprint) < 0)
		session->detach_fingerprint = 0;
	error = limpet_session_read_modules(session, err);
	if (error)
		return error;
	error = find_place(session, ret_place);
	if (error)
		return limpet_err_set(err, -ESRCH, "the agent is no longer in process %d",
				      session->target->pid);
	call.function = session->info.detach;
	error = limpet_session_call(session, &call, deadline_ns, err);
	*ret_result = call.result;
	if (!error &&
	    (ret_place->hook_area_count || session->method == LIMPET_METHOD_OUTSIDE || *ret_result))
		error = limpet_session_wait_for_sharers(session, deadline_ns, err);
	return error;
}

/* Slots that cannot be told count as leading there, and code. */
static int check_ways_in(const struct limpet_session *session, bool outside, struct limpet_err *err)
{
	const struct limpet_target *target = session->target;
	int answer = outside ? limpet_remote_patch_leads_there(target, &session->info) : 0;

	if (answer)
		return limpet_err_set(err, answer == -ESRCH ? answer : -EBUSY,
				      "slots of process %d still lead to the agent", target->pid);
	answer = limpet_inline_hook_leads_there(target);
	if (answer < 0)
		return limpet_err_set(err, answer == -ESRCH ? answer : -EBUSY,
				      "cannot see whether code of process %d still jumps to the "
				      "agent: %s",
				      target->pid, strerror(-answer));
	return answer ? limpet_err_set(err, -EBUSY,
				       "process %d puts code back in which limpet's jumps are",
				       target->pid)
		      : 0;
}

/* Of the first try: what a later one finds restored, limpet has restored itself. */
static int switch_inline_hooks_off(struct limpet_session *session,
				   struct limpet_inline_hook_setup *setup, struct limpet_err *err)
{
	unsigned hidden = 0;
	int error;

	setup->ret_hidden = session->hidden_counted ? NULL : &hidden;
	error = limpet_inline_hook_switch_off(setup);
	session->stats.entries_refused += hidden;
	session->hidden_counted = true;
	return error ? limpet_err_set(
			       err, error == -ESRCH ? error : -EBUSY,
			       "cannot restore the code of process %d that jumps to the agent: %s",
			       session->target->pid, limpet_inline_hook_why(error))
		     : 0;
}

/* Restores slots and hook pointers, then proves quiescence, then unloads. Code is not restored
 * while a process that shares the memory, and does not stop with the threads, may execute it. Nor
 * is the agent unmapped while such a process that may be in the agent lives. One that is created
 * after the proof, by threads that are outside, starts outside. */
static int detach(struct limpet_session *session, struct limpet_err *err)
{
	uint64_t deadline_ns = limpet_monotonic_ns() + session->timeout_ns;
	struct limpet_inline_hook_setup inline_hooks;
	struct limpet_agent_place place;
	struct limpet_session_call unload = {.operation = LIMPET_BOOT_UNLOAD, .place = &place};
	struct finder_end end = {session->target, &place};
	bool outside;
	int result = 0, error = begin_to_detach(session, deadline_ns, &place, &result, err);

	if (error)
		return error;
	session->search_ns = search_ns(session);
	limpet_session_inline_hook_setup(session, deadline_ns, &inline_hooks);
	/* The agent cannot write to a page that the program has sealed; from outside it can be
	 * written. */
	outside = session->method == LIMPET_METHOD_OUTSIDE || result;
	if (outside) {
		inline_hooks.also = restore_slots;
		inline_hooks.also_context = session;
		if (has_finder(session)) {
			inline_hooks.may_switch_off = may_end_finder;
			inline_hooks.may_context = &end;
		}
	}
	/* A thread that was in a loader hook may have patched slots meanwhile, a module that was
	 * loaded before the symbols were restored is bound to the agent, and a copy of code with
	 * jumps in it may have been moved to where was searched already: over the code. */
	do {
		inline_hooks.wait.deadline_ns = deadline_ns;
		error = switch_inline_hooks_off(session, &inline_hooks, err);
		if (error)
			return error;
		error = modules_if_changed(session, err);
		if (!error)
			error = prove_unused(session, &place, &deadline_ns, err);
		if (error)
			return error;
		error = check_ways_in(session, outside, err);
	} while (error && limpet_monotonic_ns() < deadline_ns);
	if (!error)
		error = limpet_session_wait_for_sharers(session, deadline_ns, err);
	if (error)
		return error;
	if (session->stats.hook_pointers.elsewhere) {
		error = limpet_thunks_leave(session->target, place.thunks);
		if (error)
			return explain_elsewhere(session, err);
	}
	if (session->handle && limpet_plan_has_collector(&session->modules))
		return explain_collector(session, err);
	return limpet_session_call(session, &unload, deadline_ns, err);
}

/* Of an unload whose end was not seen: hook areas, for one, which its thread was to unmap. */
static int remove_leftovers(struct limpet_session *session, struct limpet_err *err)
{
	struct limpet_hijack_setup setup;
	int error = limpet_session_read_modules(session, err);

	if (error)
		return error;
	limpet_session_hijack_setup(session, limpet_monotonic_ns() + session->timeout_ns, &setup);
	return limpet_leftovers_remove(&setup, &session->modules, err);
}

/* If the hijacked thread ends (the main thread, for one), the process may live on: another thread
 * is hijacked for what is still to be done. */
static int detach_by_any(struct limpet_session *session, struct limpet_err *err)
{
	int error = detach(session, err);

	for (unsigned i = 0; i < DETACH_TRIES && error == -ESRCH; i++) {
		if (limpet_target_check(session->target) ||
		    !limpet_proc_has_memory(session->target->pid))
			return error;
		error = limpet_session_agent_present(session) ? detach(session, err)
							      : remove_leftovers(session, err);
	}
	return error == -ESRCH ? -EBUSY : error;
}

static void explain_permission(const struct limpet_session *session, struct limpet_err *err)
{
	limpet_err_set(err, -EBUSY,
		       "process %d may no longer be traced: it has become undumpable "
		       "(PR_SET_DUMPABLE, or another user)",
		       session->target->pid);
	limpet_err_hint(err, "sudo limpet stop %d removes the agent, also from what it forked",
			session->target->pid);
}

int limpet_session_detach_locked(struct limpet_session *session, struct limpet_err *err)
{
	const struct timespec pause = {0, 5000000};
	int error, identity;
	bool done;

	limpet_tracer_pop_longest_stop_ns(session->wait.tracer);
	error = detach_by_any(session, err);
	done = !error;
	error = check_end(session, error, err);
	limpet_session_note_detach_stop(session);
	identity = error ? limpet_target_check(session->target) : 0;
	/* All was done and yet something is left: the process may be exiting. */
	for (unsigned i = 0; done && error && !session->stats.mseal && !identity && i < END_TRIES;
	     i++) {
		nanosleep(&pause, NULL);
		limpet_tracer_release_strays(session->wait.tracer);
		identity = limpet_target_check(session->target);
	}
	if (identity == -ESRCH || identity == -ESTALE) {
		limpet_proc_explain(session->target->pid, identity, "look at", err);
		return -ESRCH;
	}
	if (identity == -EACCES || identity == -EPERM) {
		(void)limpet_session_refresh_modules(session);
		explain_permission(session, err);
	}
	if (error == -ESTALE && !limpet_session_agent_present(session))
		return limpet_err_set(err, -ESRCH, "the agent is no longer in process %d",
				      session->target->pid);
	if (error && error != -ESRCH)
		limpet_session_abandon(session);
	return error == -ESRCH || !error ? error : -EBUSY;
}

/* Meanwhile the events are read: by that a cleanup knows that we collect. */
static int acquire_lock(const struct limpet_session *session)
{
	const struct limpet_wait wait =
		limpet_session_wait(session, limpet_monotonic_ns() + DETACH_LOCK_NS);
	int lock_fd;

	do {
		lock_fd = limpet_target_lock_acquire(wait.tracer, session->target->pid,
						     limpet_monotonic_ns() + LOCK_POLL_NS, NULL);
		if (lock_fd == -EALREADY)
			limpet_wait_idle(&wait);
	} while (lock_fd == -EALREADY && !limpet_wait_check(&wait) &&
		 limpet_monotonic_ns() < wait.deadline_ns);
	return lock_fd;
}

/* As long as detaching may take: the agent stays, switched off, in a program that is frozen for
 * longer. -EBUSY: it is. */
static int wait_for_thaw(struct limpet_session *session, struct limpet_err *err)
{
	const struct limpet_wait wait =
		limpet_session_wait(session, limpet_monotonic_ns() + session->timeout_ns);
	const uint64_t longest_pause_ns = 50000000;
	uint64_t pause_ns = 10000000;
	int error = 0;

	while (limpet_cgroup_explain_frozen(session->target, err) && !error)
		error = limpet_wait_pause(&wait, &pause_ns, longest_pause_ns);
	return error == -EBUSY ? error : 0;
}

int limpet_session_detach(struct limpet_session *session, struct limpet_err *err)
{
	const struct limpet_priority before = limpet_priority_raise(LIMPET_PRIORITY_WORK);
	int lock_fd, error;

	limpet_session_release_spares(session);
	error = wait_for_thaw(session, err);
	if (error) {
		limpet_session_abandon(session);
		limpet_priority_restore(before);
		return error;
	}
	/* Continue without the lock: a holder that keeps it this long is stopped or is not a
	 * limpet, and we have to detach. */
	lock_fd = acquire_lock(session);
	limpet_tracer_bound_frozen(session->wait.tracer,
				   limpet_monotonic_ns() + session->timeout_ns);
	error = limpet_session_detach_locked(session, err);
	if (error == -EBUSY)
		limpet_cgroup_explain_frozen(session->target, err);
	limpet_tracer_rest(session->wait.tracer);
	if (lock_fd >= 0)
		close(lock_fd);
	limpet_priority_restore(before);
	return error;
}
