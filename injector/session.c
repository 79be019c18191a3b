#include "injector/session.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>

#include "common/clock.h"
#include "common/family.h"
#include "common/wire.h"
#include "injector/hook/inline_hook.h"
#include "injector/hook/plan.h"
#include "injector/hook/remote_patch.h"
#include "injector/hook/sealed.h"
#include "injector/hook/thunks.h"
#include "injector/leftovers.h"
#include "injector/preflight/seccomp_watch.h"
#include "injector/proc/descriptor.h"
#include "injector/proc/memfd.h"
#include "injector/proc/memory.h"
#include "injector/proc/pages.h"
#include "injector/proc/proc.h"
#include "injector/proc/tid_offset.h"
#include "injector/ptrace/arch.h"
#include "injector/ptrace/last_words.h"
#include "injector/ptrace/priority.h"
#include "injector/ptrace/target_lock.h"
#include "injector/ptrace/tracee.h"
#include "injector/ptrace/watchdog.h"
#include "injector/remote/agent_image.h"
#include "injector/remote/growing.h"
#include "injector/remote/hijack.h"
#include "injector/remote/loader_lock.h"
#include "injector/remote/own_objects.h"
#include "injector/remote/safepoint.h"
#include "injector/remote/sharers.h"
#include "injector/remote/tables.h"

/* What leaving opens at a time, with a margin: held from before anything is touched, so that it can
 * be left whatever else opens files meanwhile. */
#define SPARE_FDS 16u
/* Rounds of a clean-up, each of which may uncover something for the next, before its deadline
 * counts. */
#define CLEANUPS 8
/* How long a clean-up waits for threads that have no processor. */
#define SETTLE_NS UINT64_C(1000000000)
/* A collector that lives reads what is there more often than this. */
#define BEAT_NS UINT64_C(3000000000) /* several times the longest between two looks */
/* Of a process that lives, but for threads that were hijacked. */
#define LEAVE_TRIES 8u
/* How often it is asked whether a process that is not clean has come to its end, 5 ms apart. */
#define END_LOOKS 200u
/* How long leaving waits for the target lock. */
#define LEAVE_LOCK_NS UINT64_C(1000000000)
/* For the search for copies, on top of the deadline and for each MiB that the program holds: twice
 * what two searches take on a busy machine. */
#define SEARCH_NS_PER_MIB UINT64_C(4000000)

struct limpet_session {
	pid_t pid;
	int pidfd;
	int lock_fd; /* to change the process: from the plan until it is carried out; else -1 */
	int spare[SPARE_FDS];
	unsigned spare_count;
	uint64_t start_ticks;
	uint64_t mark_address; /* AT_RANDOM: bytes that the kernel draws for each exec */
	uint64_t mark[2];
	uint64_t timeout_ns;
	uint64_t guard;     /* with which the program mangles addresses of functions */
	uint64_t search_ns; /* that is left of what the search for copies has on top */
	struct limpet_modules modules;
	struct limpet_segment segment;
	struct limpet_entries entries;
	const struct limpet_entry_list *entry_list;
	struct limpet_entry_late late;
	struct limpet_plan plan;
	struct limpet_safepoint *safepoint;
	struct limpet_seccomp_watch filters;
	uint64_t fingerprint, left_fingerprint;
	uint32_t modules_seen; /* changes that the agent had noticed by then */
	bool clock_is_tsc;     /* what the shared memory says of it is for the agent */
	bool left_behind;      /* by an earlier limpet: its plan is not known */
	bool anywhere; /* nothing of the program's is called, on whatever thread we hijack */
	bool outside;  /* slots are put back from outside */
	int channel;
	uint64_t info_address;   /* of limpet_agent_info in the target */
	uint64_t tables_address; /* of the unwind tables there; 0: not looked for yet */
	uint64_t handle;
	uint64_t control_page;
	struct limpet_agent_info info;
	struct limpet_hook hooks[LIMPET_MAX_HOOKS]; /* as the agent got them */
	void (*idle)(void *context);
	void *idle_context;
	struct limpet_session_stats stats;
};

pid_t limpet_session_pid(const struct limpet_session *session)
{
	return session->pid;
}

int limpet_session_channel(const struct limpet_session *session)
{
	return session->channel;
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

bool limpet_session_follows_glibc_alone(struct limpet_session *session)
{
	const struct limpet_start *start = &session->plan.start;
	bool any = false;

	if (session->entries.count > session->entries.families[LIMPET_ENTRY_FINDER] ||
	    session->late.functions)
		return false;
	for (uint32_t i = 0; i < start->hook_count; i++) {
		const struct limpet_hook *hook = &start->hooks[i];
		const struct limpet_module *module;

		if (limpet_family[hook->symbol].flags & (LIMPET_FAMILY_MMAP | LIMPET_FAMILY_LOADER |
							 LIMPET_FAMILY_FINDER | LIMPET_FAMILY_CXX))
			continue;
		module = limpet_modules_find(&session->modules, hook->original);
		if (!module || !limpet_modules_is_libc(&session->modules,
						       (struct limpet_module *)(uintptr_t)module))
			return false;
		any = true;
	}
	return any;
}

bool limpet_session_has_entries(void *context, const struct limpet_module *module)
{
	const struct limpet_session *session = context;

	for (size_t i = 0; i < session->entries.count; i++)
		if (session->entries.list[i].address >= module->start &&
		    session->entries.list[i].address < module->end)
			return true;
	return false;
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

/* The same process as at the beginning, still running the same program: before each write.
 * -ESRCH: it is gone; -ESTALE: it has executed another program. */
static int check_identity(const void *context)
{
	const struct limpet_session *session = context;
	struct pollfd end = {.fd = session->pidfd, .events = POLLIN};
	uint64_t ticks, mark[2];
	int error;

	if (poll(&end, 1, 0) > 0)
		return -ESRCH;
	error = limpet_proc_start_time(session->pid, &ticks);
	if (!error && ticks != session->start_ticks)
		error = -ESRCH;
	if (error || !session->mark_address)
		return error;
	error = limpet_memory_read(session->pid, session->mark_address, mark, sizeof(mark));
	if (error == -ESRCH)
		return error;
	return error || memcmp(mark, session->mark, sizeof(mark)) != 0 ? -ESTALE : 0;
}

static int explain_identity(const struct limpet_session *session, int error, struct limpet_err *err)
{
	return limpet_proc_explain(session->pid, error, "look at", err);
}

/* What failed for a process that ended or became another meanwhile failed for that reason. */
static int explain_failure(const struct limpet_session *session, int error, struct limpet_err *err)
{
	const struct timespec pause = {0, 5000000};
	int identity = error ? check_identity(session) : 0;

	/* A thread that went away under our hands may be the beginning of an exec or an end. */
	for (int i = 0; error == -ESRCH && !identity && i < 40; i++) {
		nanosleep(&pause, NULL);
		identity = check_identity(session);
	}
	return identity ? explain_identity(session, identity, err) : error;
}

static int session_open(pid_t pid, uint64_t timeout_ns, struct limpet_session **ret,
			struct limpet_err *err)
{
	struct limpet_session *session = calloc(1, sizeof(*session));
	int error;

	if (!session)
		return limpet_err_set(err, -ENOMEM, "out of memory");
	session->pid = pid;
	session->timeout_ns = timeout_ns;
	session->channel = session->lock_fd = -1;
	session->segment.shm_fd = session->segment.arena_fd = -1;
	session->pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
	error = session->pidfd < 0 ? limpet_errno()
				   : limpet_proc_start_time(pid, &session->start_ticks);
	if (error) {
		limpet_session_free(session);
		return limpet_proc_explain(pid, error, "open", err);
	}
	if (limpet_proc_auxv(pid, AT_RANDOM, &session->mark_address) < 0 ||
	    limpet_memory_read(pid, session->mark_address, session->mark, sizeof(session->mark)) <
		    0)
		session->mark_address = 0;
	error = explain_failure(session, limpet_modules_read(pid, &session->modules, err), err);
	if (error) {
		limpet_session_free(session);
		return error;
	}
	if (session->modules.r_debug)
		limpet_modules_fingerprint(pid, session->modules.r_debug, &session->fingerprint);
	*ret = session;
	return 0;
}

static int hold_spares(struct limpet_session *session, struct limpet_err *err)
{
	while (session->spare_count < SPARE_FDS) {
		int fd = fcntl(session->pidfd, F_DUPFD_CLOEXEC, 3);

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

static void release_spares(struct limpet_session *session)
{
	while (session->spare_count)
		close(session->spare[--session->spare_count]);
}

/* Nobody of the target is stopped after this. */
static void release_target_lock(struct limpet_session *session)
{
	limpet_tracee_rest();
	if (session->lock_fd >= 0)
		close(session->lock_fd);
	session->lock_fd = -1;
}

void limpet_session_free(struct limpet_session *session)
{
	if (!session)
		return;
	release_spares(session);
	release_target_lock(session);
	limpet_watchdog_bury(true);
	limpet_safepoint_free(session->safepoint);
	limpet_last_words_forget();
	limpet_segment_done(&session->segment);
	limpet_plan_done(&session->plan);
	limpet_entries_done(&session->entries);
	limpet_entry_late_done(&session->late);
	limpet_modules_done(&session->modules);
	if (session->channel >= 0)
		close(session->channel);
	if (session->pidfd >= 0)
		close(session->pidfd);
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

/* Everything that hijacking needs, prepared while the target runs. */
static int session_arm(struct limpet_session *session, const struct limpet_session_options *options,
		       struct limpet_err *err)
{
	int error = limpet_segment_create(options->agent_memory_bytes, &options->sampling,
					  &session->segment, err);

	if (error)
		return error;
	session->entry_list = options->entry_list;
	session->filters.assume_ok = options->assume_seccomp_ok;
	if (limpet_entries_find(&session->modules, options->entry_list, &session->entries) < 0 ||
	    limpet_entry_late_begin(&session->late, &session->modules) < 0)
		return limpet_err_set(err, -ENOMEM, "out of memory");
	session->stats.entries_refused = session->entries.refused;
	session->stats.thread_heaps = session->entries.thread_heaps;
	error = limpet_plan_make(&session->modules, &session->segment, &session->entries,
				 options->load, &session->plan, err);
	/* Even without anything to patch: what an earlier agent left can still be cleaned up. */
	if (error && error != -ENOENT)
		return error;
	session->anywhere = session->plan.mapped;
	limpet_segment_update_tables(&session->segment, &session->modules, 0);
	if (make_safepoint(session) < 0)
		return limpet_err_set(err, -ENOMEM, "out of memory");
	return error;
}

/* Where the kernel itself does not trust the time stamp counter, nor do we. */
static void choose_clock(struct limpet_session *session)
{
	struct limpet_shm *shm = session->segment.shm;
	char name[16] = "";
	LIMPET_CLOSE int fd =
		open("/sys/devices/system/clocksource/clocksource0/current_clocksource",
		     O_RDONLY | O_CLOEXEC);

	shm->clock_function = 0;
	if (fd >= 0 && read(fd, name, sizeof(name) - 1) > 0 && strncmp(name, "tsc", 3) != 0) {
		for (size_t i = 0; i < session->modules.count && !shm->clock_function; i++)
			if (session->modules.list[i].vdso)
				shm->clock_function = limpet_module_symbol(
					session->pid, &session->modules.list[i],
					"__vdso_clock_gettime", NULL);
	}
	session->clock_is_tsc = !shm->clock_function;
	shm->clock_is_tsc = session->clock_is_tsc;
}

/* Those below that have no turn of their own are called by who has it. */
static int cleanup(pid_t pid, uint64_t timeout_ns, bool abandoned, struct limpet_err *err);

int limpet_session_prepare(pid_t pid, const struct limpet_session_options *options,
			   struct limpet_session **ret, struct limpet_err *err)
{
	struct limpet_session *session = NULL;
	int lock_fd =
		    limpet_target_lock_take(pid, limpet_monotonic_ns() + options->timeout_ns, err),
	    error;

	if (lock_fd < 0)
		return lock_fd;
	error = cleanup(pid, options->timeout_ns, options->forked, err);
	if (error >= 0)
		error = session_open(pid, options->timeout_ns, &session, err);
	if (error || !session) {
		limpet_tracee_rest();
		close(lock_fd);
		return error;
	}
	session->lock_fd = lock_fd;
	limpet_seccomp_watch_begin(pid, &session->filters);
	limpet_own_objects_note_execution(pid);
	error = explain_failure(session, session_arm(session, options, err), err);
	if (!error)
		error = hold_spares(session, err);
	if (error) {
		limpet_session_free(session);
		return error;
	}
	session->stats.slots_not_taken = session->plan.slots_not_taken;
	choose_clock(session);
	*ret = session;
	return 0;
}

static bool may_call(void *context, pid_t tid)
{
	struct limpet_session *session = context;

	return limpet_seccomp_watch_allows(&session->filters, session->pid, tid);
}

static void hijack_setup(struct limpet_session *session, uint64_t deadline_ns,
			 struct limpet_hijack_setup *ret)
{
	*ret = (struct limpet_hijack_setup){
		.pid = session->pid,
		.pidfd = session->pidfd,
		.safepoint = &session->safepoint,
		.gadgets = &session->plan.gadgets,
		.anywhere = session->anywhere,
		.maps = &session->modules.maps,
		.loader_lock = session->plan.loader_lock,
		.may_call = may_call,
		.may_call_context = session,
		.deadline_ns = deadline_ns,
		.idle = session->idle,
		.idle_context = session->idle_context,
		.check = check_identity,
		.check_context = session,
	};
}

static void fill_boot(const struct limpet_session *session, const struct limpet_hijack *hijack,
		      struct limpet_boot *boot)
{
	const struct limpet_plan *plan = &session->plan;

	memset(boot, 0, sizeof(*boot));
	boot->channel = boot->injector_end = boot->image = -1;
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

/* Spells /proc/thread-self/fd/ in one of 2^32 ways. glibc compares names before it looks at files:
 * under a name used before, a descriptor's number would find the agent that was loaded then. Not
 * /proc/self, which is the main thread: it may have ended, and shows no descriptors then. */
static void spell_path(uint64_t nonce, char *path)
{
	char *at = stpcpy(path, "/proc");

	for (unsigned bit = 0; bit < 32; bit++)
		at = stpcpy(at, nonce >> bit & 1 ? "/." : "/");
	strcpy(at, "/thread-self/fd/");
}

static uint32_t find_tid_offset(const struct limpet_session *session,
				const struct limpet_tracee *tracee)
{
	struct limpet_proc_status status;

	if (limpet_proc_status_read(limpet_tracee_tid(tracee), &status) < 0)
		return 0;
	return limpet_tid_offset_find(session->pid, status.ns_pid,
				      limpet_tracee_regs(tracee)->fs_base);
}

/* For threads that come to a hook before the collector has looked for their stacks. */
static void say_where_stacks_are(struct limpet_session *session, const struct limpet_tracee *tracee)
{
	struct limpet_shm *shm = session->segment.shm;
	struct limpet_proc_status status;
	const struct limpet_maps *maps = &session->modules.maps;

	shm->tid_offset = find_tid_offset(session, tracee);
	shm->stack_offset = limpet_stack_offset_of(shm->tid_offset);
	shm->main_tid = 0;
	if (limpet_proc_status_read(session->pid, &status) < 0)
		return;
	for (size_t i = 0; i < maps->count; i++) {
		const struct limpet_map *map = &maps->list[i];

		if (strcmp(map->path, "[stack]") != 0)
			continue;
		shm->main_tid = (uint32_t)status.ns_pid;
		shm->main_stack_low = limpet_proc_main_stack_low(session->pid, maps, map);
		shm->main_stack_high = map->end;
	}
}

uint64_t limpet_session_clock(const struct limpet_session *session)
{
	return session->clock_is_tsc ? limpet_arch_ticks() : limpet_monotonic_ns();
}

/* A number for our descriptor below which the program's own lie, within the table it has: a larger
 * number would make the kernel grow the table, and all threads wait for that. */
static int choose_floor(const struct limpet_session *session)
{
	struct limpet_proc_status status;
	LIMPET_FREE int *fds = NULL;
	int count = limpet_proc_fds(session->pid, &fds), floor;
	uint64_t limit;

	if (count < 0 || limpet_proc_status_read(limpet_proc_resident(session->pid), &status) < 0 ||
	    limpet_proc_limit_files(session->pid, &limit) < 0)
		return 0;
	floor = (int)(status.fd_size < limit ? status.fd_size : limit) - 1;
	for (int i = count - 1, free_numbers = 0; floor > 0; floor--) {
		while (i >= 0 && fds[i] > floor)
			i--;
		if (i >= 0 && fds[i] == floor)
			continue;
		if (++free_numbers == 4)
			return floor;
	}
	return 0;
}

static int explain_boot(const struct limpet_session *session, const struct limpet_boot *boot,
			struct limpet_err *err)
{
	if (boot->error[0])
		return limpet_err_set(err, boot->result,
				      "process %d could not load the agent: %.255s", session->pid,
				      boot->error);
	return limpet_err_set(err, boot->result, "the agent could not start in process %d: %s",
			      session->pid, strerror(-boot->result));
}

static void near_setup(struct limpet_session *session, uint64_t deadline_ns,
		       struct limpet_inline_hook_setup *ret)
{
	*ret = (struct limpet_inline_hook_setup){
		.pid = session->pid,
		.deadline_ns = deadline_ns,
		.check = check_identity,
		.check_context = session,
		.idle = session->idle,
		.idle_context = session->idle_context,
	};
}

/* The originals of hooked entries are where their beginnings have moved to. */
static int map_near(struct limpet_session *session, struct limpet_hijack *hijack,
		    struct limpet_start *start, struct limpet_err *err)
{
	int error = limpet_inline_hook_map(hijack, &session->modules, &session->entries, err);

	for (size_t i = 0; i < session->entries.count && !error; i++)
		start->hooks[session->entries.list[i].hook].original =
			session->entries.list[i].original;
	return error;
}

/* No agent has come of it. */
static void unmap_near(struct limpet_session *session, struct limpet_hijack *hijack)
{
	for (uint32_t i = 0; i < session->entries.area_count; i++) {
		struct limpet_entry_area *area = &session->entries.areas[i];

		if (area->address)
			limpet_hijack_unmap_last(hijack, area->address, area->bytes);
	}
}

static uint32_t count_not_taken(const struct limpet_plan *plan)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < plan->slot_count; i++)
		count += limpet_slot_not_taken(&plan->slots[i]);
	return count;
}

static int put_slots_in(void *context, int memory)
{
	struct limpet_session *session = context;
	struct limpet_maps now;
	int error = limpet_proc_maps_read(session->pid, &now);

	if (error)
		return error;
	limpet_remote_patch_check(session->plan.slots, session->plan.slot_count,
				  &session->modules.maps, &now);
	limpet_proc_maps_done(&now);
	session->stats.slots_patched += limpet_remote_patch_put_in(
		memory, session->plan.slots, session->plan.slot_count, session->hooks,
		session->info.thunks, session->info.thunk_bytes);
	session->stats.slots_not_taken =
		session->plan.slots_not_taken + count_not_taken(&session->plan);
	memcpy(limpet_segment_slots(&session->segment), session->plan.slots,
	       session->plan.slot_count * sizeof(*session->plan.slots));
	return 0;
}

static int put_slots_back(void *context, int memory)
{
	const struct limpet_session *session = context;
	int answer = limpet_remote_patch_put_back(session->pid, memory, &session->info);

	return answer < 0 ? answer : 0;
}

/* All that is done from outside. */
static int switch_on(struct limpet_session *session, const struct limpet_tracee *hijacked,
		     struct limpet_err *err)
{
	struct limpet_inline_hook_setup setup;

	if (!session->entries.count && !session->plan.start.from_outside)
		return 0;
	near_setup(session, limpet_monotonic_ns() + session->timeout_ns, &setup);
	if (session->plan.start.from_outside) {
		setup.also = put_slots_in;
		setup.also_context = session;
	}
	return limpet_inline_hook_switch_on(&setup, hijacked, session->info.thunks,
					    session->info.thunk_bytes, &session->entries, err);
}

/* Whether it has locked any memory: then what we map there may be locked, too. */
static bool locks_memory(const struct limpet_session *session)
{
	uint64_t kilobytes = 0;
	pid_t resident = limpet_proc_resident(session->pid);

	return limpet_proc_task_number(session->pid, resident, "VmLck", &kilobytes) == 0 &&
	       kilobytes;
}

/* Hooks read the time from the processor's counter, and so does the vDSO: a thread from which that
 * is kept would end by it. */
static int check_counter(const struct limpet_session *session, struct limpet_hijack *hijack,
			 struct limpet_err *err)
{
	int answer = limpet_hijack_lacks_counter(hijack);

	if (answer < 0)
		return limpet_err_set(err, answer, "cannot ask process %d for its clock: %s",
				      session->pid, strerror(-answer));
	if (!answer)
		return 0;
	limpet_err_set(err, -ECANCELED,
		       "process %d has put the processor's time stamp counter out of its reach "
		       "(PR_SET_TSC): limpet's hooks would end it when they read the time",
		       session->pid);
	limpet_err_hint(err, "start it without that, as a program under rr or a simulator has it");
	return -ECANCELED;
}

static int explain_growing(const struct limpet_session *session, int error, struct limpet_err *err)
{
	limpet_err_set(err, error,
		       "what is mapped in process %d comes to lie where its own memory grows "
		       "downwards (MAP_GROWSDOWN): it could not grow any more",
		       session->pid);
	limpet_err_hint(err, "set that memory aside as a whole, as pthread_create does for stacks");
	return error;
}

/* What the kernel, or the dynamic linker, has placed. */
static int check_places(const struct limpet_session *session, struct limpet_err *err)
{
	struct limpet_maps maps;
	bool grows = false;
	int error = limpet_proc_maps_read(session->pid, &maps);

	if (error)
		return limpet_err_set(err, error, "cannot read the mappings of process %d: %s",
				      session->pid, strerror(-error));
	for (size_t i = 0; i + 1 < maps.count && !grows; i++)
		grows = limpet_memfd_is_ours(maps.list[i].path) &&
			maps.list[i].end != maps.list[i + 1].start &&
			limpet_growing_above(session->pid, &maps, maps.list[i].end);
	limpet_proc_maps_done(&maps);
	return grows ? explain_growing(session, -EADDRINUSE, err) : 0;
}

static int enter_once(struct limpet_session *session, struct limpet_hijack *hijack, uint64_t nonce,
		      int floor, bool *ret_started, struct limpet_err *err)
{
	const struct limpet_agent_image *image;
	LIMPET_FREE struct limpet_boot *boot = malloc(sizeof(*boot));
	int error = limpet_agent_image_get(&image);

	if (!boot || error)
		return limpet_err_set(err, error ? error : -ENOMEM, "cannot prepare the agent");
	error = check_counter(session, hijack, err);
	if (error)
		return error;
	limpet_last_words_prepare(&session->segment.shm->collector);
	say_where_stacks_are(session, limpet_hijack_tracee(hijack));
	fill_boot(session, hijack, boot);
	boot->operation = LIMPET_BOOT_ENTER;
	boot->floor = floor;
	boot->info_offset = image->info_offset;
	if (session->plan.mapped)
		boot->layout = image->layout;
	spell_path(nonce, boot->path);
	boot->start = session->plan.start;
	boot->start.nonce = nonce;
	boot->start.shm_bytes = session->segment.shm_bytes;
	boot->start.unwind_bytes = session->segment.arena_bytes;
	boot->start.unlock = locks_memory(session);
	error = limpet_hijack_map(hijack, err);
	/* Also where no other place was found for the code itself. */
	if ((!error || error == -ENOMEM) && limpet_hijack_below_growing(hijack))
		error = explain_growing(session, -ECANCELED, err);
	if (!error && session->entries.count)
		error = map_near(session, hijack, &boot->start, err);
	memcpy(session->hooks, boot->start.hooks, sizeof(session->hooks));
	if (!error)
		error = limpet_hijack_call(hijack, boot, &session->segment, err);
	if (!error && boot->result)
		error = explain_boot(session, boot, err);
	if (error) {
		unmap_near(session, hijack);
		return error;
	}
	*ret_started = true;
	session->handle = boot->handle;
	session->control_page = boot->start.control_page;
	session->stats.slots_patched = boot->start.patched;
	session->info_address = boot->info;
	error = limpet_memory_read(session->pid, session->info_address, &session->info,
				   sizeof(session->info));
	if (error || session->info.magic != LIMPET_INFO_MAGIC || session->info.nonce != nonce)
		return limpet_err_set(err, -EPROTO, "the agent that answered is not ours");
	session->channel = limpet_hijack_take_channel(hijack);
	return 0;
}

/* Who shares its memory and is none of its threads, now, has gone: it cannot be held, may stand
 * wherever we write or unmap, and is soon gone as a rule. */
static int wait_for_sharers(struct limpet_session *session, uint64_t deadline_ns,
			    struct limpet_err *err)
{
	const struct limpet_sharers_wait options = {
		.deadline_ns = deadline_ns,
		.idle = session->idle,
		.idle_context = session->idle_context,
		.check = check_identity,
		.check_context = session,
	};
	pid_t sharer = 0;
	int error = limpet_sharers_wait(session->pid, &options, &sharer);

	if (!error)
		return 0;
	if (!sharer)
		return limpet_err_set(err, error,
				      "cannot look for who shares the memory of process %d: %s",
				      session->pid, strerror(-error));
	limpet_err_set(err, error,
		       "process %d shares the memory of process %d and is none of its threads "
		       "(a vfork child, or one made by a bare clone(2)): it could be in the "
		       "middle of what limpet changes there",
		       sharer, session->pid);
	limpet_err_hint(err, "try again when %d has ended, or give it longer: --attach-timeout 60s",
			sharer);
	return error;
}

static int enter(struct limpet_session *session, struct limpet_tracee *tracee,
		 struct limpet_err *err)
{
	struct limpet_shm *shm = session->segment.shm;
	struct limpet_hijack_setup setup;
	struct limpet_hijack *hijack;
	bool started = false;
	uint64_t nonce;
	int floor = choose_floor(session), error, closing;

	if (getrandom(&nonce, sizeof(nonce), 0) != (ssize_t)sizeof(nonce))
		return limpet_err_set(err, -EIO, "cannot get random bytes");
	shm->nonce = nonce;
	if (!shm->max_depth)
		shm->max_depth = 256;
	shm->clock_base = limpet_session_clock(session);
	hijack_setup(session, limpet_monotonic_ns() + session->timeout_ns, &setup);
	error = check_identity(session);
	if (error) {
		limpet_tracee_release(tracee);
		return explain_identity(session, error, err);
	}
	setup.room_bytes = session->segment.shm_bytes > session->segment.arena_bytes
				   ? session->segment.shm_bytes
				   : session->segment.arena_bytes;
	error = tracee ? 0 : wait_for_sharers(session, setup.deadline_ns, err);
	if (error)
		return explain_failure(session, error, err);
	error = tracee ? limpet_hijack_given(&setup, tracee, &hijack, err)
		       : limpet_hijack_find(&setup, &hijack, err);
	if (error)
		return explain_failure(session, error, err);
	error = enter_once(session, hijack, nonce, floor, &started, err);
	/* Not one instruction of its own is done unseen. Other programs run on meanwhile: it may
	 * take more than one try. */
	if (!error && tracee)
		error = switch_on(session, tracee, err);
	/* A command of ours: not one instruction of its own has been done, nor will be. */
	if (error && tracee)
		kill(session->pid, SIGKILL);
	session->stats.attach_attempts = limpet_hijack_attempts(hijack);
	closing = limpet_hijack_finish(hijack);
	if (!error && !closing)
		error = check_places(session, err);
	if (!error && !closing && !tracee)
		error = switch_on(session, NULL, err);
	/* Those of the preflight with them. */
	session->stats.attach_stop_ns = limpet_tracee_take_longest_stop_ns();
	if (!error && closing)
		error = limpet_err_set(err, closing, "lost the target while letting go: %s",
				       strerror(-closing));
	if (error)
		release_spares(session);
	if (error && started)
		cleanup(session->pid, session->timeout_ns, true, NULL);
	return explain_failure(session, error, err);
}

int limpet_session_enter(struct limpet_session *session, struct limpet_tracee *tracee,
			 struct limpet_err *err)
{
	int priority = limpet_priority_raise(), error = enter(session, tracee, err);

	limpet_priority_set_back(priority);
	release_target_lock(session);
	return error;
}

/* Of any thread of the program's. Of what has no such word it is some number: nothing is mangled
 * with it. */
static void note_guard(struct limpet_session *session, const struct limpet_tracee *tracee)
{
	uint64_t address = limpet_tracee_regs(tracee)->fs_base + LIMPET_ARCH_POINTER_GUARD;

	if (limpet_memory_read(session->pid, address, &session->guard, sizeof(session->guard)) < 0)
		session->guard = 0;
}

/* One call of an agent's entry on a hijacked thread. `place`: whose code near the program's is to
 * go after it, and its thunks with it where the program keeps no address of them; NULL: all stays.
 */
static int call_agent(struct limpet_session *session, uint32_t operation, uint64_t function,
		      const struct limpet_agent_place *place, uint64_t deadline_ns, int *ret_result,
		      struct limpet_err *err)
{
	LIMPET_FREE struct limpet_boot *boot = malloc(sizeof(*boot));
	struct limpet_hijack_setup setup;
	struct limpet_hijack *hijack;
	int priority, error, closing;

	if (!boot)
		return limpet_err_set(err, -ENOMEM, "out of memory");
	error = check_identity(session);
	if (error)
		return explain_identity(session, error, err);
	hijack_setup(session, deadline_ns, &setup);
	priority = limpet_priority_raise();
	error = limpet_hijack_find(&setup, &hijack, err);
	if (error) {
		limpet_priority_set_back(priority);
		return error;
	}
	note_guard(session, limpet_hijack_tracee(hijack));
	fill_boot(session, hijack, boot);
	boot->operation = operation;
	boot->call = function;
	if (place && place->thunks_apart && !session->stats.copies.elsewhere)
		boot->thunks = place->thunks;
	error = limpet_hijack_map(hijack, err);
	if (!error)
		error = limpet_hijack_call(hijack, boot, NULL, err);
	/* What led there is gone with the agent. */
	for (unsigned i = 0; place && i < place->near_count && !error && !boot->result; i++)
		limpet_hijack_unmap_last(hijack, place->near[i].start,
					 place->near[i].end - place->near[i].start);
	closing = limpet_hijack_finish(hijack);
	limpet_priority_set_back(priority);
	if (error)
		return error;
	if (closing)
		return limpet_err_set(err, closing, "lost the target while letting go: %s",
				      strerror(-closing));
	if (operation == LIMPET_BOOT_UNLOAD && boot->result)
		return explain_boot(session, boot, err);
	*ret_result = boot->result;
	return 0;
}

/* All stops but those of the attach. */
static void note_detach_stop(struct limpet_session *session)
{
	uint64_t stop_ns = limpet_tracee_take_longest_stop_ns();

	if (stop_ns > session->stats.detach_stop_ns)
		session->stats.detach_stop_ns = stop_ns;
}

int limpet_session_rescan(struct limpet_session *session, struct limpet_err *err)
{
	int result = 0, error;

	/* A hijacked thread may hold the lock that the agent would take. */
	if (session->plan.start.from_outside)
		return 0;
	limpet_tracee_take_longest_stop_ns();
	error = call_agent(session, LIMPET_BOOT_CALL, session->info.rescan, NULL,
			   limpet_monotonic_ns() + session->timeout_ns, &result, err);
	limpet_tracee_rest();
	note_detach_stop(session);
	return error ? error : result;
}

/* As the kernel's list of mappings has it, not the agent. */
static bool are_apart(const struct limpet_session *session, uint64_t thunks)
{
	const struct limpet_map *map = limpet_proc_maps_find(&session->modules.maps, thunks);

	return map && map->start == thunks && limpet_thunks_are(map);
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
	ret->thunks_apart = are_apart(session, info->thunks);
	ret->near_count = limpet_inline_hook_find(session->pid, &session->modules.maps, ret->near);
	return 0;
}

void limpet_session_set_idle(struct limpet_session *session, void (*idle)(void *context),
			     void *context)
{
	session->idle = idle;
	session->idle_context = context;
}

bool limpet_session_agent_present(const struct limpet_session *session)
{
	struct limpet_agent_info info;

	return session->info_address &&
	       limpet_memory_read(session->pid, session->info_address, &info, sizeof(info)) == 0 &&
	       info.magic == LIMPET_INFO_MAGIC && info.nonce == session->info.nonce;
}

/* It is mapped once, for as long as the agent is there. */
static uint64_t find_tables(struct limpet_session *session)
{
	const char *name = "/memfd:" LIMPET_MEMFD_UNWIND;
	struct limpet_maps maps;

	if (session->tables_address || limpet_proc_maps_read(session->pid, &maps) < 0)
		return session->tables_address;
	for (size_t i = 0; i < maps.count; i++)
		if (!strncmp(maps.list[i].path, name, strlen(name)))
			session->tables_address = maps.list[i].start;
	limpet_proc_maps_done(&maps);
	return session->tables_address;
}

int limpet_session_resident_bytes(struct limpet_session *session, uint64_t *ret_bytes)
{
	const struct limpet_segment *segment = &session->segment;
	uint64_t shared, tables = segment->arena_used, address;
	int error;

	if (!limpet_session_agent_present(session))
		return -ESRCH;
	error = limpet_pages_count(session->pid, session->info.shm, segment->shm_bytes, &shared);
	address = error ? 0 : find_tables(session);
	if (address)
		error = limpet_pages_count(session->pid, address, segment->arena_bytes, &tables);
	if (error)
		return error;
	*ret_bytes = shared + tables;
	return 0;
}

uint64_t limpet_session_original(const struct limpet_session *session, uint32_t hook)
{
	struct limpet_hook copy;

	if (hook < session->plan.start.hook_count)
		return session->plan.start.hooks[hook].original;
	/* One that the agent added for a module that came later. */
	if (hook >= LIMPET_MAX_HOOKS ||
	    limpet_memory_read(session->pid, session->info.hooks + hook * sizeof(copy), &copy,
			       sizeof(copy)) < 0)
		return 0;
	return copy.original;
}

static int modules_again(struct limpet_session *session, struct limpet_err *err)
{
	uint32_t gone = __atomic_load_n(&session->segment.shm->gone_count, __ATOMIC_ACQUIRE);
	struct limpet_modules modules;
	int error = limpet_modules_read(session->pid, &modules, err);

	if (error)
		return error;
	limpet_modules_done(&session->modules);
	session->modules = modules;
	limpet_segment_update_tables(&session->segment, &session->modules, gone);
	error = make_safepoint(session);
	return error ? limpet_err_set(err, error, "out of memory") : 0;
}

int limpet_session_refresh_modules(struct limpet_session *session)
{
	/* A module that has taken the place of another, to the byte, only the agent can tell. */
	uint32_t seen = __atomic_load_n(&session->segment.shm->modules_seen, __ATOMIC_ACQUIRE);
	uint64_t fingerprint;
	int error =
		limpet_modules_fingerprint(session->pid, session->modules.r_debug, &fingerprint);

	if (error)
		return error;
	if (fingerprint == session->fingerprint && seen == session->modules_seen)
		return 0;
	error = modules_again(session, NULL);
	if (!error)
		error = limpet_entry_late_look(&session->late, &session->modules,
					       session->entry_list);
	if (error)
		return error;
	session->fingerprint = fingerprint;
	session->modules_seen = seen;
	return 1;
}

/* What it takes to search memory that is there is not taken from the deadline, which moves on.
 * Where threads wait long for a processor they do not all stand at once in the time that is given
 * for that: then they go on for a while, and it is tried again. */
static int restore_copies(struct limpet_session *session, const struct limpet_agent_place *place,
			  bool files_only, uint64_t *deadline_ns, unsigned *ret_found)
{
	const struct timespec pause = {0, 20000000};
	const struct limpet_hook_pointers_options options = {
		.way = LIMPET_PAGES_ASK,
		.modules = &session->modules,
		.files_only = files_only,
		.guard = session->guard,
		.deadline_ns = *deadline_ns + session->search_ns,
		.idle = session->idle,
		.idle_context = session->idle_context,
		.check = check_identity,
		.check_context = session,
	};

	for (;;) {
		uint64_t began_ns = limpet_monotonic_ns(), took_ns;
		struct limpet_hook_pointers_stats copies;
		int error = limpet_hook_pointers_restore(session->pid, place, session->info.hooks,
							 &options, &copies);

		took_ns = limpet_monotonic_ns() - began_ns;
		if (took_ns > session->search_ns)
			took_ns = session->search_ns;
		session->search_ns -= took_ns;
		*deadline_ns += took_ns;
		session->stats.copies.found += copies.found;
		session->stats.copies.restored += copies.restored;
		session->stats.copies.scanned_bytes += copies.scanned_bytes;
		if (!files_only || copies.elsewhere)
			session->stats.copies.elsewhere = copies.elsewhere;
		*ret_found = copies.found;
		if (error != -EAGAIN || limpet_monotonic_ns() >= *deadline_ns)
			return error;
		nanosleep(&pause, NULL);
		limpet_tracee_release_strays();
		if (session->idle)
			session->idle(session->idle_context);
	}
}

static int explain_copies(const struct limpet_session *session, int error, struct limpet_err *err)
{
	if (error != -ETIMEDOUT)
		return limpet_err_set(err, error == -ESRCH ? error : -EBUSY,
				      "copies of hook addresses remain in the program's data");
	limpet_err_set(err, -EBUSY,
		       "the program has so much memory that it could not be searched in time for "
		       "copies of hook addresses");
	limpet_err_hint(err, "limpet attach --duration 1s --attach-timeout 5m %d searches longer",
			session->pid);
	return -EBUSY;
}

static int explain_elsewhere(const struct limpet_session *session, struct limpet_err *err)
{
	return limpet_err_set(err, -EBUSY,
			      "process %d keeps addresses of hooks where they are not put back: "
			      "mangled (as by atexit), in code, or in packed or read-only data",
			      session->pid);
}

/* It has come since the agent was loaded, which would be mapped else. */
static int explain_collector(const struct limpet_session *session, struct limpet_err *err)
{
	limpet_err_set(err, -EBUSY,
		       "process %d has loaded a garbage collector (GC_gcollect), which may be "
		       "reading the agent's memory",
		       session->pid);
	limpet_err_hint(err, "it stays there until the program ends: limpet attach --load map "
			     "does without");
	return -EBUSY;
}

/* No copy of a hook's address is left, and no thread is in one. A thread that held an address in a
 * register may have stored it behind the scan's back: what the proof took long for is scanned
 * again. */
static int prove_unused(struct limpet_session *session, const struct limpet_agent_place *place,
			uint64_t *deadline_ns, struct limpet_err *err)
{
	struct limpet_quiesce_options quiesce = {
		.stop_all =
			session->plan.address_slots || session->left_behind ||
			__atomic_load_n(&session->segment.shm->addresses_asked, __ATOMIC_ACQUIRE),
		.idle = session->idle,
		.idle_context = session->idle_context,
		.check = check_identity,
		.check_context = session,
	};
	unsigned found;
	int error;

	do {
		error = restore_copies(session, place, false, deadline_ns, &found);
		if (error)
			return explain_copies(session, error, err);
		if (session->stats.copies.elsewhere && !place->thunks_apart)
			return explain_elsewhere(session, err);
		quiesce.thunks_stay = session->stats.copies.elsewhere;
		quiesce.deadline_ns = *deadline_ns;
		error = limpet_quiesce_prove(session->pid, place, &quiesce,
					     &session->stats.quiesce);
		if (error)
			return limpet_err_set(err, error, "a thread of process %d stayed in a hook",
					      session->pid);
		/* No code loads these addresses but to jump there, and the linker to bind slots. */
		if (!quiesce.stop_all && !session->plan.symbols)
			return 0;
		error = restore_copies(session, place, !quiesce.stop_all, deadline_ns, &found);
	} while (!error && found && limpet_monotonic_ns() < *deadline_ns);
	if (error || found)
		return explain_copies(session, error, err);
	return session->stats.copies.elsewhere && !place->thunks_apart
		       ? explain_elsewhere(session, err)
		       : 0;
}

static uint64_t search_ns(const struct limpet_session *session)
{
	struct limpet_proc_status status;

	if (limpet_proc_status_read(limpet_proc_resident(session->pid), &status) < 0)
		return 0;
	return (status.rss_bytes >> 20) * SEARCH_NS_PER_MIB;
}

/* munmap may fail, for one where the program has come to as many mappings as it may have, and so
 * may all where it has a filter. By inode: the program may be a limpet itself. What an earlier
 * limpet has left is looked for anyhow, round after round (cleanup). */
static int check_gone(const struct limpet_session *session, const struct limpet_maps *maps,
		      struct limpet_err *err)
{
	bool left;

	if (session->left_behind)
		return 0;
	left = limpet_leftovers_find(session->pid, NULL) > 0;
	for (size_t i = 0; i < maps->count && !left; i++)
		left = limpet_memfd_is_ours(maps->list[i].path) &&
		       limpet_own_objects_has_inode(maps->list[i].inode) &&
		       !limpet_thunks_were_left(session->pid, &maps->list[i]);
	return left ? limpet_err_set(err, -EBUSY,
				     "not all that limpet made could be removed from process %d",
				     session->pid)
		    : 0;
}

/* What is still mapped after the end, and why. */
static int check_end(struct limpet_session *session, int error, struct limpet_err *err)
{
	struct limpet_maps maps = {0};

	if (error && error != -ELIBACC)
		return error;
	/* Of what cannot be read any more nothing is said. */
	(void)limpet_proc_maps_read(session->pid, &maps);
	/* Nothing leads there any more, and to ask for it again is of no use. */
	session->stats.sealed = limpet_sealed_check(session->pid, &maps);
	if (session->stats.sealed)
		error = limpet_sealed_explain(session->pid, err);
	else if (!error)
		error = check_gone(session, &maps, err);
	limpet_proc_maps_done(&maps);
	return error;
}

/* What has come since they were read may be bound to the agent, and closed by the linker. */
static int modules_if_changed(struct limpet_session *session, struct limpet_err *err)
{
	uint64_t fingerprint;

	if (limpet_modules_fingerprint(session->pid, session->modules.r_debug, &fingerprint) < 0 ||
	    fingerprint == session->left_fingerprint)
		return 0;
	session->left_fingerprint = fingerprint;
	return modules_again(session, err);
}

/* Where the agent is, and its own part of leaving: slots put back. *ret_result: what it could not.
 */
static int begin_to_leave(struct limpet_session *session, uint64_t deadline_ns,
			  struct limpet_agent_place *ret_place, int *ret_result,
			  struct limpet_err *err)
{
	int error;

	if (limpet_modules_fingerprint(session->pid, session->modules.r_debug,
				       &session->left_fingerprint) < 0)
		session->left_fingerprint = 0;
	error = modules_again(session, err);
	if (error)
		return error;
	session->outside = session->info.map;
	error = find_place(session, ret_place);
	if (error)
		return limpet_err_set(err, -ESRCH, "the agent is not in process %d any more",
				      session->pid);
	error = call_agent(session, LIMPET_BOOT_CALL, session->info.leave, NULL, deadline_ns,
			   ret_result, err);
	if (!error && (ret_place->near_count || session->info.map || *ret_result))
		error = wait_for_sharers(session, deadline_ns, err);
	return error;
}

/* Slots and copies back, then the proof, then the end. Code is not put back while somebody runs
 * there who does not stand with the threads. Nor is the agent unmapped while one lives who may be
 * in it: who is born after the proof, of threads that are outside, is outside. */
static int leave(struct limpet_session *session, struct limpet_err *err)
{
	uint64_t deadline_ns = limpet_monotonic_ns() + session->timeout_ns;
	struct limpet_inline_hook_setup near;
	struct limpet_agent_place place;
	int result = 0, error = begin_to_leave(session, deadline_ns, &place, &result, err);

	if (error)
		return error;
	session->search_ns = search_ns(session);
	near_setup(session, deadline_ns, &near);
	/* The agent cannot open a page that the program has sealed; from outside it can be written.
	 */
	if (result)
		session->outside = true;
	if (session->outside) {
		near.also = put_slots_back;
		near.also_context = session;
	}
	/* A thread that was in a loader hook may have put in slots behind our back, and what came
	 * before the symbols were put back is bound to the agent. */
	do {
		near.deadline_ns = deadline_ns;
		error = limpet_inline_hook_switch_off(&near);
		if (error)
			return limpet_err_set(
				err, error == -ESRCH ? error : -EBUSY,
				"what leads from process %d's code to the agent could "
				"not be put back: %s",
				session->pid, strerror(-error));
		error = modules_if_changed(session, err);
		if (!error)
			error = prove_unused(session, &place, &deadline_ns, err);
		if (error)
			return error;
	} while (session->outside &&
		 limpet_remote_patch_leads_there(session->pid, &session->info) &&
		 limpet_monotonic_ns() < deadline_ns);
	error = wait_for_sharers(session, deadline_ns, err);
	if (error)
		return error;
	if (session->stats.copies.elsewhere) {
		error = limpet_thunks_leave(session->pid, place.thunks);
		if (error)
			return explain_elsewhere(session, err);
	}
	if (session->handle && limpet_plan_has_collector(&session->modules))
		return explain_collector(session, err);
	return call_agent(session, LIMPET_BOOT_UNLOAD, 0, &place, deadline_ns, &result, err);
}

void limpet_session_let_go(struct limpet_session *session)
{
	const uint32_t off = 0; /* the first word of the agent's control page */

	session->segment.shm->wait_for_room = 0;
	if (session->control_page)
		(void)!limpet_memory_write(session->pid, session->control_page, &off, sizeof(off));
	__atomic_fetch_or(&session->segment.shm->collector, LIMPET_COLLECTOR_DIED,
			  __ATOMIC_RELAXED);
	if (session->channel >= 0)
		close(session->channel);
	session->channel = -1;
}

/* The agent is gone, and what is left leads nowhere. */
static void clean_tables(struct limpet_session *session)
{
	struct limpet_hijack_setup setup;

	hijack_setup(session, limpet_monotonic_ns() + session->timeout_ns, &setup);
	if (limpet_tables_clean(&setup, (int)session->info.channel, &session->stats.table_left) ==
	    0)
		session->stats.table_left = 0;
}

/* A thread that went away under our hands, the main thread for one, is not the process: another is
 * hijacked for what is still to be done. */
static int leave_by_any(struct limpet_session *session, struct limpet_err *err)
{
	int error = leave(session, err);

	for (unsigned i = 0; i < LEAVE_TRIES && error == -ESRCH; i++) {
		if (check_identity(session) || !limpet_proc_has_memory(session->pid))
			return error;
		/* It was the last call, and was done. */
		error = limpet_session_agent_present(session) ? leave(session, err) : 0;
	}
	return error == -ESRCH ? -EBUSY : error;
}

static int leave_and_explain(struct limpet_session *session, struct limpet_err *err)
{
	const struct timespec pause = {0, 5000000};
	int error, identity;
	bool done;

	limpet_tracee_take_longest_stop_ns();
	error = leave_by_any(session, err);
	if (!error)
		clean_tables(session);
	done = !error;
	error = check_end(session, error, err);
	note_detach_stop(session);
	identity = error ? check_identity(session) : 0;
	/* All was done, and yet something is there: its end may have come in between. */
	for (unsigned i = 0; done && error && !session->stats.sealed && !identity && i < END_LOOKS;
	     i++) {
		nanosleep(&pause, NULL);
		identity = check_identity(session);
	}
	if (identity == -ESRCH || identity == -ESTALE) {
		explain_identity(session, identity, err);
		return -ESRCH;
	}
	if (error == -ESTALE && !limpet_session_agent_present(session))
		return limpet_err_set(err, -ESRCH, "the agent is not in process %d any more",
				      session->pid);
	if (error && error != -ESRCH)
		limpet_session_let_go(session);
	return error == -ESRCH || !error ? error : -EBUSY;
}

int limpet_session_leave(struct limpet_session *session, struct limpet_err *err)
{
	int lock_fd, error;

	release_spares(session);
	/* Also without it: who keeps it that long is stopped or no limpet, and we have to go. */
	lock_fd =
		limpet_target_lock_take(session->pid, limpet_monotonic_ns() + LEAVE_LOCK_NS, NULL);
	error = leave_and_explain(session, err);
	limpet_tracee_rest();
	if (lock_fd >= 0)
		close(lock_fd);
	return error;
}

/* Of whoever collects: whether it is not known to be dead, and reads what is there some times a
 * second. */
static bool collector_beats(const struct limpet_session *session)
{
	const struct timespec pause = {0, 10000000};
	uint64_t deadline_ns = limpet_monotonic_ns() + BEAT_NS, first = 0, beats;
	uint64_t shm = session->info.shm;
	uint32_t collector;

	for (bool looked = false;; looked = true) {
		if (!shm ||
		    limpet_memory_read(session->pid, shm + offsetof(struct limpet_shm, collector),
				       &collector, sizeof(collector)) < 0 ||
		    limpet_memory_read(session->pid, shm + offsetof(struct limpet_shm, beats),
				       &beats, sizeof(beats)) < 0 ||
		    !collector || collector & LIMPET_COLLECTOR_DIED)
			return false;
		if (looked && beats != first)
			return true;
		if (limpet_monotonic_ns() >= deadline_ns)
			return false;
		first = beats;
		nanosleep(&pause, NULL);
	}
}

/* A limpet that we cannot see (in another container, of another user) may be collecting from it.
 * Its end of the agent's channel is open then; or the program has closed the other one. */
static bool collector_lives(const struct limpet_session *session)
{
	LIMPET_CLOSE int fd =
		limpet_descriptor_get(session->pid, session->pidfd, (int)session->info.channel);
	struct pollfd channel = {.fd = fd, .events = 0};
	socklen_t bytes = sizeof(int);
	int type;

	if (fd < 0 && fd != -EBADF)
		return true; /* who cannot tell leaves it alone */
	if (fd < 0 || getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &bytes) < 0 ||
	    type != SOCK_SEQPACKET)
		return collector_beats(session); /* closed, or the program's own by now */
	return poll(&channel, 1, 0) == 0;
}

/* Only what we have mapped is unmapped, whatever stands there. */
static bool is_mapped_there(const struct limpet_agent_info *info, const struct limpet_module *agent)
{
	const uint64_t page = 4096;

	return !info->handle && info->map == agent->start &&
	       info->map_bytes == (agent->end - agent->start + page - 1) / page * page;
}

static int leave_behind(struct limpet_session *session, const struct limpet_module *agent,
			bool abandoned, struct limpet_err *err)
{
	struct limpet_module copy = *agent;
	uint64_t address;

	copy.symbols = NULL;
	copy.strings = NULL;
	copy.symbol_count = copy.string_bytes = 0;
	address = limpet_module_symbol(session->pid, &copy, "limpet_agent_info", NULL);
	free(copy.symbols);
	free(copy.strings);
	if (!address ||
	    limpet_memory_read(session->pid, address, &session->info, sizeof(session->info)) < 0 ||
	    session->info.magic != LIMPET_INFO_MAGIC)
		return limpet_err_set(err, -EPROTO,
				      "what looks like an agent in process %d is none",
				      session->pid);
	if (!abandoned && collector_lives(session)) {
		limpet_err_set(
			err, -EALREADY,
			"process %d is already captured, by a limpet that cannot be seen from here",
			session->pid);
		limpet_err_hint(err,
				"stop it where it was started: on the host, or in the container");
		return -EALREADY;
	}
	if (session->info.map && !is_mapped_there(&session->info, agent))
		return limpet_err_set(err, -EPROTO,
				      "what looks like an agent in process %d is none",
				      session->pid);
	session->info_address = address;
	session->handle = session->info.handle;
	session->anywhere = session->info.map;
	session->left_behind = true;
	if ((session->handle || session->info.map) && session->info.state != LIMPET_AGENT_RELEASED)
		return leave_and_explain(session, err);
	/* Forked while the agent was being loaded or unloaded: what there is of it in the loader's
	 * lists is not whole. No slot leads to it. */
	if (abandoned)
		return limpet_err_set(err, -EBUSY, "the agent in process %d is not whole",
				      session->pid);
	if (limpet_sealed_check(session->pid, &session->modules.maps))
		return limpet_sealed_explain(session->pid, err);
	/* Its stub is at work: it will start, find nobody there and switch itself off; or end. */
	return limpet_err_set(
		err, -EINPROGRESS,
		"the agent in process %d is in the middle of being loaded or unloaded",
		session->pid);
}

/* One thing that is left: 1 removed, 0 nothing is there, or -errno. */
static int cleanup_one(struct limpet_session *session, bool abandoned, uint64_t deadline_ns,
		       struct limpet_err *err)
{
	const struct limpet_session_options options = {.agent_memory_bytes = 64u << 20,
						       .assume_seccomp_ok = true};
	const struct limpet_module *agent = NULL;
	struct limpet_hijack_setup setup;
	int error;

	for (size_t i = 0; i < session->modules.count && !agent; i++)
		if (session->modules.list[i].agent)
			agent = &session->modules.list[i];
	if (!agent) {
		int found = limpet_leftovers_find(session->pid, &session->modules);

		/* What may not be looked at is not ours. */
		if (found <= 0)
			return 0;
	}
	error = session_arm(session, &options, err);
	if (error && error != -ENOENT)
		return error;
	if (abandoned)
		limpet_loader_lock_free_orphaned(session->pid, session->plan.loader_lock);
	hijack_setup(session, deadline_ns, &setup);
	error = agent ? leave_behind(session, agent, abandoned, err)
		      : limpet_leftovers_remove(&setup, &session->modules, err);
	return error ? error : 1;
}

static int cleanup(pid_t pid, uint64_t timeout_ns, bool abandoned, struct limpet_err *err)
{
	const struct timespec pause = {0, 10000000};
	uint64_t deadline_ns = limpet_monotonic_ns() + timeout_ns;
	int removed = 0;

	for (;;) {
		struct limpet_session *session = NULL;
		int answer = session_open(pid, timeout_ns, &session, err);

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
		/* What was there is gone in a few rounds; what is put there is not. */
		if (++removed >= CLEANUPS && limpet_monotonic_ns() >= deadline_ns)
			return limpet_err_set(err, -EBUSY,
					      "what looks like the remains of an earlier limpet "
					      "comes back in process %d",
					      pid);
	}
}

int limpet_session_cleanup(pid_t pid, uint64_t timeout_ns, bool abandoned, struct limpet_err *err)
{
	LIMPET_CLOSE int lock_fd =
		limpet_target_lock_take(pid, limpet_monotonic_ns() + timeout_ns, err);
	int result;

	if (lock_fd < 0)
		return lock_fd;
	/* A thread that a limpet let go of by dying may not have had a processor yet: what it does
	 * next is to be seen, too. With less than all of them there is still something to clean. */
	if (!abandoned)
		limpet_proc_settle(pid, limpet_monotonic_ns() + SETTLE_NS);
	result = cleanup(pid, timeout_ns, abandoned, err);
	limpet_tracee_rest();
	return result;
}
