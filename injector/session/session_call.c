#include "injector/session/session_private.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>

#include "common/clock.h"
#include "common/family.h"
#include "injector/hook/mseal.h"
#include "injector/hook/remote_patch.h"
#include "injector/hook/thunks.h"
#include "injector/proc/cgroup.h"
#include "injector/proc/memfd.h"
#include "injector/proc/memory.h"
#include "injector/proc/pages.h"
#include "injector/proc/proc.h"
#include "injector/proc/target_process.h"
#include "injector/proc/tid_offset.h"
#include "injector/ptrace/arch.h"
#include "injector/ptrace/priority.h"
#include "injector/ptrace/robust_word.h"
#include "injector/ptrace/target_lock.h"
#include "injector/ptrace/tracee.h"
#include "injector/ptrace/wait.h"
#include "injector/ptrace/watchdog.h"
#include "injector/remote/agent_image.h"
#include "injector/remote/growing.h"
#include "injector/remote/loader_lock.h"
#include "injector/remote/own_objects.h"
#include "injector/remote/safepoint.h"
#include "injector/remote/sharers.h"
#include "injector/session/leftovers.h"

struct limpet_wait limpet_session_wait(const struct limpet_session *session, uint64_t deadline_ns)
{
	struct limpet_wait wait = session->wait;

	wait.deadline_ns = deadline_ns;
	wait.check = limpet_target_check;
	wait.check_context = session->target;
	return wait;
}

static bool may_call(void *context, pid_t tid)
{
	struct limpet_session *session = context;

	return limpet_seccomp_watch_allows(&session->filters, session->target, tid);
}

void limpet_session_hijack_setup(struct limpet_session *session, uint64_t deadline_ns,
				 struct limpet_hijack_setup *ret)
{
	*ret = (struct limpet_hijack_setup){
		.target = session->target,
		.room = &session->room,
		.safepoint = &session->safepoint,
		.gadgets = &session->plan.gadgets,
		.anywhere = session->method == LIMPET_METHOD_OUTSIDE,
		/* Where the linker's locks are not known, the agent may wait for one. */
		.may_be_in_malloc = !session->handle &&
				    session->plan.method != LIMPET_METHOD_DLOPEN &&
				    session->plan.start.loader.lock,
		.loader_lock = session->plan.loader_lock,
		.may_call = may_call,
		.may_call_context = session,
		.wait = limpet_session_wait(session, deadline_ns),
	};
}

void limpet_session_inline_hook_setup(struct limpet_session *session, uint64_t deadline_ns,
				      struct limpet_inline_hook_setup *ret)
{
	*ret = (struct limpet_inline_hook_setup){
		.target = session->target,
		.wait = limpet_session_wait(session, deadline_ns),
	};
}

void limpet_session_fill_boot(const struct limpet_session *session,
			      const struct limpet_hijack *hijack, struct limpet_boot *boot)
{
	const struct limpet_plan *plan = &session->plan;

	memset(boot, 0, sizeof(*boot));
	boot->dlopen = plan->dlopen;
	boot->dlclose = plan->dlclose;
	boot->dlerror = plan->dlerror;
	if (plan->loader_error)
		boot->message = limpet_tracee_regs(limpet_hijack_tracee(hijack))->fs_base +
				(uint64_t)plan->loader_error;
	boot->dlopen_mode = plan->dlopen_mode;
	boot->info = session->info_address;
	boot->handle = session->handle;
	boot->agent = session->info.map;
	boot->agent_bytes = session->info.map_bytes;
}

/* The loader's message begins with our spelling of the image's path. */
static const char *without_path(const struct limpet_boot *boot)
{
	size_t length = strlen(boot->path);

	if (!length || strncmp(boot->error, boot->path, length) ||
	    strncmp(boot->error + length, ": ", 2))
		return boot->error;
	return boot->error + length + 2;
}

int limpet_session_explain_boot(const struct limpet_session *session,
				const struct limpet_boot *boot, struct limpet_err *err)
{
	if (!boot->error[0]) {
		limpet_err_set(err, boot->result, "the agent could not start in process %d: %s",
			       session->target->pid, strerror(-boot->result));
		/* Of its own table, in which the dynamic linker opens the agent's file. */
		if (boot->result == -EMFILE)
			limpet_err_hint(err,
					"sudo prlimit --pid %d --nofile=1024:, or LIMPET_LOAD=map",
					session->target->pid);
		return boot->result;
	}
	limpet_err_set(err, boot->result, "process %d could not load the agent: %.255s",
		       session->target->pid, without_path(boot));
	if (strstr(boot->error, "cannot open"))
		limpet_err_hint(err, "if the program has closed descriptors that it does not know, "
				     "try again");
	return boot->result;
}

/* Waits until processes that now share the target's memory without being threads of it have gone.
 * They cannot be stopped, may execute code that we write or unmap, and usually end soon. */
int limpet_session_wait_for_sharers(struct limpet_session *session, uint64_t deadline_ns,
				    struct limpet_err *err)
{
	const struct limpet_wait wait = limpet_session_wait(session, deadline_ns);
	pid_t sharer = 0;
	int error = limpet_sharers_wait(session->target->pid, &wait, &sharer);

	if (!error)
		return 0;
	if (!sharer)
		return limpet_err_set(
			err, error,
			"cannot find the processes that share the memory of process %d: %s",
			session->target->pid, strerror(-error));
	limpet_err_set(err, error,
		       "process %d shares the memory of process %d but is not one of its threads "
		       "(a vfork child, or one made by a bare clone(2)): it may be executing "
		       "code that limpet changes",
		       sharer, session->target->pid);
	limpet_err_hint(err, "try again when %d has ended, or wait longer: --attach-timeout 60s",
			sharer);
	return error;
}

/* The pointer guard of any thread of the program. In a program without one this is some number,
 * with which nothing is mangled. */
static void note_guard(struct limpet_session *session, const struct limpet_tracee *tracee)
{
	uint64_t address = limpet_tracee_regs(tracee)->fs_base + LIMPET_ARCH_POINTER_GUARD;

	if (limpet_memory_read(session->target->pid, address, &session->guard,
			       sizeof(session->guard)) < 0)
		session->guard = 0;
}

static int call_once(struct limpet_session *session, struct limpet_boot *boot,
		     const struct limpet_hijack_setup *setup,
		     const struct limpet_agent_place *place, struct limpet_err *err)
{
	const struct limpet_priority before = limpet_tracer_raise(session->wait.tracer);
	const uint32_t operation = boot->operation;
	const uint64_t function = boot->call;
	struct limpet_hijack *hijack;
	int error = limpet_hijack_find(setup, &hijack, err), closing;

	if (error) {
		limpet_tracer_lower(session->wait.tracer, before);
		return error;
	}
	note_guard(session, limpet_hijack_tracee(hijack));
	limpet_session_fill_boot(session, hijack, boot);
	boot->operation = operation;
	boot->call = function;
	if (place && place->thunks_separate && !session->stats.hook_pointers.elsewhere)
		boot->thunks = place->thunks;
	if (operation == LIMPET_BOOT_CALL && !session->left_behind && session->info.shm)
		boot->life = session->info.shm + offsetof(struct limpet_shm, collector);
	error = limpet_hijack_map(hijack, LIMPET_HIJACK_CALL, NULL, err);
	if (!error)
		error = limpet_hijack_call(hijack, boot, &session->segment, err);
	/* What led to this memory is gone with the agent. */
	for (unsigned i = 0; place && i < place->hook_area_count && !error && !boot->result; i++)
		limpet_hijack_unmap_last(hijack, place->hook_areas[i].start,
					 place->hook_areas[i].end - place->hook_areas[i].start);
	closing = limpet_hijack_finish(hijack);
	limpet_tracer_lower(session->wait.tracer, before);
	if (!error && closing)
		error = limpet_err_set(err, closing,
				       "lost the target while releasing its thread: %s",
				       strerror(-closing));
	return error;
}

int limpet_session_call(struct limpet_session *session, struct limpet_session_call *call,
			uint64_t deadline_ns, struct limpet_err *err)
{
	LIMPET_FREE struct limpet_boot *boot = malloc(sizeof(*boot));
	const uint64_t longest_pause_ns = 50000000;
	struct limpet_hijack_setup setup;
	uint64_t pause_ns = 1000000;
	int error;

	if (!boot)
		return limpet_err_set(err, -ENOMEM, "out of memory");
	boot->operation = call->operation;
	boot->call = call->function;
	limpet_session_hijack_setup(session, deadline_ns, &setup);
	/* It never came to be, or is no agent. */
	if (call->operation == LIMPET_BOOT_UNLOAD && !session->handle && !session->info.map)
		return limpet_err_set(err, -ELIBACC, "the agent in process %d cannot be removed",
				      session->target->pid);
	do {
		error = limpet_target_check(session->target);
		if (error)
			return limpet_proc_explain(session->target->pid, error, "look at", err);
		error = call_once(session, boot, &setup, call->place, err);
		/* Without a room a thread is made: there may be one left again soon, or its message
		 * has come. */
	} while ((error == -EAGAIN || error == -EBUSY) &&
		 !limpet_wait_pause(&setup.wait, &pause_ns, longest_pause_ns));
	if (error)
		return error;
	if (call->operation == LIMPET_BOOT_UNLOAD && boot->result)
		return limpet_session_explain_boot(session, boot, err);
	call->result = boot->result;
	return 0;
}

/* Notes every stop but those of the attach. */
void limpet_session_note_detach_stop(struct limpet_session *session)
{
	uint64_t stop_ns = limpet_tracer_pop_longest_stop_ns(session->wait.tracer);

	if (stop_ns > session->stats.detach_stop_ns)
		session->stats.detach_stop_ns = stop_ns;
}

int limpet_session_rescan(struct limpet_session *session, struct limpet_err *err)
{
	struct limpet_session_call call = {.operation = LIMPET_BOOT_CALL,
					   .function = session->info.rescan};
	struct limpet_cgroup group;
	int error;

	/* A hijacked thread may hold the lock that the agent would take. A frozen program loads
	 * nothing. */
	if (session->plan.method == LIMPET_METHOD_OUTSIDE ||
	    limpet_cgroup_frozen(session->target->pid, &group))
		return 0;
	limpet_tracer_bound_frozen(session->wait.tracer, limpet_monotonic_ns());
	limpet_tracer_pop_longest_stop_ns(session->wait.tracer);
	error = limpet_session_call(session, &call, limpet_monotonic_ns() + session->timeout_ns,
				    err);
	limpet_tracer_rest(session->wait.tracer);
	limpet_session_note_detach_stop(session);
	return error ? error : call.result;
}
