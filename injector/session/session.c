#include "injector/preflight/attach_plan.h"
#include "injector/session/session_private.h"

#include <assert.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/family.h"
#include "injector/hook/mseal.h"
#include "injector/hook/remote_patch.h"
#include "injector/hook/thunks.h"
#include "injector/proc/memfd.h"
#include "injector/proc/memory.h"
#include "injector/proc/pages.h"
#include "injector/proc/proc.h"
#include "injector/proc/target_process.h"
#include "injector/proc/tid_offset.h"
#include "injector/ptrace/arch.h"
#include "injector/ptrace/priority.h"
#include "injector/ptrace/robust_word.h"
#include "injector/ptrace/step.h"
#include "injector/ptrace/target_lock.h"
#include "injector/ptrace/tracer.h"
#include "injector/ptrace/watchdog.h"
#include "injector/remote/agent_image.h"
#include "injector/remote/growing.h"
#include "injector/remote/loader_lock.h"
#include "injector/remote/own_objects.h"
#include "injector/remote/safepoint.h"
#include "injector/remote/sharers.h"
#include "injector/session/leftovers.h"

const struct limpet_target *limpet_session_target(const struct limpet_session *session)
{
	return session->target;
}

struct limpet_segment *limpet_session_segment(struct limpet_session *session)
{
	return &session->segment;
}

struct limpet_modules *limpet_session_modules(struct limpet_session *session)
{
	return &session->modules;
}

bool limpet_session_has_named(const struct limpet_session *session)
{
	return session->entry_list != NULL;
}

const char *limpet_session_owner(const struct limpet_session *session, uint32_t number)
{
	return number && number <= session->plan.owner_count ? session->plan.owners[number - 1]
							     : NULL;
}

/* A slot of glibc's malloc may lead there by the linkage table of the program. */
bool limpet_session_follows_glibc_alone(struct limpet_session *session)
{
	const uint32_t others = LIMPET_FAMILY_MMAP | LIMPET_FAMILY_LOADER | LIMPET_FAMILY_FINDER |
				LIMPET_FAMILY_CXX;
	const struct limpet_start *start = &session->plan.start;

	if (session->late.functions ||
	    limpet_entries_have_others(&session->entries, session->target, &session->modules))
		return false;
	for (uint32_t i = LIMPET_FIRST_HOOK; i < start->hook_count; i++)
		if (!(limpet_family[start->hooks[i].symbol].flags & others))
			return true;
	return false;
}

bool limpet_session_has_entries(void *context, const struct limpet_module *module)
{
	struct limpet_session *session = context;

	return limpet_entries_are_in(&session->entries, module);
}

const struct limpet_entry_late *limpet_session_late(const struct limpet_session *session)
{
	return &session->late;
}

const struct limpet_session_stats *limpet_session_stats(const struct limpet_session *session)
{
	return &session->stats;
}

uint64_t limpet_session_control_page(const struct limpet_session *session)
{
	return session->control_page;
}

static struct limpet_session *session_new(struct limpet_tracer *tracer,
					  const struct limpet_target *target, uint64_t timeout_ns)
{
	struct limpet_session *session = calloc(1, sizeof(*session));

	if (session) {
		session->target = target;
		session->timeout_ns = timeout_ns;
		session->wait.tracer = tracer;
		session->lock_fd = session->segment.file = -1;
	}
	return session;
}

int limpet_session_open(struct limpet_tracer *tracer, const struct limpet_target *target,
			uint64_t timeout_ns, struct limpet_session **ret, struct limpet_err *err)
{
	struct limpet_session *session = session_new(tracer, target, timeout_ns);
	int error;

	if (!session)
		return limpet_err_set(err, -ENOMEM, "out of memory");
	error = limpet_modules_read(target, &session->modules, err);
	error = limpet_target_explain(target, error, err);
	if (error) {
		limpet_session_free(session);
		return error;
	}
	*ret = session;
	return 0;
}

static int hold_spares(struct limpet_session *session, struct limpet_err *err)
{
	while (session->spare_count < LIMPET_SESSION_SPARE_FDS) {
		int fd = fcntl(session->target->pidfd, F_DUPFD_CLOEXEC, 3);

		if (fd < 0) {
			int error = -errno;

			limpet_err_set(err, error, "not enough file descriptors: %s",
				       strerror(-error));
			limpet_err_hint(err, "ulimit -n 256");
			return error;
		}
		session->spare[session->spare_count++] = fd;
	}
	return 0;
}

void limpet_session_release_spares(struct limpet_session *session)
{
	while (session->spare_count)
		close(session->spare[--session->spare_count]);
}

/* No thread of the target is stopped after this. */
void limpet_session_release_lock(struct limpet_session *session)
{
	limpet_tracer_rest(session->wait.tracer);
	if (session->lock_fd >= 0)
		close(session->lock_fd);
	session->lock_fd = -1;
}

void limpet_session_free(struct limpet_session *session)
{
	if (!session)
		return;
	limpet_session_release_spares(session);
	limpet_session_release_lock(session);
	limpet_watchdog_bury(true);
	limpet_safepoint_free(session->safepoint);
	if (session->segment.shm)
		limpet_robust_word_unregister(&session->segment.shm->collector);
	limpet_segment_done(&session->segment);
	limpet_hijack_room_done(&session->room);
	limpet_plan_done(&session->plan);
	limpet_entries_done(&session->entries);
	limpet_entry_late_done(&session->late);
	limpet_modules_done(&session->modules);
	free(session);
}

static int make_safepoint(struct limpet_session *session)
{
	struct limpet_safepoint *safepoint;
	int error = limpet_safepoint_new(&session->modules, &session->segment, &safepoint);

	if (error)
		return error;
	for (size_t i = 0; i < session->entries.inside_count; i++)
		limpet_safepoint_keep_out(safepoint, session->entries.inside[i].start,
					  session->entries.inside[i].end);
	limpet_safepoint_free(session->safepoint);
	session->safepoint = safepoint;
	return 0;
}

static void update_tables(struct limpet_session *session, uint32_t gone)
{
	limpet_segment_update_tables(&session->segment, &session->modules, gone);
	session->stats.tables_without_room = session->segment.tables.without_room;
}

/* With so many threads, room for more of them matters more than whole stacks. */
#define MANY_THREADS 256

static void note_plan(const struct limpet_session *session)
{
	const struct limpet_plan *plan = &session->plan;

	limpet_step_note(0, "plan: %u slots of %zu modules%s, %zu functions by their entries",
			 plan->slot_count, session->modules.count,
			 plan->method == LIMPET_METHOD_OUTSIDE ? ", written from outside" : "",
			 session->entries.count);
	if (plan->slots_unhooked || session->entries.refused)
		limpet_step_note(0, "plan: left alone: %u slots, %u functions",
				 plan->slots_unhooked, session->entries.refused);
	limpet_step_note(0, "plan: the agent is %s%s%s",
			 plan->method == LIMPET_METHOD_DLOPEN ? "loaded by dlopen" : "mapped",
			 plan->reason ? ": " : "", plan->reason ? plan->reason : "");
}

/* Prepares everything that a hijack needs, once the plan is there. */
static int equip(struct limpet_session *session, const struct limpet_capture_config *config,
		 struct limpet_err *err)
{
	LIMPET_FREE pid_t *tids = NULL;
	const bool few_threads = limpet_proc_tasks(session->target->pid, &tids) < MANY_THREADS;
	int error = limpet_segment_create(
		config->agent_memory_bytes,
		few_threads ? limpet_unwind_set_estimate(&session->modules) : 0, &config->sampling,
		&session->segment, err);

	if (error)
		return error;
	session->entry_list = config->entry_list;
	session->filters.assume_ok = config->assume_seccomp_ok;
	session->stats.entries_refused = session->entries.refused;
	session->stats.thread_heaps = session->entries.thread_heaps;
	session->method = session->plan.method;
	limpet_plan_fill_segment(&session->plan, &session->modules, &session->segment);
	note_plan(session);
	update_tables(session, 0);
	if (limpet_entry_late_begin(&session->late, &session->modules) < 0 ||
	    make_safepoint(session) < 0)
		return limpet_err_set(err, -ENOMEM, "out of memory");
	return 0;
}

int limpet_session_arm(struct limpet_session *session, const struct limpet_capture_config *config,
		       struct limpet_err *err)
{
	int error, answer;

	if (limpet_entries_find(&session->modules, config->entry_list, &session->entries) < 0)
		return limpet_err_set(err, -ENOMEM, "out of memory");
	answer = limpet_plan_make(&session->modules, &session->entries, config->load,
				  &session->plan, err);
	/* Needed even if there is nothing to hook: what an earlier agent left can still be cleaned
	 * up. */
	if (answer && answer != -ENOENT)
		return answer;
	error = equip(session, config, err);
	return error ? error : answer;
}

/* Nothing of an earlier limpet is in the target, and the plan is not out of date. */
static bool may_carry_out(struct limpet_attach_plan *plan)
{
	if (plan->error || !limpet_attach_plan_is_current(plan))
		return false;
	for (size_t i = 0; i < plan->modules.count; i++)
		if (plan->modules.list[i].agent)
			return false;
	return limpet_leftovers_find(plan->modules.target, &plan->modules) <= 0;
}

/* *plan: one that can be carried out. */
static int renew_plan(struct limpet_tracer *tracer, const struct limpet_target *target,
		      const struct limpet_capture_config *config, struct limpet_attach_plan **plan,
		      struct limpet_err *err)
{
	int error;

	if (*plan && may_carry_out(*plan))
		return 0;
	limpet_attach_plan_free(*plan);
	*plan = NULL;
	error = limpet_session_cleanup_locked(tracer, target, config->attach_timeout_ns,
					      config->forked, err);
	if (error >= 0)
		error = limpet_attach_plan_new(target, config, plan, err);
	if (!error && (*plan)->error) {
		error = (*plan)->error;
		if (err)
			*err = (*plan)->err;
	}
	return limpet_target_explain(target, error, err);
}

static void adopt_plan(struct limpet_session *session, struct limpet_attach_plan *plan)
{
	assert(plan);
	session->modules = plan->modules;
	session->fingerprint = plan->fingerprint;
	session->entries = plan->entries;
	session->plan = plan->hooks;
	free(plan);
}

int limpet_session_prepare(struct limpet_tracer *tracer, const struct limpet_target *target,
			   const struct limpet_capture_config *config,
			   struct limpet_attach_plan *plan, struct limpet_session **ret,
			   struct limpet_err *err)
{
	struct limpet_session *session = NULL;
	int lock_fd = limpet_target_lock_acquire(
		tracer, target->pid, limpet_monotonic_ns() + config->attach_timeout_ns, err);
	int error = lock_fd < 0 ? lock_fd : renew_plan(tracer, target, config, &plan, err);

	if (!error) {
		session = session_new(tracer, target, config->attach_timeout_ns);
		error = session ? 0 : limpet_err_set(err, -ENOMEM, "out of memory");
	}
	if (error) {
		limpet_attach_plan_free(plan);
		limpet_tracer_rest(tracer);
		if (lock_fd >= 0)
			close(lock_fd);
		return error;
	}
	session->lock_fd = lock_fd;
	adopt_plan(session, plan);
	limpet_seccomp_watch_begin(target, &session->filters);
	limpet_own_objects_note_execution(target->pid);
	error = limpet_target_explain(target, equip(session, config, err), err);
	if (!error)
		error = hold_spares(session, err);
	if (error) {
		limpet_session_free(session);
		return error;
	}
	session->stats.slots_unhooked = session->plan.slots_unhooked;
	*ret = session;
	return 0;
}

void limpet_session_set_idle(struct limpet_session *session, void (*idle)(void *context),
			     void *context)
{
	session->wait.idle = idle;
	session->wait.idle_context = context;
}

bool limpet_session_agent_present(const struct limpet_session *session)
{
	struct limpet_agent_info info;

	return session->info_address &&
	       limpet_target_read(session->target, session->info_address, &info, sizeof(info)) ==
		       0 &&
	       info.magic == LIMPET_INFO_MAGIC && info.nonce == session->info.nonce;
}

static void add_own(struct limpet_own_memory *own, uint64_t start, uint64_t bytes)
{
	if (!start || own->count == LIMPET_OWN_MAPPINGS)
		return;
	own->list[own->count].start = start;
	own->list[own->count++].bytes = bytes;
}

/* All of it is mapped by the attach. What has no name may have become one mapping with memory of
 * the program. */
static int find_own_memory(struct limpet_session *session)
{
	const struct limpet_shm_layout *layout = &session->segment.layout;
	const uint64_t shm = session->info.shm, shm_bytes = session->segment.shm_bytes;
	struct limpet_own_memory *own = &session->own;
	struct limpet_maps maps;
	int error = limpet_proc_maps_read(session->target->pid, &maps);

	if (error)
		return error;
	/* Many mappings, some without a name. */
	add_own(own, shm, shm_bytes);
	for (size_t i = 0; i < maps.count; i++)
		if (limpet_memfd_is_ours(maps.list[i].path) &&
		    maps.list[i].start - shm >= shm_bytes)
			add_own(own, maps.list[i].start, maps.list[i].end - maps.list[i].start);
	limpet_proc_maps_done(&maps);
	add_own(own, session->info.scratch,
		LIMPET_PRIVATE_TABLES_BYTES +
			((uint64_t)layout->thread_count + layout->room_pages) *
				LIMPET_SCRATCH_BYTES);
	add_own(own, session->control_page, 4096);
	return 0;
}

int limpet_session_resident_bytes(struct limpet_session *session, uint64_t *ret_bytes,
				  uint64_t *ret_file_bytes)
{
	const struct limpet_own_memory *own = &session->own;
	uint64_t sum = 0, file_sum = 0;
	int error = 0;

	if (!limpet_session_agent_present(session))
		return -ESRCH;
	if (!own->count)
		error = find_own_memory(session);
	for (size_t i = 0; i < own->count && !error; i++) {
		uint64_t bytes, file_bytes;

		error = limpet_pages_count(session->target, own->list[i].start, own->list[i].bytes,
					   &bytes, &file_bytes);
		if (error)
			break;
		sum += bytes;
		file_sum += file_bytes;
	}
	if (!error) {
		*ret_bytes = sum;
		*ret_file_bytes = file_sum;
	}
	return error;
}

uint64_t limpet_session_original(const struct limpet_session *session, uint32_t hook)
{
	struct limpet_hook copy;

	if (hook < session->plan.start.hook_count)
		return session->plan.start.hooks[hook].original;
	/* A hook that the agent added for a module that was loaded later. */
	if (hook >= LIMPET_MAX_HOOKS ||
	    limpet_target_read(session->target, session->info.hooks + hook * sizeof(copy), &copy,
			       sizeof(copy)) < 0)
		return 0;
	return copy.original;
}

bool limpet_session_has_unread_modules(const struct limpet_session *session)
{
	return session->unread_modules;
}

int limpet_session_read_modules(struct limpet_session *session, struct limpet_err *err)
{
	uint32_t gone = __atomic_load_n(&session->segment.shm->gone_count, __ATOMIC_ACQUIRE);
	struct limpet_modules modules;
	int error = limpet_modules_read(session->target, &modules, err);

	if (error)
		return error;
	limpet_modules_done(&session->modules);
	session->modules = modules;
	update_tables(session, gone);
	error = make_safepoint(session);
	return error ? limpet_err_set(err, error, "out of memory") : 0;
}

int limpet_session_refresh_modules(struct limpet_session *session)
{
	/* Only the agent can see that a module was replaced by an identical one at the same
	 * address. */
	uint32_t seen = __atomic_load_n(&session->segment.shm->modules_seen, __ATOMIC_ACQUIRE);
	uint64_t fingerprint;
	bool changed;
	int error =
		limpet_modules_fingerprint(session->target, session->modules.r_debug, &fingerprint);

	if (error)
		return error;
	changed = fingerprint != session->fingerprint || seen != session->modules_seen;
	if (!changed && !limpet_unwind_set_has_frames(&session->segment.tables))
		return 0;
	error = limpet_session_read_modules(session, NULL);
	session->unread_modules |= changed && (error == -EACCES || error == -EPERM);
	if (!error)
		error = limpet_entry_late_scan(&session->late, &session->modules,
					       session->entry_list);
	if (error)
		return error;
	session->fingerprint = fingerprint;
	session->modules_seen = seen;
	return 1;
}

void limpet_session_abandon(struct limpet_session *session)
{
	const uint32_t off = 0; /* the first word of the agent's control page */

	session->segment.shm->wait_turns = 0;
	if (session->control_page)
		(void)!limpet_memory_write(session->target->pid, session->control_page, &off,
					   sizeof(off));
	__atomic_fetch_or(&session->segment.shm->collector, LIMPET_COLLECTOR_DIED,
			  __ATOMIC_RELAXED);
}
