#include "injector/remote/hijack.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/close_range.h>
#include <linux/futex.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "common/clock.h"
#include "injector/proc/commit.h"
#include "injector/proc/memfd.h"
#include "injector/proc/memory.h"
#include "injector/proc/message_queue.h"
#include "injector/proc/proc.h"
#include "injector/ptrace/boost.h"
#include "injector/ptrace/robust_word.h"
#include "injector/ptrace/step.h"
#include "injector/ptrace/stop_effect.h"
#include "injector/remote/agent_image.h"
#include "injector/remote/growing.h"
#include "injector/remote/loader_lock.h"
#include "injector/remote/own_objects.h"

#define STACK_BYTES (128u << 10)
#define PAGE 4096u
#define MAX_LAST 16u
/* The first pass ranks this many sleeping threads: ranking each of ten thousand took a fifth of the
 * attach. */
#define ENOUGH_ASLEEP 256
#define BOOT_BYTES ((sizeof(struct limpet_boot) + PAGE - 1) / PAGE * PAGE)
/* On an idle machine the stub usually takes less than this. */
#define STUB_USUAL_NS 1000000u
/* Where it has a processor, it mostly takes less than this: nothing is lent before. */
#define STUB_LEAST_NS 300000u
#define STUB_PATIENCE_NS 1000000000u
#define CALL_PATIENCE_NS 10000000000u /* the thread may wait long for a processor */
#define STOP_PATIENCE_NS 100000000u
/* For how long a late thread is awaited before threads are tried whose calls would notice a stop.
 */
#define POLITE_NS 1000000000u
#define MEMFD_CLOEXEC 1u
#define MEMFD_ALLOW_SEALING 2u
#define MEMFD_NOEXEC_SEAL 8u /* Linux 6.3; allows sealing */
#define NAME_BYTES 16u
#define HOOK_AREA_MOST (256u << 10)
/* The lowest word of the stub's stack, which is never that deep. */
static const uint64_t stub_magic = UINT64_C(0x5355425453504550); /* "PEPSTBUS" */

/* The files that a maker makes, by their numbers in its table, which was empty. */
enum made { MADE_IMAGE, MADE_SHARED, MADE_FILES };

struct limpet_hijack {
	struct limpet_hijack_setup setup;
	struct limpet_tracee *tracee;
	struct limpet_tracee *maker; /* NULL: there is none */
	pid_t ns_tid;                /* of the thread, in the target's pid namespace; 0: unknown */
	unsigned attempts;
	struct limpet_maps maps; /* from before the thread was stopped; none: unknown */
	struct limpet_hijack_area area;
	uint64_t inodes[MADE_FILES]; /* 0: not known yet */
	bool by_steps;               /* the maker stops before and after each of its calls */
	bool room_is_whole;
	bool in_room;             /* that of the room */
	uint64_t unmap_bytes;     /* of the area, at the end */
	uint64_t unload_bytes;    /* of a room, what goes with the agent */
	uint32_t operation;       /* LIMPET_BOOT_* */
	struct limpet_boot *boot; /* shared with the stub; NULL: not mapped */
	uint32_t *life;           /* the word of life by which the stub knows of us */
	struct {
		uint64_t start, bytes;
	} last[MAX_LAST];
	unsigned last_count;
	bool abandoned;
	/* From the last pass: a thread that was left alone, and its system call; 0: none. */
	pid_t cut_tid;
	long cut_call;
	pid_t last_tid; /* the last thread that was examined; 0: none yet */
	bool late;      /* a suitable thread did not stop in time */
};

/* ---------------------------------------------------------------- which thread */

/* Stopping a running thread costs more, but its program usually does not notice. A thread whose
 * call would be cut short is not stopped at all: a program that does not check for short results
 * would lose the data already moved. */
enum rank {
	RANK_SLEEPS = 0,
	RANK_RUNS,
	RANK_TIMED,
	RANK_DOUBTFUL,
	RANK_BREAKS,
	RANK_CUTS,
	RANK_CANNOT_STOP
};

static enum rank rank_of_effect(enum limpet_stop_effect effect)
{
	static const enum rank ranks[] = {
		[LIMPET_STOP_UNSEEN] = RANK_SLEEPS,     [LIMPET_STOP_TIMED] = RANK_TIMED,
		[LIMPET_STOP_DOUBTFUL] = RANK_DOUBTFUL, [LIMPET_STOP_BREAKS] = RANK_BREAKS,
		[LIMPET_STOP_CUTS] = RANK_CUTS,
	};

	return ranks[effect];
}

/* *ret_ns_tid, if not NULL: in its pid namespace; 0: unknown. */
static enum rank rank_of_thread(pid_t pid, pid_t tid, pid_t *ret_ns_tid)
{
	struct limpet_proc_syscall call;
	struct limpet_proc_status status;

	if (ret_ns_tid)
		*ret_ns_tid = 0;
	/* A thread in D state would not stop, and would stand still when it leaves the kernel. */
	if (limpet_proc_status_read(tid, &status) < 0 || status.state == 'D' ||
	    status.kernel_thread)
		return RANK_CANNOT_STOP;
	if (ret_ns_tid)
		*ret_ns_tid = status.ns_pid;
	/* Its call has already been interrupted by the stop. */
	if (status.state == 'T')
		return RANK_SLEEPS;
	if (limpet_proc_syscall_read(pid, tid, &call) < 0 || call.running)
		return RANK_RUNS;
	return rank_of_effect(limpet_stop_effect_on(pid, tid, status.seccomp, &call));
}

struct candidate {
	pid_t tid;
	enum rank rank;
	int place; /* order among threads of the same rank */
};

static int compare_candidates(const void *a, const void *b)
{
	const struct candidate *left = a, *right = b;

	if (left->rank != right->rank)
		return left->rank < right->rank ? -1 : 1;
	return (left->place > right->place) - (left->place < right->place);
}

/* The main thread always has an arena, which others may lack. Thread numbers wrap around
 * eventually, so it is not always the first. */
static void move_main_thread_first(pid_t pid, pid_t *tids, int count)
{
	for (int i = 1; i < count; i++)
		if (tids[i] == pid) {
			tids[i] = tids[0];
			tids[0] = pid;
		}
}

/* Lists all threads, or stops when `enough` of them sleep well: *ret_all tells which. */
static int list_candidates(const struct limpet_hijack_setup *setup, int enough,
			   struct candidate **ret, bool *ret_all)
{
	const pid_t pid = setup->target->pid;
	LIMPET_FREE pid_t *tids = NULL;
	int count = limpet_proc_tasks(pid, &tids), taken = 0, asleep = 0;
	struct candidate *list;

	if (count <= 0)
		return count ? count : -ESRCH;
	list = calloc((size_t)count, sizeof(*list));
	if (!list)
		return -ENOMEM;
	move_main_thread_first(pid, tids, count);
	*ret_all = true;
	for (int i = 0; i < count && *ret_all; i++) {
		if (setup->only && tids[i] != setup->only)
			continue;
		list[taken] = (struct candidate){tids[i], rank_of_thread(pid, tids[i], NULL), i};
		asleep += list[taken++].rank == RANK_SLEEPS;
		*ret_all = asleep < enough || i + 1 == count;
	}
	qsort(list, (size_t)taken, sizeof(*list), compare_candidates);
	*ret = list;
	return taken ? taken : -ESRCH;
}

/* The files are mapped, never executed: with MEMFD_NOEXEC_SEAL vm.memfd_noexec accepts them,
 * whatever its value. Before Linux 6.3 neither existed. Asked before a thread stands. */
static uint32_t memfd_flags(void)
{
	static uint32_t flags;

	if (!flags) {
		LIMPET_CLOSE int file =
			(int)syscall(SYS_memfd_create, "", MEMFD_CLOEXEC | MEMFD_NOEXEC_SEAL);

		flags = MEMFD_CLOEXEC |
			(file < 0 && errno == EINVAL ? MEMFD_ALLOW_SEALING : MEMFD_NOEXEC_SEAL);
	}
	return flags;
}

static struct limpet_hijack *hijack_new(const struct limpet_hijack_setup *setup)
{
	struct limpet_hijack *hijack = calloc(1, sizeof(*hijack));

	if (!hijack)
		return NULL;
	hijack->setup = *setup;
	limpet_agent_image_rehearse();
	memfd_flags();
	return hijack;
}

/* dlopen takes both locks. The agent's own walk takes the first, and does not wait for it long. */
static bool loader_is_locked(const struct limpet_hijack_setup *setup)
{
	return !setup->anywhere &&
	       limpet_loader_lock_is_held(setup->target->pid, setup->loader_lock,
					  !setup->may_be_in_malloc);
}

static enum limpet_safepoint_verdict check_thread(const struct limpet_hijack *hijack,
						  const struct limpet_tracee *tracee, bool choosy,
						  uint64_t *ret_stack_low, bool *ret_second_best)
{
	enum limpet_safepoint_verdict verdict;
	bool arena = true;

	*ret_second_best = false;
	if (!hijack->setup.anywhere) {
		verdict = limpet_safepoint_check(*hijack->setup.safepoint, tracee,
						 !hijack->setup.may_be_in_malloc || choosy,
						 ret_stack_low, &arena);
		*ret_second_best = hijack->setup.may_be_in_malloc
					   ? verdict == LIMPET_UNSAFE_ALLOCATOR
					   : verdict == LIMPET_SAFE && !arena;
		return verdict;
	}
	return limpet_safepoint_check_place(*hijack->setup.safepoint, tracee,
					    hijack->setup.gadgets->restorer, ret_stack_low);
}

/* Other results of try_thread(): the thread may be suitable a moment later, did not stop in time,
 * will do if there is no better one, or may not make the system calls. */
enum { NOT_NOW = 1, LATE, SECOND_BEST, FORBIDDEN };

static bool would_cut(struct limpet_hijack *hijack, pid_t tid, enum rank rank)
{
	if (rank != RANK_CUTS ||
	    !limpet_stop_cuts(hijack->setup.target->pid, tid, true, &hijack->cut_call))
		return false;
	hijack->cut_tid = tid;
	return true;
}

/* 0: hijacked. NOT_NOW, LATE, SECOND_BEST, FORBIDDEN: *ret_verdict says why. -errno: give up. */
static int try_thread(struct limpet_hijack *hijack, const struct candidate *candidate, bool choosy,
		      enum limpet_safepoint_verdict *ret_verdict)
{
	const pid_t tid = candidate->tid;
	/* Ranked again: since it was listed it may have entered a call that is better left alone.
	 * The next list considers it again. */
	const enum rank rank = rank_of_thread(hijack->setup.target->pid, tid, &hijack->ns_tid);
	struct limpet_tracee *tracee;
	uint64_t stack_low = 0;
	bool second_best;
	int error;

	if ((rank > candidate->rank && rank >= RANK_TIMED) || would_cut(hijack, tid, rank)) {
		limpet_step_note(tid, "passed over: a stop would be noticed by its system call");
		return NOT_NOW;
	}
	error = limpet_tracee_stop(hijack->setup.wait.tracer, hijack->setup.target->pid, tid,
				   limpet_monotonic_ns() + STOP_PATIENCE_NS, &tracee);
	if (error == -ESRCH || error == -ETIMEDOUT)
		return error == -ETIMEDOUT ? LATE : NOT_NOW;
	if (error)
		return error;
	hijack->attempts++;
	hijack->last_tid = tid;
	*ret_verdict = check_thread(hijack, tracee, choosy, &stack_low, &second_best);
	if (*ret_verdict != LIMPET_SAFE || (choosy && second_best) ||
	    loader_is_locked(&hijack->setup)) {
		limpet_tracee_release(tracee);
		limpet_step_note(tid, "passed over: %s",
				 *ret_verdict != LIMPET_SAFE ? limpet_safepoint_word(*ret_verdict)
				 : choosy && second_best     ? "another may do better"
							     : "the dynamic linker's lock is held");
		return choosy && second_best ? SECOND_BEST : NOT_NOW;
	}
	if (hijack->setup.may_call &&
	    !hijack->setup.may_call(hijack->setup.may_call_context, tid)) {
		limpet_tracee_release(tracee);
		*ret_verdict = LIMPET_UNSAFE_FILTER;
		return FORBIDDEN;
	}
	error = limpet_tracee_hijack(tracee, hijack->setup.gadgets, stack_low);
	if (error) {
		limpet_tracee_release(tracee);
		if (error == -EACCES)
			*ret_verdict = LIMPET_UNSAFE_KEYS;
		return error == -EACCES || error == -ESRCH || error == -ENOSPC || error == -EFAULT
			       ? NOT_NOW
			       : error;
	}
	hijack->tracee = tracee;
	limpet_step_note(tid, "hijacked");
	return 0;
}

/* For how long threads are spared whose calls would notice a stop. A thread that was in the
 * allocator, or a similar place, has soon left it or sleeps there; a thread that was asked to stop
 * does so when it gets a processor. */
struct patience {
	unsigned rounds; /* remaining ones */
	unsigned choosy; /* so many more times that all threads are tried, for the best of them */
	uint64_t late_until_ns;
};

/* Tries each candidate, the best first. Returns as try_thread(), NOT_NOW for none. */
static int try_threads(struct limpet_hijack *hijack, const struct candidate *list, int count,
		       bool are_all, struct patience *patience,
		       enum limpet_safepoint_verdict *ret_verdict)
{
	bool not_now = false, late = false, forbidden = false, second_best = false;

	hijack->cut_tid = 0;
	for (int i = 0; i < count && list[i].rank != RANK_CANNOT_STOP; i++) {
		int error;

		/* Some of the threads that are not in the list may sleep well. */
		if (!are_all && list[i].rank >= RANK_TIMED)
			return NOT_NOW;
		if (list[i].rank >= RANK_TIMED && list[i].rank < RANK_CUTS &&
		    ((not_now && patience->rounds) ||
		     (late && limpet_monotonic_ns() < patience->late_until_ns))) {
			patience->rounds -= patience->rounds > 0;
			return NOT_NOW;
		}
		error = try_thread(hijack, &list[i], patience->choosy, ret_verdict);
		if (error <= 0)
			return error;
		not_now |= error == NOT_NOW;
		late |= error == LATE;
		hijack->late |= late;
		forbidden |= error == FORBIDDEN;
		second_best |= error == SECOND_BEST;
	}
	if (!are_all)
		return NOT_NOW;
	/* A seccomp filter is never removed. */
	if (forbidden && !not_now && !late && !second_best) {
		*ret_verdict = LIMPET_UNSAFE_FILTER;
		return -EPERM;
	}
	patience->choosy -= patience->choosy > 0;
	return NOT_NOW;
}

/* A stopped process cannot release a lock: every thread must be at a safe point. */
static int check_stopped_target(const struct limpet_hijack_setup *setup, struct limpet_err *err)
{
	struct limpet_proc_status status;
	LIMPET_FREE pid_t *tids = NULL;
	int count, error;

	if (setup->anywhere)
		return 0;
	error = limpet_proc_status_read(limpet_proc_resident(setup->target->pid), &status);
	if (error || status.state != 'T')
		return error ? limpet_proc_explain(setup->target->pid, error, "look at", err) : 0;
	count = limpet_proc_tasks(setup->target->pid, &tids);
	if (count < 0)
		return limpet_proc_explain(setup->target->pid, count, "look at", err);
	for (int i = 0; i < count; i++) {
		struct limpet_tracee *tracee;
		enum limpet_safepoint_verdict verdict;
		uint64_t low;
		bool arena;

		error = limpet_proc_status_read(tids[i], &status);
		if (error && !limpet_proc_is_gone(error))
			return limpet_proc_explain(setup->target->pid, error, "look at", err);
		if (error || status.kernel_thread ||
		    limpet_tracee_stop(setup->wait.tracer, setup->target->pid, tids[i],
				       limpet_monotonic_ns() + STOP_PATIENCE_NS, &tracee) < 0)
			continue;
		verdict = limpet_safepoint_check(*setup->safepoint, tracee,
						 !setup->may_be_in_malloc, &low, &arena);
		limpet_tracee_release(tracee);
		if (verdict == LIMPET_SAFE)
			continue;
		limpet_err_set(err, -EBUSY, "process %d is stopped, and its thread %d stands %s",
			       setup->target->pid, tids[i], limpet_safepoint_word(verdict));
		limpet_err_hint(err, "continue it and try again: kill -CONT %d",
				setup->target->pid);
		return -EBUSY;
	}
	return 0;
}

/* A function of the program's that the dynamic linker called, malloc for one, or the linker itself:
 * the thread is where it was, but what they had begun is not undone. */
static int explain_fault(const struct limpet_hijack *hijack, struct limpet_err *err)
{
	const pid_t pid = hijack->setup.target->pid;

	if (limpet_loader_lock_owner(pid, hijack->setup.loader_lock) !=
	    limpet_hijack_ns_tid(hijack)) {
		limpet_err_set(err, -EPROTO,
			       "what limpet called in process %d faulted: a lock that was taken "
			       "there, malloc's for one, may never be released",
			       pid);
		limpet_err_hint(err,
				"restart the program if it hangs; LIMPET_LOAD=map limpet attach %d "
				"calls none of its functions",
				pid);
		return -EPROTO;
	}
	limpet_err_set(err, -EPROTO,
		       "the dynamic linker, which limpet called in process %d, faulted: its thread "
		       "%d holds the dynamic linker's lock, and will never release it",
		       pid, limpet_hijack_ns_tid(hijack));
	limpet_err_hint(err,
			"restart the program: it will wait for that lock in its next dlopen or "
			"dlclose, and perhaps when it ends. Then LIMPET_LOAD=map limpet attach, "
			"which calls none of its functions");
	return -EPROTO;
}

/* Whether the thread has it for long, or for ever since it faulted there, is for the user to see.
 */
static void explain_locked(const struct limpet_hijack *hijack, struct limpet_err *err)
{
	const pid_t pid = hijack->setup.target->pid;

	limpet_err_set(
		err, -EBUSY,
		"the dynamic linker's lock of process %d was held by its thread %d (a dlopen "
		"or a constructor takes long): nothing was changed",
		pid, limpet_loader_lock_owner(pid, hijack->setup.loader_lock));
	limpet_err_hint(err,
			"try again, or wait longer: --attach-timeout 60s. If that thread is in no "
			"such call (`limpet stacks %d`), only a restart releases the lock",
			pid);
}

static int explain_cut(const struct limpet_hijack *hijack, struct limpet_err *err)
{
	const char *name = limpet_stop_call_name(hijack->cut_call);
	char what[64];

	if (name)
		snprintf(what, sizeof(what), "in %s(2), which a stop would cut short", name);
	else
		snprintf(what, sizeof(what),
			 "for a seccomp supervisor, which a stop would ask twice");
	limpet_err_set(err, -EBUSY,
		       "no thread of process %d could be stopped without harm in time: its thread "
		       "%d waits %s; nothing was changed",
		       hijack->setup.target->pid, hijack->cut_tid, what);
	limpet_err_hint(err,
			"try again when the other end %s, or wait longer: --attach-timeout "
			"60s",
			name ? "of its transfer continues" : "has answered");
	return -EBUSY;
}

/* Reports the last obstacle. */
static int explain_none(const struct limpet_hijack *hijack, bool locked,
			enum limpet_safepoint_verdict verdict, struct limpet_err *err)
{
	pid_t pid = hijack->setup.target->pid;

	if (locked) {
		explain_locked(hijack, err);
		return -EBUSY;
	}
	if (hijack->cut_tid)
		return explain_cut(hijack, err);
	if (!hijack->attempts)
		limpet_err_set(err, -EBUSY,
			       "no thread of process %d could be stopped in time: each was in an "
			       "uninterruptible sleep (state D)%s",
			       pid, hijack->late ? ", or got no processor" : "");
	else
		limpet_err_set(
			err, -EBUSY,
			"no thread of process %d came to a safe point in time (%u tries; the "
			"last one, thread %d, stood %s)",
			pid, hijack->attempts, hijack->last_tid, limpet_safepoint_word(verdict));
	if (hijack->attempts && limpet_safepoint_is_lasting(verdict))
		limpet_err_hint(err,
				"waiting longer (--attach-timeout) helps only if thread %d leaves "
				"this code; it shows where that is: limpet stacks %d --thread %d",
				hijack->last_tid, pid, hijack->last_tid);
	else
		limpet_err_hint(err, "try again, or wait longer: --attach-timeout 60s");
	return -EBUSY;
}

/* The maker would take its request back. */
static int check_queues(pid_t pid, struct limpet_err *err)
{
	const int queue = limpet_proc_notifying_queue(pid);

	if (queue < 0)
		return 0;
	limpet_err_set(err, -EBUSY,
		       "process %d has asked to be told of the next message in a queue, its "
		       "descriptor %d (mq_notify(3)): the kernel would take that back when limpet "
		       "makes a thread, for a moment",
		       pid, queue);
	limpet_err_hint(err, "try again when it has had its message");
	return -EBUSY;
}

static void explain_traced(pid_t pid, pid_t tracer, const char *name, struct limpet_err *err)
{
	limpet_err_set(err, -EPERM, "cannot stop a thread of process %d: it is traced by '%s' (%d)",
		       pid, name, tracer);
	limpet_err_hint(err, "detach it there first (gdb: detach, strace: Ctrl-C); see: ps %d",
			tracer);
}

static void explain(const struct limpet_hijack *hijack, int error, bool locked,
		    enum limpet_safepoint_verdict verdict, struct limpet_err *err)
{
	const pid_t pid = hijack->setup.target->pid;
	char name[LIMPET_PROC_NAME_BYTES];
	pid_t tracer;

	/* By itself, and for all of the time: else it would have been waited for. */
	if (error == -EBUSY && hijack->late && (tracer = limpet_proc_tracer(pid, INT_MAX, name)))
		explain_traced(pid, tracer, name, err);
	else if (error == -EBUSY)
		explain_none(hijack, locked, verdict, err);
	else if (error == -EPERM && verdict == LIMPET_UNSAFE_FILTER)
		limpet_err_set(
			err, error,
			"process %d has installed a seccomp filter that forbids limpet's system "
			"calls: none was made",
			pid);
	else if (error == -EPERM && (tracer = limpet_proc_tracer(pid, INT_MAX, name)))
		explain_traced(pid, tracer, name, err);
	else
		limpet_err_set(err, error, "cannot stop a thread of process %d: %s", pid,
			       strerror(-error));
}

/* Never the whole remaining time: at the end every thread has been tried. */
static struct patience begin_patience(const struct limpet_hijack_setup *setup)
{
	const unsigned rounds = 6;
	uint64_t now_ns = limpet_monotonic_ns(), deadline_ns = setup->wait.deadline_ns;
	uint64_t half_ns = deadline_ns > now_ns ? (deadline_ns - now_ns) / 2 : 0;

	return (struct patience){.rounds = rounds,
				 .choosy = setup->may_be_in_malloc ? rounds : 1,
				 .late_until_ns =
					 now_ns + (half_ns < POLITE_NS ? half_ns : POLITE_NS)};
}

/* Whether the program has mapped nothing of its own in the room, and protected nothing. */
static bool room_is_whole(const struct limpet_hijack *hijack)
{
	const struct limpet_hijack_area *area = &hijack->setup.room->area;
	const struct limpet_map *map =
		limpet_proc_maps_find(&hijack->maps, area->start + area->stack);

	return area->start && map && map->start == area->start + area->stack &&
	       map->end == area->start + area->thunks && map->perms[1] == 'w' &&
	       map->perms[3] == 's' && limpet_own_objects_has_inode(map->inode);
}

static void hijack_free(struct limpet_hijack *hijack)
{
	if (!hijack)
		return;
	limpet_proc_maps_done(&hijack->maps);
	free(hijack);
}

int limpet_hijack_find(const struct limpet_hijack_setup *setup, struct limpet_hijack **ret,
		       struct limpet_err *err)
{
	const uint64_t first_pause_ns = 800000, longest_pause_ns = 50000000;
	struct patience patience = begin_patience(setup);
	enum limpet_safepoint_verdict verdict = LIMPET_UNSAFE_UNKNOWN;
	struct limpet_hijack *hijack;
	uint64_t pause_ns = 0;
	bool locked = false, are_all;
	int error = check_stopped_target(setup, err);

	if (!error && !setup->maps_nothing && !setup->room->area.start)
		error = check_queues(setup->target->pid, err);
	if (error)
		return error;
	hijack = hijack_new(setup);
	if (!hijack)
		return limpet_err_set(err, -ENOMEM, "out of memory");
	if (!setup->maps_nothing && limpet_proc_maps_read(setup->target->pid, &hijack->maps) == 0)
		hijack->room_is_whole = room_is_whole(hijack);
	for (unsigned pass = 0;; pass++) {
		LIMPET_FREE struct candidate *list = NULL;
		int count;

		locked = loader_is_locked(setup);
		count = locked ? 0
			       : list_candidates(setup, pass ? INT_MAX : ENOUGH_ASLEEP, &list,
						 &are_all);
		error = count < 0 ? count : NOT_NOW;
		/* A thread without an arena would map one for good, and others may wait for one
		 * that is in malloc: used only if no other is found. */
		if (count > 0)
			error = try_threads(hijack, list, count, are_all, &patience, &verdict);
		if (error <= 0)
			break;
		if (pass == 2)
			pause_ns = first_pause_ns;
		error = limpet_wait_pause(&setup->wait, &pause_ns, longest_pause_ns);
		if (error)
			break;
	}
	if (!error) {
		*ret = hijack;
		return 0;
	}
	explain(hijack, error, locked, verdict, err);
	hijack_free(hijack);
	return error;
}

int limpet_hijack_given(const struct limpet_hijack_setup *setup, struct limpet_tracee *tracee,
			struct limpet_hijack **ret, struct limpet_err *err)
{
	struct limpet_hijack *hijack = hijack_new(setup);
	uint64_t sp = limpet_tracee_regs(tracee)->rsp;
	struct limpet_proc_status status;
	int error =
		hijack ? limpet_tracee_hijack(tracee, setup->gadgets, sp - (64u << 10)) : -ENOMEM;

	if (error) {
		kill(setup->target->pid, SIGKILL);
		limpet_tracee_release(tracee);
		hijack_free(hijack);
		return limpet_err_set(err, error, "cannot hijack the thread: %s", strerror(-error));
	}
	hijack->tracee = tracee;
	if (limpet_proc_status_read(limpet_tracee_tid(tracee), &status) == 0)
		hijack->ns_tid = status.ns_pid;
	*ret = hijack;
	return 0;
}

pid_t limpet_hijack_ns_tid(const struct limpet_hijack *hijack)
{
	return hijack->ns_tid;
}

const struct limpet_tracee *limpet_hijack_tracee(const struct limpet_hijack *hijack)
{
	return hijack->tracee;
}

unsigned limpet_hijack_attempts(const struct limpet_hijack *hijack)
{
	return hijack->attempts;
}

/* ---------------------------------------------------------------- what the stub needs */

/* Makes a system call on a thread of ours: returns its result, or a local failure as -errno. Both
 * end the attempt. */
static int64_t call_on(struct limpet_tracee *tracee, long number, const uint64_t args[6])
{
	int64_t answer;
	int error = limpet_tracee_syscall(tracee, number, args,
					  limpet_monotonic_ns() + CALL_PATIENCE_NS, &answer);

	return error ? error : answer;
}

int64_t limpet_hijack_syscall(struct limpet_hijack *hijack, long number, uint64_t a, uint64_t b)
{
	return call_on(hijack->tracee, number, (const uint64_t[6]){a, b});
}

static int failed(struct limpet_err *err, const struct limpet_hijack *hijack, const char *what,
		  int64_t answer)
{
	return limpet_err_set(err, (int)answer, "process %d: %s failed: %s",
			      hijack->setup.target->pid, what, strerror((int)-answer));
}

static int explain_no_thread(const struct limpet_hijack *hijack, int64_t answer,
			     struct limpet_err *err)
{
	failed(err, hijack, "making a thread, for a moment (clone),", answer);
	if (answer == -EAGAIN)
		limpet_err_hint(err, "its user or its cgroup has as many threads as it may have "
				     "(RLIMIT_NPROC, pids.max), or the thread is a SCHED_DEADLINE "
				     "one");
	else if (answer == -EINVAL)
		limpet_err_hint(err, "a thread that has unshared its pid or time namespace can "
				     "make processes, but no threads any more");
	return (int)answer;
}

/* Everything that needs a descriptor is done by a thread with a table of its own: in the program's
 * a number of ours would be missing, or in the way. The new table is empty: the kernel copies none
 * of what is to be closed, but for the first 64 descriptors, which it closes again in the same
 * call. */
static int begin_maker(struct limpet_hijack *hijack, struct limpet_err *err)
{
	const uint64_t all[6] = {0, ~0u, CLOSE_RANGE_UNSHARE};
	struct limpet_step step;
	int64_t answer = 0;
	int error = limpet_tracee_begin_maker(
		hijack->tracee, limpet_monotonic_ns() + CALL_PATIENCE_NS, &hijack->maker, &answer);

	if (error)
		return failed(err, hijack, "making a thread, for a moment,", error);
	if (answer < 0)
		return explain_no_thread(hijack, answer, err);
	step = limpet_step_begin(LIMPET_STEP_OWN_TABLE, limpet_tracee_tid(hijack->maker), 0);
	answer = call_on(hijack->maker, SYS_close_range, all);
	limpet_step_end(&step, answer < 0 ? (int)answer : 0);
	return answer < 0 ? failed(err, hijack, "close_range", answer) : 0;
}

static int end_maker(struct limpet_hijack *hijack)
{
	struct limpet_tracee *maker = hijack->maker;

	hijack->maker = NULL;
	return maker ? limpet_tracee_end_maker(maker, limpet_monotonic_ns() + CALL_PATIENCE_NS) : 0;
}

static const char names[MADE_FILES][NAME_BYTES] = {LIMPET_MEMFD_AGENT, LIMPET_MEMFD_SHARED};

/* Checks a file of the target's: any of its threads may have put another one there, and we would
 * overwrite that with our privileges. */
static bool is_new_file(int fd, const char *name, uint64_t *ret_inode)
{
	char path[64], found[64];
	struct stat file;
	ssize_t bytes;

	if (fcntl(fd, F_GET_SEALS) < 0 || fstat(fd, &file) < 0 || !S_ISREG(file.st_mode) ||
	    file.st_size || file.st_nlink)
		return false;
	*ret_inode = file.st_ino;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	bytes = readlink(path, found, sizeof(found));
	snprintf(path, sizeof(path), "/memfd:%s (deleted)", name);
	return bytes == (ssize_t)strlen(path) && !memcmp(found, path, (size_t)bytes);
}

/* Opens what the maker has made, before it has a size. */
static int open_made(struct limpet_hijack *hijack, enum made made, struct limpet_err *err)
{
	const pid_t pid = hijack->setup.target->pid, tid = limpet_tracee_tid(hijack->maker);
	const struct limpet_step step = limpet_step_begin(LIMPET_STEP_OPEN_FILE, tid, 0);
	LIMPET_CLOSE int file = -1;
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "%s/%d/task/%d/fd/%d", limpet_proc_root, pid, tid, (int)made);
	file = open(path, O_RDWR | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	limpet_step_end(&step, file < 0 ? -errno : 0);
	if (file < 0)
		return failed(err, hijack, "opening what memfd_create made", -errno);
	if (!is_new_file(file, names[made], &hijack->inodes[made]))
		return failed(err, hijack, "memfd_create", -EBADF);
	limpet_own_objects_note(hijack->inodes[made]);
	return limpet_take_fd(&file);
}

static bool write_at(int file, const void *bytes, uint64_t count, uint64_t offset)
{
	return pwrite(file, bytes, count, (off_t)offset) == (ssize_t)count;
}

/* In the image's file, after the agent, or the stub's code. */
static uint64_t empty_offset(const struct limpet_agent_image *image)
{
	return image->layout.bytes + image->text_bytes;
}

/* Where a page is touched before anybody could stop that, no touch may fail. */
static int commit_file(const struct limpet_hijack *hijack, int file, uint64_t bytes,
		       struct limpet_err *err)
{
	int error = limpet_commit_file(file, bytes);

	if (error == -ENOSPC)
		return limpet_commit_explain(hijack->setup.target->pid, err);
	return error ? failed(err, hijack, "committing memory", error) : 0;
}

static int write_image(const struct limpet_hijack *hijack, const struct limpet_agent_image *image,
		       enum limpet_hijack_for purpose, int file, struct limpet_err *err)
{
	struct limpet_step step;
	bool written;
	int error;

	if (empty_offset(image) + HOOK_AREA_MOST > LIMPET_THUNKS_OFFSET)
		return failed(err, hijack, "writing the agent", -EFBIG);
	limpet_agent_image_relocate(image, hijack->area.start);
	step = limpet_step_begin(LIMPET_STEP_WRITE_IMAGE, 0, 0);
	errno = 0;
	written = (purpose == LIMPET_HIJACK_MAP
			   ? write_at(file, image->memory, image->memory_bytes, 0)
			   : write_at(file, image->bytes + image->text_offset, image->text_bytes,
				      image->layout.bytes)) &&
		  write_at(file, image->bytes + image->thunks_offset, LIMPET_THUNKS_BYTES,
			   LIMPET_THUNKS_OFFSET) &&
		  ftruncate(file, LIMPET_THUNKS_OFFSET + 2 * LIMPET_THUNKS_BYTES) == 0;
	error = limpet_step_end(&step, written ? 0 : errno ? -errno : -ENOSPC);
	if (error)
		return failed(err, hijack, "writing the agent", error);
	return commit_file(hijack, file, LIMPET_THUNKS_OFFSET + 2 * LIMPET_THUNKS_BYTES, err);
}

static uint64_t reserve(uint64_t *at, uint64_t bytes)
{
	const uint64_t offset = *at;

	*at = (offset + bytes + PAGE - 1) / PAGE * PAGE;
	return offset;
}

static void lay_out(const struct limpet_agent_image *image, enum limpet_hijack_for purpose,
		    const struct limpet_segment *segment, struct limpet_hijack_area *ret)
{
	const bool attaches = purpose != LIMPET_HIJACK_CALL;
	uint64_t at = 0;

	reserve(&at, purpose == LIMPET_HIJACK_MAP ? image->layout.bytes : 0);
	ret->code = reserve(&at, purpose == LIMPET_HIJACK_MAP ? 0 : image->text_bytes);
	ret->stack = reserve(&at, STACK_BYTES);
	ret->boot = reserve(&at, BOOT_BYTES);
	ret->image = reserve(&at, purpose == LIMPET_HIJACK_DLOPEN ? image->size : 0);
	ret->thunks = reserve(&at, attaches ? 2 * LIMPET_THUNKS_BYTES : 0);
	ret->shm = reserve(&at, attaches ? segment->shm_bytes : 0);
	reserve(&at, attaches ? segment->tables.arena_bytes : 0);
	ret->bytes = at;
}

bool limpet_hijack_is_stub(pid_t pid, const struct limpet_map *map)
{
	uint64_t word;
	int error;

	if (!limpet_memfd_is_shared(map->path) || map->perms[3] != 's')
		return false;
	error = limpet_memory_read_own(pid, map->start, &word, sizeof(word));
	/* An earlier limpet took its addresses by a mapping of the file's beginning. */
	return !map->offset || error == -EFAULT || (!error && word == stub_magic);
}

/* With the agent's file. */
static uint64_t boot_bytes(const struct limpet_hijack_area *area)
{
	return area->thunks - area->boot;
}

static bool attaches(const struct limpet_hijack_area *area)
{
	return area->shm < area->bytes;
}

/* Nobody can make the file smaller: else a look at it would end limpet. */
static int fill_shared(struct limpet_hijack *hijack, const struct limpet_agent_image *image,
		       struct limpet_segment *segment, int file, struct limpet_err *err)
{
	const struct limpet_hijack_area *area = &hijack->area;
	void *boot;
	int error;

	if (ftruncate(file, (off_t)area->bytes) < 0 ||
	    fcntl(file, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0)
		return failed(err, hijack, "making shared memory", -errno);
	error = commit_file(hijack, file,
			    segment ? area->shm + limpet_segment_head_bytes(segment) : area->bytes,
			    err);
	if (error)
		return error;
	boot = mmap(NULL, boot_bytes(area), PROT_READ | PROT_WRITE, MAP_SHARED, file,
		    (off_t)area->boot);
	if (boot == MAP_FAILED)
		return failed(err, hijack, "mapping shared memory", -errno);
	hijack->boot = boot;
	errno = 0;
	if (!write_at(file, &stub_magic, sizeof(stub_magic), area->stack) ||
	    (area->thunks > area->image && !write_at(file, image->bytes, image->size, area->image)))
		return failed(err, hijack, "writing the agent", errno ? -errno : -ENOSPC);
	error = segment ? limpet_segment_share(segment, file, area->shm) : 0;
	return error ? failed(err, hijack, "sharing memory", error) : 0;
}

/* What is mapped, side by side. Nothing of it replaces another mapping: of one that another thread
 * has made there meanwhile, the kernel says so. */
struct mapping {
	uint64_t start, bytes;
	uint32_t protection, flags;
	enum made file;
	uint64_t offset;
};
#define MAX_MAPPINGS 4u

static unsigned list_mappings(const struct limpet_hijack_area *area,
			      const struct limpet_agent_image *image,
			      struct mapping ret[MAX_MAPPINGS])
{
	const uint32_t code = LIMPET_PROT_CODE | image->readable;
	const uint64_t start = area->start;
	unsigned count = 0;

	ret[count++] =
		(struct mapping){start,       area->stack, code,
				 MAP_PRIVATE, MADE_IMAGE,  area->code ? 0 : image->layout.bytes};
	ret[count++] = (struct mapping){start + area->stack,
					area->thunks - area->stack,
					LIMPET_PROT_DATA | image->readable,
					MAP_SHARED,
					MADE_SHARED,
					area->stack};
	if (!attaches(area))
		return count;
	ret[count++] =
		(struct mapping){start + area->thunks, area->shm - area->thunks, code, MAP_PRIVATE,
				 MADE_IMAGE,           LIMPET_THUNKS_OFFSET};
	/* Without access the kernel neither populates nor locks it. */
	ret[count++] = (struct mapping){start + area->shm, area->bytes - area->shm,
					PROT_NONE,         MAP_SHARED,
					MADE_SHARED,       area->shm};
	return count;
}

static bool is_error(int64_t answer)
{
	return answer < 0 && answer > -4096;
}

static struct limpet_tracee_call mmap_call(const struct mapping *mapping)
{
	return (struct limpet_tracee_call){SYS_mmap,
					   {mapping->start, mapping->bytes, mapping->protection,
					    mapping->flags | MAP_FIXED_NOREPLACE, mapping->file,
					    mapping->offset}};
}

/* All that a maker does, in its order. */
static unsigned list_calls(const struct limpet_hijack *hijack, const struct mapping *mappings,
			   unsigned count, struct limpet_tracee_call ret[MADE_FILES + MAX_MAPPINGS])
{
	const uint64_t text = limpet_tracee_spare(hijack->maker);

	for (unsigned i = 0; i < MADE_FILES; i++)
		ret[i] = (struct limpet_tracee_call){SYS_memfd_create,
						     {text + i * NAME_BYTES, memfd_flags()}};
	for (unsigned i = 0; i < count; i++)
		ret[MADE_FILES + i] = mmap_call(&mappings[i]);
	return MADE_FILES + count;
}

/* With a stop before and after each, which tells its answer. */
static int call_by_steps(const struct limpet_hijack *hijack, const struct limpet_tracee_call *calls,
			 unsigned count, struct limpet_err *err)
{
	for (unsigned i = 0; i < count; i++) {
		const int64_t answer = call_on(hijack->maker, calls[i].number, calls[i].args);
		const bool maps = calls[i].number == SYS_mmap;

		if (is_error(answer)) {
			failed(err, hijack, maps ? "mmap" : "memfd_create", answer);
			if (maps && (answer == -EACCES || answer == -EPERM))
				limpet_err_hint(err, "the program may not map new code "
						     "(MemoryDenyWriteExecute, SELinux execmem)");
			return (int)answer;
		}
		if (maps ? (uint64_t)answer != calls[i].args[0] : answer != i)
			return failed(err, hijack, maps ? "mmap" : "memfd_create", -EBADF);
	}
	return 0;
}

/* Which of them the maker has made: those alone are left in the list. Returns how many. */
static unsigned keep_made(const struct limpet_hijack *hijack, struct mapping *mappings,
			  unsigned count)
{
	struct limpet_map maps[MAX_MAPPINGS];
	uint64_t addresses[MAX_MAPPINGS];
	unsigned kept = 0;

	for (unsigned i = 0; i < count; i++)
		addresses[i] = mappings[i].start;
	if (limpet_proc_maps_at(limpet_tracee_tid(hijack->tracee), addresses, count, maps) < 0)
		return 0;
	for (unsigned i = 0; i < count; i++) {
		const uint64_t inode = hijack->inodes[mappings[i].file];

		if (maps[i].start == mappings[i].start &&
		    maps[i].end == mappings[i].start + mappings[i].bytes &&
		    maps[i].offset == mappings[i].offset &&
		    (inode ? maps[i].inode == inode : maps[i].inode != 0))
			mappings[kept++] = mappings[i];
	}
	return kept;
}

/* Far enough below other mappings that none of them, should it grow downwards, comes there
 * (growing.h); as far above others. */
#define DISTANCE ((UINT64_C(1) << 30) + (UINT64_C(2) << 20))

/* Addresses begin at a multiple: in one such part the kernel maps all pages of the stub's code at
 * its first fault (fault_around_bytes). */
#define ALIGNMENT (UINT64_C(64) << 10)

/* Chooses an address below the main stack, as high as it goes; else right below a mapping of a
 * file, which does not grow. */
static int choose_place(const struct limpet_maps *maps, uint64_t bytes, uint64_t *ret)
{
	bool below_stack = false;
	int error = -ENOMEM;

	for (size_t i = maps->count; i-- > 0;) {
		const struct limpet_map *map = &maps->list[i];
		const uint64_t hole = map->start - (i ? maps->list[i - 1].end : 0);

		if (below_stack && hole >= bytes + 2 * DISTANCE) {
			*ret = (map->start - DISTANCE - bytes) & ~(ALIGNMENT - 1);
			return 0;
		}
		if (error && map->inode && hole >= bytes + ALIGNMENT) {
			*ret = (map->start - bytes) & ~(ALIGNMENT - 1);
			error = 0;
		}
		below_stack = below_stack || !strcmp(map->path, "[stack]");
	}
	return error;
}

/* -EEXIST: not all of it could be made. */
static int have_made(struct limpet_hijack *hijack, const struct mapping *mappings, unsigned count,
		     struct limpet_err *err)
{
	struct limpet_tracee_call calls[MADE_FILES + MAX_MAPPINGS];
	int error = limpet_memory_write(hijack->setup.target->pid,
					limpet_tracee_spare(hijack->maker), names, sizeof(names));

	if (error)
		return failed(err, hijack, "writing to its stack", error);
	count = list_calls(hijack, mappings, count, calls);
	if (hijack->by_steps)
		return call_by_steps(hijack, calls, count, err);
	error = limpet_tracee_maker_calls(hijack->maker, calls, count,
					  limpet_monotonic_ns() + CALL_PATIENCE_NS);
	return error ? failed(err, hijack, "mapping memory", error) : 0;
}

/* Before the files have a size it is known whether all of it is there. */
static int fill_made(struct limpet_hijack *hijack, const struct limpet_agent_image *image,
		     enum limpet_hijack_for purpose, struct limpet_segment *segment,
		     struct limpet_err *err)
{
	LIMPET_CLOSE int agent = open_made(hijack, MADE_IMAGE, err);
	LIMPET_CLOSE int shared = agent < 0 ? agent : open_made(hijack, MADE_SHARED, err);
	struct mapping mappings[MAX_MAPPINGS];
	unsigned count;
	int error;

	if (shared < 0)
		return shared == -ENOENT ? -EEXIST : shared;
	count = list_mappings(&hijack->area, image, mappings);
	if (keep_made(hijack, mappings, count) < count)
		return failed(err, hijack, "mapping memory", -EEXIST);
	error = write_image(hijack, image, purpose, agent, err);
	return error ?: fill_shared(hijack, image, segment, shared, err);
}

/* What a process maps that locks all of it (mlockall(2)) counts for its limit, and what has no room
 * there fails: ours, or its own. The kernel looks at that before it finds that no kind of mapping
 * is asked for: whatever it answers, nothing is mapped. */
static int check_lock_room(const struct limpet_hijack *hijack, struct limpet_err *err)
{
	const struct limpet_hijack_area *area = &hijack->area;
	const uint64_t shared = area->bytes - area->shm, own = LIMPET_AGENT_PRIVATE_BYTES;
	const uint64_t bytes = area->shm + (shared > own ? shared : own);
	const uint64_t args[6] = {0, bytes, PROT_NONE, MAP_ANONYMOUS, ~0ull, 0};
	const pid_t pid = hijack->setup.target->pid;

	if (!attaches(area) || hijack->setup.lock_room >= bytes ||
	    call_on(hijack->maker, SYS_mmap, args) != -EAGAIN)
		return 0;
	limpet_err_set(
		err, -ENOMEM,
		"process %d locks what it maps (mlockall(2)), and its limit of locked memory "
		"leaves too little for limpet's: nothing was changed",
		pid);
	limpet_err_hint(err, "sudo prlimit --pid %d --memlock=unlimited", pid);
	return -ENOMEM;
}

static int make_all(struct limpet_hijack *hijack, const struct limpet_agent_image *image,
		    enum limpet_hijack_for purpose, struct limpet_segment *segment,
		    struct limpet_err *err)
{
	struct mapping mappings[MAX_MAPPINGS];
	unsigned count = list_mappings(&hijack->area, image, mappings);
	int error = begin_maker(hijack, err), ended;

	memset(hijack->inodes, 0, sizeof(hijack->inodes));
	if (!error)
		error = check_lock_room(hijack, err);
	if (!error)
		error = have_made(hijack, mappings, count, err);
	if (!error)
		error = fill_made(hijack, image, purpose, segment, err);
	if (!error) {
		hijack->unmap_bytes = hijack->area.bytes;
		return 0;
	}
	ended = end_maker(hijack);
	if (ended)
		return failed(err, hijack, "ending a thread of ours", ended);
	count = keep_made(hijack, mappings, count);
	for (unsigned i = 0; i < count; i++)
		limpet_hijack_syscall(hijack, SYS_munmap, mappings[i].start, mappings[i].bytes);
	return error;
}

/* All at once first. If something fails, by steps, which tell why; and another thread may map
 * something there meanwhile. */
static int map_somewhere(struct limpet_hijack *hijack, const struct limpet_agent_image *image,
			 enum limpet_hijack_for purpose, struct limpet_segment *segment,
			 struct limpet_err *err)
{
	const unsigned tries = 4;
	int error = -EEXIST;

	hijack->by_steps = hijack->setup.maps_areas;
	for (unsigned i = 0; i < tries && error == -EEXIST; i++) {
		if (i || !hijack->maps.count) {
			limpet_proc_maps_done(&hijack->maps);
			error = limpet_proc_maps_read(hijack->setup.target->pid, &hijack->maps);
			if (error)
				return failed(err, hijack, "reading its mappings", error);
		}
		error = choose_place(&hijack->maps, hijack->area.bytes, &hijack->area.start);
		if (error)
			return failed(err, hijack, "finding a place for the agent", error);
		error = make_all(hijack, image, purpose, segment, err);
		hijack->by_steps = true;
	}
	return error;
}

static uint64_t entry_of(const struct limpet_hijack_area *area,
			 const struct limpet_agent_image *image)
{
	return area->start + (area->code ? image->text_address : 0) + image->boot_entry;
}

/* Whether it is still there, now that the thread is stopped: the same memory as here, and the
 * stub's code. */
static bool has_room(const struct limpet_hijack *hijack, const struct limpet_agent_image *image)
{
	const struct limpet_hijack_room *room = hijack->setup.room;
	const struct limpet_hijack_area *area = &room->area;
	const pid_t pid = hijack->setup.target->pid;
	const uint64_t mark = limpet_monotonic_ns();
	uint64_t there = 0;
	uint8_t code[16];

	if (!hijack->room_is_whole)
		return false;
	room->boot->exit_sp = mark;
	return limpet_memory_read_own(
		       pid, area->start + area->boot + offsetof(struct limpet_boot, exit_sp),
		       &there, sizeof(there)) == 0 &&
	       there == mark &&
	       limpet_memory_read_own(pid, entry_of(area, image), code, sizeof(code)) == 0 &&
	       !memcmp(code, image->bytes + image->text_offset + image->boot_entry, sizeof(code));
}

int limpet_hijack_map(struct limpet_hijack *hijack, enum limpet_hijack_for purpose,
		      struct limpet_segment *segment, struct limpet_err *err)
{
	const struct limpet_agent_image *image;
	int error = limpet_agent_image_get(&image);

	if (error)
		return limpet_err_set(err, error, "the agent inside limpet is damaged");
	if (purpose == LIMPET_HIJACK_CALL && has_room(hijack, image)) {
		hijack->in_room = true;
		hijack->area = hijack->setup.room->area;
		hijack->boot = hijack->setup.room->boot;
		return 0;
	}
	/* Else it was looked at before the thread was stopped. */
	error = hijack->setup.room->area.start ? check_queues(hijack->setup.target->pid, err) : 0;
	if (error)
		return error;
	lay_out(image, purpose, segment, &hijack->area);
	return map_somewhere(hijack, image, purpose, segment, err);
}

int limpet_hijack_map_hook_area(struct limpet_hijack *hijack, uint64_t address, uint64_t bytes)
{
	const struct limpet_agent_image *image;
	struct limpet_tracee_call call;
	int64_t answer;
	int error = limpet_agent_image_get(&image);

	if (error)
		return error;
	/* Empty pages of the file. */
	call = mmap_call(&(struct mapping){address, bytes, LIMPET_PROT_CODE | image->readable,
					   MAP_PRIVATE, MADE_IMAGE, empty_offset(image)});
	answer = call_on(hijack->maker, call.number, call.args);
	return is_error(answer) ? (int)answer : 0;
}

void limpet_hijack_unmap_last(struct limpet_hijack *hijack, uint64_t address, uint64_t bytes)
{
	if (hijack->last_count == MAX_LAST)
		return; /* the next limpet finds it */
	hijack->last[hijack->last_count].start = address;
	hijack->last[hijack->last_count++].bytes = bytes;
}

static bool is_ended(const struct limpet_hijack *hijack)
{
	struct pollfd target = {.fd = hijack->setup.target->pidfd, .events = POLLIN};

	return poll(&target, 1, 0) > 0;
}

static int await_ready(const struct limpet_hijack *hijack, uint64_t deadline_ns)
{
	const uint64_t poll_ns = 20000000u, began_ns = limpet_monotonic_ns(),
		       unusual_from_ns = began_ns + STUB_USUAL_NS;
	uint64_t idle_ns = began_ns + poll_ns;

	for (;;) {
		const uint64_t now = limpet_monotonic_ns(), waited_ns = now - began_ns;
		struct timespec left = {0, (long)poll_ns};
		uint64_t turn_ns;
		int error;

		if (__atomic_load_n(&hijack->boot->ready, __ATOMIC_ACQUIRE))
			return 0;
		if (now >= deadline_ns)
			return -ETIMEDOUT;
		if (deadline_ns - now < poll_ns)
			left.tv_nsec = (long)(deadline_ns - now);
		left.tv_nsec = (long)limpet_tracer_bound_sleep_ns(hijack->setup.wait.tracer,
								  (uint64_t)left.tv_nsec);
		if (waited_ns < STUB_LEAST_NS)
			turn_ns = STUB_LEAST_NS - waited_ns;
		else
			(void)limpet_boost_lend(
				hijack->setup.target->pid, limpet_tracee_tid(hijack->tracee),
				now > unusual_from_ns ? now - unusual_from_ns : 0, &turn_ns);
		if ((uint64_t)left.tv_nsec > turn_ns)
			left.tv_nsec = (long)turn_ns;
		limpet_tracee_sleep_on(&hijack->boot->ready, (uint64_t)left.tv_nsec);
		limpet_boost_return();
		if (__atomic_load_n(&hijack->boot->ready, __ATOMIC_ACQUIRE))
			return 0;
		if (is_ended(hijack))
			return -ESRCH;
		/* The thread that holds the lock for which the stub waits may itself wait for us,
		 * or be a stray that has stopped by now. */
		limpet_tracer_release_strays(hijack->setup.wait.tracer);
		if (now >= idle_ns) {
			limpet_wait_idle(&hijack->setup.wait);
			limpet_tracee_probe_frozen(hijack->tracee);
			idle_ns = limpet_monotonic_ns() + poll_ns;
		}
		error = limpet_tracee_keep_going(hijack->tracee);
		if (error)
			return error;
	}
}

static int wait_ready(const struct limpet_hijack *hijack, uint64_t deadline_ns)
{
	const struct limpet_step step =
		limpet_step_begin(LIMPET_STEP_RUN, limpet_tracee_tid(hijack->tracee), 0);

	return limpet_step_end(&step, await_ready(hijack, deadline_ns));
}

/* The stub need not wait for us when it has finished. */
static void release_stub(const struct limpet_hijack *hijack)
{
	__atomic_store_n(&hijack->boot->released, 1, __ATOMIC_RELEASE);
	__atomic_fetch_and(hijack->life, ~LIMPET_LIFE_WAITED_FOR, __ATOMIC_ACQ_REL);
	syscall(SYS_futex, hijack->life, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

/* The stub may be in the agent: to unload it is to unmap both, at the end, and what lies between
 * them. The thunks are behind that. */
static void fill_room(struct limpet_hijack *hijack, struct limpet_boot *boot)
{
	const struct limpet_hijack_area *area = &hijack->area;

	if (boot->operation != LIMPET_BOOT_UNLOAD) {
		boot->map = boot->stub;
		boot->map_bytes = boot->stub_bytes;
	} else {
		boot->map_bytes = area->thunks + (boot->thunks ? 2 * LIMPET_THUNKS_BYTES : 0);
		hijack->unload_bytes = boot->map_bytes;
		boot->agent = boot->thunks = 0;
	}
}

static void fill_boot(struct limpet_hijack *hijack, const struct limpet_agent_image *image,
		      const struct limpet_segment *segment, struct limpet_boot *boot)
{
	const struct limpet_hijack_area *area = &hijack->area;
	const uint64_t start = area->start;

	boot->exit_sp = limpet_tracee_sigreturn_sp(hijack->tracee);
	boot->exit_syscall = hijack->setup.gadgets->syscall;
	boot->map = start;
	boot->map_bytes = area->bytes;
	boot->stub = start + area->code;
	boot->stub_bytes = area->thunks - area->code;
	if (hijack->in_room)
		fill_room(hijack, boot);
	if (hijack->in_room || !attaches(area))
		return;
	boot->thunks = start + area->thunks;
	boot->layout = image->layout;
	boot->start.readable = image->readable;
	if (area->code) {
		boot->agent = start;
		boot->agent_bytes = area->code;
	} else {
		boot->image = start + area->image;
		boot->image_bytes = image->size;
		memcpy(boot->file_name, LIMPET_MEMFD_AGENT, sizeof(LIMPET_MEMFD_AGENT));
	}
	boot->start.private_end = start;
	boot->start.shm = start + area->shm;
	boot->start.shm_bytes = segment->shm_bytes;
	boot->start.unwind_bytes = segment->tables.arena_bytes;
}

/* By which word the stub learns that limpet has died: the collector's, if the agent is there to
 * have it, and stays; else one of its own. */
static void give_life(struct limpet_hijack *hijack, const struct limpet_segment *segment,
		      struct limpet_boot *boot)
{
	const struct limpet_hijack_area *area = &hijack->area;

	hijack->life = boot->life ? &segment->shm->collector : &hijack->boot->own_life;
	if (!boot->life)
		boot->life = area->start + area->boot + offsetof(struct limpet_boot, own_life);
}

static void write_boot(struct limpet_hijack *hijack, const struct limpet_boot *boot)
{
	const struct limpet_step step = limpet_step_begin(LIMPET_STEP_WRITE_BOOT, 0, 0);
	const uint64_t there = hijack->area.start + hijack->area.boot;
	struct {
		uint64_t word; /* of the stack */
		struct limpet_boot boot;
	} all = {0, *boot};

	*hijack->boot = *boot;
	/* By its own mapping, too: then the pages are there, and do not fault. */
	if (!hijack->in_room)
		(void)!limpet_memory_write(hijack->setup.target->pid, there - sizeof(all.word),
					   &all, sizeof(all));
	limpet_step_end(&step, 0);
}

/* The agent's file is not needed any more. */
static void keep_room(struct limpet_hijack *hijack)
{
	const struct limpet_hijack_area *area = &hijack->area;
	uint8_t *boot = (uint8_t *)hijack->boot;

	if (area->thunks > area->image)
		madvise(boot + (area->image - area->boot), area->thunks - area->image, MADV_REMOVE);
	*hijack->setup.room = (struct limpet_hijack_room){*area, hijack->boot};
	hijack->in_room = true;
	hijack->unmap_bytes = 0;
}

/* What the stub has done decides what of the area stays. */
static void note_done(struct limpet_hijack *hijack)
{
	if (hijack->operation == LIMPET_BOOT_ATTACH)
		keep_room(hijack);
	else if (hijack->in_room && hijack->operation == LIMPET_BOOT_UNLOAD)
		hijack->unmap_bytes = hijack->unload_bytes;
}

int limpet_hijack_call(struct limpet_hijack *hijack, struct limpet_boot *boot,
		       const struct limpet_segment *segment, struct limpet_err *err)
{
	const uint64_t least_ns = limpet_monotonic_ns() + STUB_PATIENCE_NS;
	const uint64_t deadline_ns = hijack->setup.wait.deadline_ns;
	const struct limpet_hijack_area *area = &hijack->area;
	const uint64_t boot_there = area->start + area->boot;
	const struct limpet_agent_image *image;
	int error = limpet_agent_image_get(&image);

	if (error)
		return limpet_err_set(err, error, "the agent inside limpet is damaged");
	error = hijack->maker ? limpet_tracee_let_end(hijack->maker,
						      limpet_monotonic_ns() + CALL_PATIENCE_NS)
			      : 0;
	if (error)
		return failed(err, hijack, "ending a thread of ours", error);
	hijack->operation = boot->operation;
	fill_boot(hijack, image, segment, boot);
	give_life(hijack, segment, boot);
	write_boot(hijack, boot);
	limpet_robust_word_register(hijack->life);
	/* As after a call instruction: rsp + 8 is a multiple of 16. */
	error = limpet_tracee_run(hijack->tracee, entry_of(area, image), boot_there - 72,
				  boot_there, limpet_monotonic_ns() + CALL_PATIENCE_NS);
	if (error)
		return failed(err, hijack, "running the stub", error);
	error = wait_ready(hijack, deadline_ns > least_ns ? deadline_ns : least_ns);
	if (!error)
		error = end_maker(hijack);
	/* It waits for a lock, and may hold others: whatever went wrong, it must resume by itself.
	 * Only after a fault it cannot. */
	hijack->abandoned = error && limpet_tracee_is_running(hijack->tracee);
	if (error == -ETIMEDOUT) {
		limpet_err_set(err, error,
			       hijack->setup.may_be_in_malloc
				       ? "a thread of process %d did not come to its end in time"
				       : "process %d held a lock that dlopen needs, the dynamic "
					 "linker's or malloc's: nothing is loaded",
			       hijack->setup.target->pid);
		limpet_err_hint(err, "try again later, or wait longer: --attach-timeout 60s");
		return error;
	}
	if (!error)
		error = limpet_tracee_halt(hijack->tracee,
					   limpet_monotonic_ns() + CALL_PATIENCE_NS);
	if (error == -EPROTO && !hijack->abandoned)
		return explain_fault(hijack, err);
	if (error) {
		hijack->abandoned = hijack->abandoned || limpet_tracee_is_running(hijack->tracee);
		return failed(err, hijack, "waiting for the stub", error);
	}
	limpet_shared_copy(boot, hijack->boot, sizeof(*boot));
	boot->path[sizeof(boot->path) - 1] = boot->error[sizeof(boot->error) - 1] = 0;
	if (!boot->result)
		note_done(hijack);
	return 0;
}

static int64_t unmap(struct limpet_hijack *hijack, uint64_t start, uint64_t bytes)
{
	const uint64_t args[6] = {start, bytes};
	int64_t answer;
	int error = limpet_tracee_last_syscall(hijack->tracee, SYS_munmap, args,
					       limpet_monotonic_ns() + CALL_PATIENCE_NS, &answer);

	return error ? error : answer;
}

static void unmap_area(struct limpet_hijack *hijack)
{
	if (hijack->unmap_bytes)
		unmap(hijack, hijack->area.start, hijack->unmap_bytes);
}

void limpet_hijack_room_done(struct limpet_hijack_room *room)
{
	if (room->boot)
		munmap(room->boot, boot_bytes(&room->area));
	memset(room, 0, sizeof(*room));
}

int limpet_hijack_finish(struct limpet_hijack *hijack)
{
	/* An end that was not seen in time: the thread goes on by itself when it comes. */
	int error = end_maker(hijack);

	if (hijack->abandoned) {
		release_stub(hijack);
		error = limpet_tracee_abandon(hijack->tracee);
	} else if (error || limpet_tracee_halt(hijack->tracee,
					       limpet_monotonic_ns() + CALL_PATIENCE_NS) < 0) {
		/* A step did not finish in time, nor does it now. */
		error = limpet_tracee_release(hijack->tracee);
	} else {
		/* From here on it stands in no stub that would finish this. */
		unmap_area(hijack);
		for (unsigned i = 0; i < hijack->last_count; i++)
			limpet_hijack_syscall(hijack, SYS_munmap, hijack->last[i].start,
					      hijack->last[i].bytes);
		error = limpet_tracee_release(hijack->tracee);
	}
	/* If its registers could not be restored it stands in the stub again, which ends by itself.
	 */
	if (error && hijack->boot && hijack->life)
		release_stub(hijack);
	if (hijack->boot && hijack->life == &hijack->boot->own_life)
		limpet_robust_word_unregister(hijack->life);
	/* The stub of a thread that was abandoned unmaps what it stands in. */
	if (hijack->in_room && (hijack->abandoned || hijack->unmap_bytes))
		limpet_hijack_room_done(hijack->setup.room);
	else if (hijack->boot && !hijack->in_room)
		munmap(hijack->boot, boot_bytes(&hijack->area));
	hijack_free(hijack);
	return error;
}
