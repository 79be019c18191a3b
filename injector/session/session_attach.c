#include "injector/session/session_private.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/clock.h"
#include "injector/hook/remote_patch.h"
#include "injector/proc/cgroup.h"
#include "injector/proc/commit.h"
#include "injector/proc/memfd.h"
#include "injector/proc/memory.h"
#include "injector/proc/proc.h"
#include "injector/proc/target_process.h"
#include "injector/proc/tid_offset.h"
#include "injector/ptrace/arch.h"
#include "injector/ptrace/priority.h"
#include "injector/ptrace/robust_word.h"
#include "injector/ptrace/tracee.h"
#include "injector/remote/agent_image.h"
#include "injector/remote/growing.h"
#include "injector/remote/own_objects.h"

/* Formats /proc/thread-self/fd/ in one of 2^32 ways. glibc compares names before it looks at files:
 * for a name used before it would return the agent that was loaded then, whatever file the
 * descriptor now is. /proc/self would not do: it is the main thread, which may have ended and then
 * shows no descriptors. */
static void format_path(uint64_t nonce, char *path)
{
	char *at = stpcpy(path, "/proc");

	for (unsigned bit = 0; bit < 32; bit++)
		at = stpcpy(at, nonce >> bit & 1 ? "/." : "/");
	strcpy(at, "/thread-self/fd/");
}

/* For threads that enter a hook before the collector has looked for their stacks. */
static void publish_thread_stack(struct limpet_session *session, const struct limpet_hijack *hijack)
{
	const uint64_t pointer = limpet_tracee_regs(limpet_hijack_tracee(hijack))->fs_base;
	const pid_t ns_tid = limpet_hijack_ns_tid(hijack);
	const struct limpet_map *map = limpet_proc_maps_find(&session->modules.maps, pointer);
	struct limpet_shm *shm = session->segment.shm;

	/* Of a thread that is younger than the maps nothing is read. */
	shm->tid_offset =
		ns_tid && map ? limpet_tid_offset_find(session->target, ns_tid, pointer, map->end)
			      : 0;
	shm->stack_offset = limpet_stack_offset_of(shm->tid_offset);
}

/* Before any thread is stopped. */
static void publish_main_stack(struct limpet_session *session)
{
	struct limpet_shm *shm = session->segment.shm;
	struct limpet_proc_status status;
	const struct limpet_maps *maps = &session->modules.maps;

	shm->main_tid = 0;
	if (limpet_proc_status_read(session->target->pid, &status) < 0)
		return;
	for (size_t i = 0; i < maps->count; i++) {
		const struct limpet_map *map = &maps->list[i];

		if (strcmp(map->path, "[stack]") != 0)
			continue;
		shm->main_tid = (uint32_t)status.ns_pid;
		shm->main_stack_low = limpet_proc_main_stack_low(session->target, maps, map);
		shm->main_stack_high = map->end;
	}
}

/* The original of a hooked entry is its relocated prologue. */
static int map_hook_areas(struct limpet_session *session, struct limpet_hijack *hijack,
			  struct limpet_start *start, struct limpet_err *err)
{
	int error = limpet_inline_hook_map(hijack, &session->modules, &session->entries, err);

	for (size_t i = 0; i < session->entries.count && !error; i++)
		start->hooks[session->entries.list[i].hook].original =
			session->entries.list[i].original;
	return error;
}

/* After a failure: no agent uses the memory. */
static void unmap_hook_areas(struct limpet_session *session, struct limpet_hijack *hijack)
{
	for (uint32_t i = 0; i < session->entries.area_count; i++) {
		struct limpet_hook_area *area = &session->entries.areas[i];

		if (area->address)
			limpet_hijack_unmap_last(hijack, area->address, area->bytes);
	}
}

static uint32_t count_unhooked(const struct limpet_plan *plan)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < plan->slot_count; i++)
		count += limpet_slot_is_unhooked(&plan->slots[i]);
	return count;
}

static int install_slots(void *context, int memory)
{
	struct limpet_session *session = context;
	struct limpet_maps now;
	int error = limpet_proc_maps_read(session->target->pid, &now);

	if (error)
		return error;
	limpet_remote_patch_check(session->plan.slots, session->plan.slot_count,
				  &session->modules.maps, &now);
	limpet_proc_maps_done(&now);
	session->stats.slots_patched += limpet_remote_patch_install(
		memory, session->plan.slots, session->plan.slot_count, session->hooks,
		session->info.thunks, session->info.thunk_bytes);
	session->stats.slots_unhooked =
		session->plan.slots_unhooked + count_unhooked(&session->plan);
	memcpy(limpet_segment_slots(&session->segment), session->plan.slots,
	       session->plan.slot_count * sizeof(*session->plan.slots));
	return 0;
}

/* Installs everything that is written from outside. */
static int switch_on(struct limpet_session *session, const struct limpet_tracee *hijacked,
		     struct limpet_err *err)
{
	struct limpet_inline_hook_setup setup;

	if (!session->entries.count && session->plan.method != LIMPET_METHOD_OUTSIDE)
		return 0;
	limpet_session_inline_hook_setup(session, limpet_monotonic_ns() + session->timeout_ns,
					 &setup);
	if (session->plan.method == LIMPET_METHOD_OUTSIDE) {
		setup.also = install_slots;
		setup.also_context = session;
	}
	return limpet_inline_hook_switch_on(&setup, hijacked, session->info.thunks,
					    session->info.thunk_bytes, &session->entries, err);
}

/* Whether the process has locked any memory: the memory that we map may then be locked, too. */
static bool may_lock_ours(const struct limpet_session *session)
{
	const struct limpet_target *target = session->target;

	return !session->filters.without_munlock &&
	       limpet_seccomp_has_locked(target, limpet_proc_resident(target->pid));
}

static uint64_t lock_room(pid_t pid)
{
	struct limpet_proc_status status;

	return limpet_proc_status_read(pid, &status) < 0 ? UINT64_MAX
							 : limpet_proc_lock_room(pid, &status);
}

static int explain_growing(const struct limpet_session *session, int error, struct limpet_err *err)
{
	limpet_err_set(err, error,
		       "new mappings in process %d would lie right below memory that grows "
		       "downwards (MAP_GROWSDOWN), which could then not grow any more",
		       session->target->pid);
	limpet_err_hint(err, "map that memory at its full size, as pthread_create does for stacks");
	return error;
}

static uint64_t inode_at(const struct limpet_maps *maps, uint64_t address)
{
	const struct limpet_map *map = limpet_proc_maps_find(maps, address);

	return map ? map->inode : 0;
}

/* Checks the addresses that the kernel or the dynamic linker has chosen. */
static int check_places(const struct limpet_session *session, struct limpet_err *err)
{
	struct limpet_maps maps;
	bool grows = false;
	int error = limpet_proc_maps_read(session->target->pid, &maps);

	if (error)
		return limpet_err_set(err, error, "cannot read the mappings of process %d: %s",
				      session->target->pid, strerror(-error));
	/* A file that the dynamic linker has opened by itself. */
	limpet_own_objects_note(inode_at(&maps, session->info_address));
	for (size_t i = 0; i + 1 < maps.count && !grows; i++)
		grows = limpet_memfd_is_ours(maps.list[i].path) &&
			maps.list[i].end != maps.list[i + 1].start &&
			limpet_growing_above(session->target->pid, &maps, maps.list[i].end);
	limpet_proc_maps_done(&maps);
	return grows ? explain_growing(session, -EADDRINUSE, err) : 0;
}

static int attach_once(struct limpet_session *session, struct limpet_hijack *hijack,
		       bool *ret_started, struct limpet_err *err)
{
	const struct limpet_agent_image *image;
	LIMPET_FREE struct limpet_boot *boot = malloc(sizeof(*boot));
	int error = limpet_agent_image_get(&image);

	if (!boot || error)
		return limpet_err_set(err, error ? error : -ENOMEM, "cannot prepare the agent");
	publish_thread_stack(session, hijack);
	limpet_session_fill_boot(session, hijack, boot);
	boot->operation = LIMPET_BOOT_ATTACH;
	boot->info_offset = image->info_offset;
	boot->may_protect_code =
		session->plan.method != LIMPET_METHOD_DLOPEN || session->filters.allows_exec ||
		!limpet_seccomp_kind(session->target,
				     limpet_tracee_tid(limpet_hijack_tracee(hijack)));
	format_path(session->nonce, boot->path);
	boot->start = session->plan.start;
	boot->start.nonce = session->nonce;
	boot->start.windows = session->windows;
	error = limpet_hijack_map(hijack,
				  session->plan.method == LIMPET_METHOD_DLOPEN
					  ? LIMPET_HIJACK_DLOPEN
					  : LIMPET_HIJACK_MAP,
				  &session->segment, err);
	if (!error && session->entries.count)
		error = map_hook_areas(session, hijack, &boot->start, err);
	memcpy(session->hooks, boot->start.hooks, sizeof(session->hooks));
	/* Only by what it has mapped since does a process show that it locks that. */
	boot->start.unlock = boot->start.unlock || may_lock_ours(session);
	if (!error)
		error = limpet_hijack_call(hijack, boot, &session->segment, err);
	if (!error && boot->result)
		error = limpet_session_explain_boot(session, boot, err);
	if (error) {
		unmap_hook_areas(session, hijack);
		return error;
	}
	*ret_started = true;
	session->handle = boot->handle;
	session->control_page = boot->start.control_page;
	session->stats.slots_patched = boot->start.patched;
	session->info_address = boot->info;
	error = limpet_memory_read_own(session->target->pid, session->info_address, &session->info,
				       sizeof(session->info));
	if (error || session->info.magic != LIMPET_INFO_MAGIC ||
	    session->info.nonce != session->nonce)
		return limpet_err_set(err, -EPROTO, "the agent that answered is not ours");
	return 0;
}

/* While threads run: what takes long, and then hooks record. */
static int begin_to_record(struct limpet_session *session, struct limpet_err *err)
{
	const uint32_t on = 1; /* the first word of the agent's control page */
	int error = limpet_segment_share_rest(&session->segment);

	limpet_robust_word_register(&session->segment.shm->collector);
	if (error == -ENOSPC && limpet_commit_is_strict())
		return limpet_commit_explain(session->target->pid, err);
	if (!error)
		error = limpet_memory_write(session->target->pid, session->control_page, &on,
					    sizeof(on));
	return error ? limpet_err_set(err, error, "cannot share memory with process %d: %s",
				      session->target->pid, strerror(-error))
		     : 0;
}

/* Whatever program the process executes by now, it may have the agent. Returns whether the agent
 * stays. */
static bool clean_up(struct limpet_session *session)
{
	struct limpet_target target;
	int result = limpet_target_open(session->target->pid, &target, NULL);

	if (!result) {
		result = limpet_session_cleanup_locked(session->wait.tracer, &target,
						       session->timeout_ns, true, NULL);
		limpet_target_close(&target);
		/* Where the agent stays, it is to know that nobody listens. */
		if (limpet_session_agent_present(session))
			limpet_session_abandon(session);
	}
	return result < 0 && result != -ESRCH;
}

/* Adds that to the message of what went wrong before. */
static int explain_dormant(const struct limpet_session *session, struct limpet_err *err)
{
	const char *cause = err ? err->message : "";
	char text[sizeof(err->message)];

	snprintf(text, sizeof(text), "%.440s; the agent stays, switched off", cause);
	limpet_err_set(err, -EUCLEAN, "%s", text);
	limpet_err_hint(err, "limpet stop %d", session->target->pid);
	return -EUCLEAN;
}

static int begin(struct limpet_session *session, struct limpet_err *err)
{
	struct limpet_shm *shm = session->segment.shm;
	int error;

	if (getrandom(&session->nonce, sizeof(session->nonce), 0) !=
	    (ssize_t)sizeof(session->nonce))
		return limpet_err_set(err, -EIO, "cannot get random bytes");
	shm->nonce = session->nonce;
	if (!shm->max_depth)
		shm->max_depth = 256;
	error = limpet_target_check(session->target);
	return error ? limpet_proc_explain(session->target->pid, error, "look at", err) : 0;
}

/* -EDEADLK: another thread has the dynamic linker's lock, and what it does under it may need a lock
 * that the hijacked thread has: this one goes on, and is tried again. *ret: the thread that is
 * still hijacked; NULL: none. */
static int hijack_and_attach(struct limpet_session *session, struct limpet_tracee *tracee,
			     const struct limpet_hijack_setup *setup, struct limpet_hijack **ret,
			     bool *ret_started, struct limpet_err *err)
{
	const uint64_t longest_pause_ns = 50000000;
	uint64_t pause_ns = 1000000;

	for (;;) {
		int error = tracee ? limpet_hijack_given(setup, tracee, ret, err)
				   : limpet_hijack_find(setup, ret, err);

		if (error) {
			*ret = NULL;
			return error;
		}
		error = attach_once(session, *ret, ret_started, err);
		if (error != -EDEADLK || tracee)
			return error;
		error = limpet_hijack_finish(*ret);
		*ret = NULL;
		if (!error)
			error = limpet_wait_pause(&setup->wait, &pause_ns, longest_pause_ns);
		if (error == -EBUSY) {
			limpet_err_set(err, error,
				       "the dynamic linker's lock of process %d was held: nothing "
				       "was changed",
				       session->target->pid);
			limpet_err_hint(err, "try again, or wait longer: --attach-timeout 60s");
		}
		if (error)
			return error;
	}
}

static int attach(struct limpet_session *session, struct limpet_tracee *tracee,
		  struct limpet_err *err)
{
	struct limpet_hijack_setup setup;
	struct limpet_hijack *hijack;
	bool started = false, stays = false;
	int error, closing;

	/* Nothing is read while a thread is stopped that can be read before. */
	publish_main_stack(session);
	session->windows = limpet_growing_reaches(session->target->pid, LIMPET_WINDOW_BYTES);
	session->plan.start.unlock = may_lock_ours(session);
	session->plan.start.vectors = limpet_xstate_vectors();
	error = begin(session, err);
	if (error) {
		if (tracee)
			syscall(SYS_pidfd_send_signal, session->target->pidfd, SIGKILL, NULL, 0);
		limpet_tracee_release(tracee);
		return error;
	}
	limpet_session_hijack_setup(session, limpet_monotonic_ns() + session->timeout_ns, &setup);
	setup.maps_areas = session->entries.count;
	setup.lock_room = lock_room(session->target->pid);
	error = tracee ? 0 : limpet_session_wait_for_sharers(session, setup.wait.deadline_ns, err);
	if (error)
		return limpet_target_explain(session->target, error, err);
	error = hijack_and_attach(session, tracee, &setup, &hijack, &started, err);
	if (!hijack)
		return limpet_target_explain(session->target, error, err);
	/* Not one instruction of the program may run unrecorded. Other processes run meanwhile, so
	 * this may take more than one try. */
	if (!error && tracee)
		error = begin_to_record(session, err);
	if (!error && tracee)
		error = switch_on(session, tracee, err);
	/* A command that we started: not one instruction of it has run, nor will. */
	if (error && tracee)
		kill(session->target->pid, SIGKILL);
	session->stats.attach_attempts = limpet_hijack_attempts(hijack);
	closing = limpet_hijack_finish(hijack);
	if (!error && !closing)
		error = check_places(session, err);
	if (!error && !closing && !tracee)
		error = begin_to_record(session, err);
	if (!error && !closing && !tracee)
		error = switch_on(session, NULL, err);
	/* Includes the stops of the preflight. */
	session->stats.attach_stop_ns = limpet_tracer_pop_longest_stop_ns(session->wait.tracer);
	if (!error && closing)
		error = limpet_err_set(err, closing,
				       "lost the target while releasing its thread: %s",
				       strerror(-closing));
	if (error)
		limpet_session_release_spares(session);
	if (error && started)
		stays = clean_up(session) && !tracee;
	error = limpet_target_explain(session->target, error, err);
	return stays && error != -ESRCH ? explain_dormant(session, err) : error;
}

int limpet_session_attach(struct limpet_session *session, struct limpet_tracee *tracee,
			  struct limpet_err *err)
{
	const struct limpet_priority before = limpet_tracer_raise(session->wait.tracer);
	int error;

	limpet_tracer_bound_frozen(session->wait.tracer,
				   limpet_monotonic_ns() + session->timeout_ns);
	error = attach(session, tracee, err);
	limpet_tracer_lower(session->wait.tracer, before);
	if (error && error != -EUCLEAN && error != -ESRCH)
		limpet_cgroup_explain_frozen(session->target, err);
	limpet_session_release_lock(session);
	return error;
}
