#include "injector/remote/hijack.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "common/clock.h"
#include "injector/proc/descriptor.h"
#include "injector/proc/memfd.h"
#include "injector/proc/memory.h"
#include "injector/proc/proc.h"
#include "injector/ptrace/boost.h"
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
#define SCRATCH_BYTES (STACK_BYTES + BOOT_BYTES)
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
#define MEMFD_NOEXEC_SEAL 8u

struct limpet_hijack {
	struct limpet_hijack_setup setup;
	struct limpet_tracee *tracee;
	pid_t ns_tid; /* of the thread, in the target's pid namespace; 0: unknown */
	unsigned attempts;
	uint64_t map, map_bytes, code_bytes;
	int image_there, channel_there, ours_there; /* descriptors in the target; -1: none */
	int channel;
	/* Where the stub has the numbers of the channel's two ends, while it is stopped after the
	 * call that makes them; else 0. */
	uint64_t ends_there;
	struct {
		uint64_t start, bytes;
	} last[MAX_LAST];
	unsigned last_count;
	bool channel_stays, channel_closed, abandoned, below_growing;
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

static enum rank rank_of_call(pid_t pid, const struct limpet_proc_syscall *call)
{
	static const enum rank ranks[] = {
		[LIMPET_STOP_UNSEEN] = RANK_SLEEPS,     [LIMPET_STOP_TIMED] = RANK_TIMED,
		[LIMPET_STOP_DOUBTFUL] = RANK_DOUBTFUL, [LIMPET_STOP_BREAKS] = RANK_BREAKS,
		[LIMPET_STOP_CUTS] = RANK_CUTS,
	};

	return ranks[limpet_stop_effect_of(pid, call)];
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
	return rank_of_call(pid, &call);
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
static void put_main_thread_first(pid_t pid, pid_t *tids, int count)
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
	put_main_thread_first(pid, tids, count);
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

static struct limpet_hijack *hijack_new(const struct limpet_hijack_setup *setup)
{
	struct limpet_hijack *hijack = calloc(1, sizeof(*hijack));

	if (!hijack)
		return NULL;
	hijack->setup = *setup;
	hijack->image_there = hijack->channel_there = hijack->ours_there = -1;
	hijack->channel = -1;
	limpet_agent_image_rehearse();
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
	    !limpet_stop_cuts(hijack->setup.target->pid, tid, &hijack->cut_call))
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

	if ((rank > candidate->rank && rank >= RANK_TIMED) || would_cut(hijack, tid, rank))
		return NOT_NOW;
	error = limpet_tracee_stop(hijack->setup.target->pid, tid,
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
		return error == -ESRCH || error == -ENOSPC || error == -EFAULT ? NOT_NOW : error;
	}
	hijack->tracee = tracee;
	return 0;
}

/* For how long threads are spared whose calls would notice a stop. A thread that was in the
 * allocator, or a similar place, has soon left it or sleeps there; a thread that was asked to stop
 * does so when it gets a processor. */
struct patience {
	unsigned looks;  /* remaining ones */
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
		    ((not_now && patience->looks) ||
		     (late && limpet_monotonic_ns() < patience->late_until_ns))) {
			patience->looks -= patience->looks > 0;
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
	int count;

	if (setup->anywhere ||
	    limpet_proc_status_read(limpet_proc_resident(setup->target->pid), &status) < 0 ||
	    status.state != 'T')
		return 0;
	count = limpet_proc_tasks(setup->target->pid, &tids);
	for (int i = 0; i < count; i++) {
		struct limpet_tracee *tracee;
		enum limpet_safepoint_verdict verdict;
		uint64_t low;
		bool arena;

		if (limpet_proc_status_read(tids[i], &status) < 0 || status.kernel_thread ||
		    limpet_tracee_stop(setup->target->pid, tids[i],
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

/* Reports the last obstacle. */
static int explain_none(const struct limpet_hijack *hijack, bool locked,
			enum limpet_safepoint_verdict verdict, struct limpet_err *err)
{
	pid_t pid = hijack->setup.target->pid;

	if (hijack->cut_tid && !locked) {
		limpet_err_set(
			err, -EBUSY,
			"no thread of process %d could be stopped without harm in time: its "
			"thread %d waits in %s(2), which a stop would cut short; nothing was "
			"changed",
			pid, hijack->cut_tid, limpet_stop_call_name(hijack->cut_call));
		limpet_err_hint(err, "try again when the other end of its transfer continues, "
				     "or wait longer: --attach-timeout 60s");
		return -EBUSY;
	}
	if (locked)
		limpet_err_set(err, -EBUSY,
			       "the dynamic linker's lock of process %d was held (a dlopen or a "
			       "constructor takes long): nothing was loaded",
			       pid);
	else if (!hijack->attempts)
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
	if (!locked && hijack->attempts && limpet_safepoint_is_lasting(verdict))
		limpet_err_hint(err,
				"waiting longer (--attach-timeout) helps only if thread %d leaves "
				"this code",
				hijack->last_tid);
	else
		limpet_err_hint(err, "try again, or wait longer: --attach-timeout 60s");
	return -EBUSY;
}

static void explain(const struct limpet_hijack *hijack, int error, bool locked,
		    enum limpet_safepoint_verdict verdict, struct limpet_err *err)
{
	const pid_t pid = hijack->setup.target->pid;

	if (error == -EBUSY)
		explain_none(hijack, locked, verdict, err);
	else if (error == -EPERM && verdict == LIMPET_UNSAFE_FILTER)
		limpet_err_set(
			err, error,
			"process %d has installed a seccomp filter that forbids limpet's system "
			"calls: none was made",
			pid);
	else
		limpet_err_set(err, error, "cannot stop a thread of process %d: %s", pid,
			       strerror(-error));
}

/* Never the whole remaining time: at the end every thread has been tried. */
static struct patience begin_patience(const struct limpet_hijack_setup *setup)
{
	const unsigned looks = 6;
	uint64_t now_ns = limpet_monotonic_ns(), deadline_ns = setup->wait.deadline_ns;
	uint64_t half_ns = deadline_ns > now_ns ? (deadline_ns - now_ns) / 2 : 0;

	return (struct patience){.looks = looks,
				 .choosy = setup->may_be_in_malloc ? looks : 1,
				 .late_until_ns =
					 now_ns + (half_ns < POLITE_NS ? half_ns : POLITE_NS)};
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

	if (error)
		return error;
	hijack = hijack_new(setup);
	if (!hijack)
		return limpet_err_set(err, -ENOMEM, "out of memory");
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
	free(hijack);
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
		free(hijack);
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

/* Makes a system call on the hijacked thread: returns its result, or a local failure as -errno.
 * Both end the attempt. */
static int64_t call_there(struct limpet_hijack *hijack, long number, uint64_t a, uint64_t b,
			  uint64_t c, uint64_t d, uint64_t e, uint64_t f)
{
	const uint64_t args[6] = {a, b, c, d, e, f};
	int64_t answer;
	int error = limpet_tracee_syscall(hijack->tracee, number, args,
					  limpet_monotonic_ns() + CALL_PATIENCE_NS, &answer);

	return error ? error : answer;
}

static int64_t unmap_stub(struct limpet_hijack *hijack)
{
	const uint64_t args[6] = {hijack->map, hijack->map_bytes};
	int64_t answer;
	int error = limpet_tracee_last_syscall(hijack->tracee, SYS_munmap, args,
					       limpet_monotonic_ns() + CALL_PATIENCE_NS, &answer);

	return error ? error : answer;
}

int64_t limpet_hijack_syscall(struct limpet_hijack *hijack, long number, uint64_t a, uint64_t b)
{
	return call_there(hijack, number, a, b, 0, 0, 0, 0);
}

static int failed(struct limpet_err *err, const struct limpet_hijack *hijack, const char *what,
		  int64_t answer)
{
	return limpet_err_set(err, (int)answer, "process %d: %s failed: %s",
			      hijack->setup.target->pid, what, strerror((int)-answer));
}

/* Offset in the image's file: after the agent. */
static uint64_t scratch_offset(const struct limpet_agent_image *image)
{
	return image->file_bytes;
}

/* Checks a descriptor that was fetched by its number: any thread of the target may meanwhile have
 * put another file there, and we would overwrite that file with our privileges. */
static bool is_new_image(int fd)
{
	static const char ours[] = "/memfd:" LIMPET_MEMFD_AGENT " (deleted)";
	char path[32], name[sizeof(ours) + 1];
	struct stat file;
	ssize_t bytes;

	if (fcntl(fd, F_GET_SEALS) < 0 || fstat(fd, &file) < 0 || !S_ISREG(file.st_mode) ||
	    file.st_size || file.st_nlink)
		return false;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	bytes = readlink(path, name, sizeof(name));
	return bytes == (ssize_t)sizeof(ours) - 1 && !memcmp(name, ours, sizeof(ours) - 1);
}

/* Fetches a descriptor that the hijacked thread has made. */
static int get_descriptor(const struct limpet_hijack *hijack, int fd)
{
	return limpet_descriptor_get_of(hijack->setup.target->pid, hijack->setup.target->pidfd,
					limpet_tracee_tid(hijack->tracee), fd);
}

static int make_image(struct limpet_hijack *hijack, const struct limpet_agent_image *image,
		      struct limpet_err *err)
{
	static const char name[] = LIMPET_MEMFD_AGENT;
	uint64_t spare = limpet_tracee_spare(hijack->tracee);
	LIMPET_CLOSE int file = -1;
	int64_t answer;
	int error = limpet_memory_write(hijack->setup.target->pid, spare, name, sizeof(name));

	if (error)
		return failed(err, hijack, "writing to its stack", error);
	/* The file is mapped, never executed: with this flag vm.memfd_noexec accepts it, whatever
	 * its value. Before Linux 6.3 neither existed. */
	answer = call_there(hijack, SYS_memfd_create, spare, MEMFD_CLOEXEC | MEMFD_NOEXEC_SEAL, 0,
			    0, 0, 0);
	if (answer == -EINVAL)
		answer = call_there(hijack, SYS_memfd_create, spare, MEMFD_CLOEXEC, 0, 0, 0, 0);
	if (answer < 0)
		return failed(err, hijack, "memfd_create", answer);
	hijack->image_there = (int)answer;
	limpet_fault_point("write image");
	file = get_descriptor(hijack, hijack->image_there);
	if (file < 0)
		return failed(err, hijack, "pidfd_getfd", file);
	if (!is_new_image(file))
		return failed(err, hijack, "memfd_create", -EBADF);
	limpet_own_objects_note(file);
	if (scratch_offset(image) + SCRATCH_BYTES > LIMPET_THUNKS_OFFSET)
		return failed(err, hijack, "writing the agent", -EFBIG);
	if (pwrite(file, image->bytes, image->size, 0) != (ssize_t)image->size ||
	    pwrite(file, image->bytes + image->thunks_offset, LIMPET_THUNKS_BYTES,
		   LIMPET_THUNKS_OFFSET) != (ssize_t)LIMPET_THUNKS_BYTES ||
	    ftruncate(file, LIMPET_THUNKS_OFFSET + 2 * LIMPET_THUNKS_BYTES) < 0)
		return failed(err, hijack, "writing the agent", errno ? -errno : -ENOSPC);
	return 0;
}

/* Chooses an address below a mapping of a file, which does not grow. */
static int choose_elsewhere(const struct limpet_hijack *hijack, uint64_t bytes, uint64_t *ret)
{
	struct limpet_maps maps;
	uint64_t end = 0;
	int error = limpet_proc_maps_read(hijack->setup.target->pid, &maps);

	if (error)
		return error;
	error = -ENOMEM;
	for (size_t i = 0; i < maps.count; i++) {
		const struct limpet_map *map = &maps.list[i];

		if (i && map->inode && map->start - end >= bytes + PAGE) {
			*ret = map->start - bytes;
			error = 0;
		}
		end = map->end;
	}
	limpet_proc_maps_done(&maps);
	return error;
}

/* Maps at an address of the kernel's choice, or at another one if memory of the program may grow
 * there. */
static int64_t map_code(struct limpet_hijack *hijack, const struct limpet_agent_image *image,
			uint64_t bytes)
{
	const uint64_t image_there = (uint64_t)hijack->image_there;
	uint64_t address = 0;
	int64_t answer = call_there(hijack, SYS_mmap, 0, bytes, LIMPET_PROT_CODE | image->readable,
				    MAP_PRIVATE, image_there, image->text_offset);
	int error;

	if ((answer < 0 && answer > -4096) ||
	    !limpet_growing_above_new(hijack->setup.target->pid, hijack->setup.maps,
				      (uint64_t)answer + bytes))
		return answer;
	hijack->below_growing = true;
	answer = call_there(hijack, SYS_munmap, (uint64_t)answer, bytes, 0, 0, 0, 0);
	error = answer < 0 ? (int)answer : choose_elsewhere(hijack, bytes, &address);
	return error ? error
		     : call_there(
			       hijack, SYS_mmap, address, bytes, LIMPET_PROT_CODE | image->readable,
			       MAP_PRIVATE | MAP_FIXED_NOREPLACE, image_there, image->text_offset);
}

/* When the image is mapped, its number may already refer to another file. */
static bool is_code_ours(const struct limpet_hijack *hijack, const struct limpet_agent_image *image)
{
	unsigned char entry[64];

	return limpet_memory_read_own(hijack->setup.target->pid, hijack->map + image->boot_entry,
				      entry, sizeof(entry)) == 0 &&
	       !memcmp(entry, image->bytes + image->text_offset + image->boot_entry, sizeof(entry));
}

/* The code and the scratch memory are adjacent, so that one munmap removes both; both are of the
 * image, so that both can be recognized by their name if we die before. */
static int make_mapping(struct limpet_hijack *hijack, const struct limpet_agent_image *image,
			struct limpet_err *err)
{
	uint64_t bytes = image->text_bytes + SCRATCH_BYTES;
	int64_t answer = map_code(hijack, image, bytes);

	if (answer < 0 && answer > -4096) {
		failed(err, hijack, "mapping code", answer);
		if (answer == -EACCES || answer == -EPERM)
			limpet_err_hint(err, "the program may not map new code "
					     "(MemoryDenyWriteExecute, SELinux execmem)");
		return (int)answer;
	}
	hijack->map = (uint64_t)answer;
	hijack->map_bytes = bytes;
	hijack->code_bytes = image->text_bytes;
	answer = call_there(hijack, SYS_mmap, hijack->map + image->text_bytes, SCRATCH_BYTES,
			    LIMPET_PROT_DATA | image->readable, MAP_PRIVATE | MAP_FIXED,
			    (uint64_t)hijack->image_there, scratch_offset(image));
	if (answer < 0 && answer > -4096)
		return failed(err, hijack, "mmap", answer);
	return is_code_ours(hijack, image) ? 0 : failed(err, hijack, "mapping code", -EBADF);
}

/* Maps it without access: memory that grows can still grow up to its edge, which is the only harm,
 * and lasts a moment. */
static void try_room(struct limpet_hijack *hijack)
{
	const uint64_t bytes = hijack->setup.room_bytes;
	int64_t answer;

	if (!bytes)
		return;
	answer = call_there(hijack, SYS_mmap, 0, bytes, PROT_NONE, MAP_PRIVATE,
			    (uint64_t)hijack->image_there, 0);
	if (answer < 0 && answer > -4096)
		return;
	call_there(hijack, SYS_munmap, (uint64_t)answer, bytes, 0, 0, 0, 0);
	hijack->below_growing = limpet_growing_above_new(
		hijack->setup.target->pid, hijack->setup.maps, (uint64_t)answer + bytes);
}

int limpet_hijack_map(struct limpet_hijack *hijack, struct limpet_err *err)
{
	const struct limpet_agent_image *image;
	int error = limpet_agent_image_get(&image);

	if (error)
		return limpet_err_set(err, error, "the agent inside limpet is damaged");
	error = make_image(hijack, image, err);
	if (!error)
		try_room(hijack);
	if (!error)
		error = make_mapping(hijack, image, err);
	return error;
}

bool limpet_hijack_below_growing(const struct limpet_hijack *hijack)
{
	return hijack->below_growing;
}

int limpet_hijack_map_hook_area(struct limpet_hijack *hijack, uint64_t address, uint64_t bytes)
{
	const struct limpet_agent_image *image;
	int64_t answer;
	int error = limpet_agent_image_get(&image);

	if (error)
		return error;
	answer = call_there(hijack, SYS_mmap, address, bytes, LIMPET_PROT_CODE | image->readable,
			    MAP_PRIVATE | MAP_FIXED_NOREPLACE, (uint64_t)hijack->image_there,
			    scratch_offset(image));
	return answer < 0 ? (int)answer : 0;
}

void limpet_hijack_unmap_last(struct limpet_hijack *hijack, uint64_t address, uint64_t bytes)
{
	if (hijack->last_count == MAX_LAST)
		return; /* the next limpet finds it */
	hijack->last[hijack->last_count].start = address;
	hijack->last[hijack->last_count++].bytes = bytes;
}

int limpet_hijack_take_channel(struct limpet_hijack *hijack)
{
	int channel = hijack->channel;

	hijack->channel = -1;
	hijack->channel_stays = true;
	return channel;
}

static int wait_ready(const struct limpet_hijack *hijack, uint64_t deadline_ns)
{
	const uint64_t look_every_ns = 20000000u, began_ns = limpet_monotonic_ns(),
		       unusual_from_ns = began_ns + STUB_USUAL_NS;
	uint64_t idle_ns = began_ns + look_every_ns;
	struct pollfd fds[2] = {{.fd = hijack->channel, .events = POLLIN},
				{.fd = hijack->setup.target->pidfd, .events = POLLIN}};

	for (;;) {
		const uint64_t now = limpet_monotonic_ns(), waited_ns = now - began_ns;
		uint64_t turn_ns;
		struct limpet_msg message;
		struct timespec left = {0, (long)look_every_ns};
		int error;

		if (now >= deadline_ns)
			return -ETIMEDOUT;
		if (deadline_ns - now < look_every_ns)
			left.tv_nsec = (long)(deadline_ns - now);
		left.tv_nsec = (long)limpet_tracee_bound_sleep_ns((uint64_t)left.tv_nsec);
		if (waited_ns < STUB_LEAST_NS)
			turn_ns = STUB_LEAST_NS - waited_ns;
		else
			(void)limpet_boost_lend(
				hijack->setup.target->pid, limpet_tracee_tid(hijack->tracee),
				now > unusual_from_ns ? now - unusual_from_ns : 0, &turn_ns);
		if ((uint64_t)left.tv_nsec > turn_ns)
			left.tv_nsec = (long)turn_ns;
		error = ppoll(fds, 2, &left, NULL) < 0 && errno != EINTR ? -errno : 0;
		limpet_boost_take_back();
		if (error)
			return error;
		if (fds[1].revents)
			return -ESRCH;
		if (!fds[0].revents) {
			/* The thread that holds the lock for which the stub waits may itself wait
			 * for us, or be a stray that has stopped by now. */
			limpet_tracee_release_strays();
			if (now >= idle_ns) {
				limpet_wait_idle(&hijack->setup.wait);
				limpet_tracee_look_frozen(hijack->tracee);
				idle_ns = limpet_monotonic_ns() + look_every_ns;
			}
			error = limpet_tracee_keep_going(hijack->tracee);
			if (error)
				return error;
			continue;
		}
		/* Hooks of other threads may have sent something before. */
		if (recv(hijack->channel, &message, sizeof(message), MSG_DONTWAIT) ==
			    (ssize_t)sizeof(message) &&
		    message.type == LIMPET_MSG_READY)
			return 0;
		if (fds[0].revents & (POLLHUP | POLLERR))
			return -EPIPE;
	}
}

static int send_memory(int channel, const struct limpet_segment *segment)
{
	struct limpet_msg message = {.type = LIMPET_MSG_FDS};
	struct iovec vector = {&message, sizeof(message)};
	union {
		struct cmsghdr head;
		char bytes[CMSG_SPACE(2 * sizeof(int))];
	} control;
	struct msghdr header = {.msg_iov = &vector,
				.msg_iovlen = 1,
				.msg_control = &control,
				.msg_controllen = sizeof(control)};
	struct cmsghdr *rights = CMSG_FIRSTHDR(&header);
	int fds[2] = {segment->shm_fd, segment->arena_fd};

	limpet_own_objects_note(fds[0]);
	limpet_own_objects_note(fds[1]);
	memset(&control, 0, sizeof(control));
	rights->cmsg_level = SOL_SOCKET;
	rights->cmsg_type = SCM_RIGHTS;
	rights->cmsg_len = CMSG_LEN(sizeof(fds));
	memcpy(CMSG_DATA(rights), fds, sizeof(fds));
	if (sendmsg(channel, &header, MSG_NOSIGNAL | MSG_DONTWAIT) != (ssize_t)sizeof(message))
		return errno ? -errno : -EIO;
	return 0;
}

/* Checks a descriptor that was fetched by its number: any thread of the target may meanwhile have
 * put something else there. It could never take what is sent to it, forward it to somebody, or be
 * shared with other processes, in which we would close it as ours. */
static bool is_channel(int fd)
{
	struct sockaddr_un name;
	socklen_t bytes = sizeof(int), name_bytes = sizeof(name);
	int domain = 0, type = 0;

	return getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &bytes) == 0 && domain == AF_UNIX &&
	       getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &bytes) == 0 && type == SOCK_SEQPACKET &&
	       getsockname(fd, (struct sockaddr *)&name, &name_bytes) == 0 &&
	       name_bytes == sizeof(sa_family_t);
}

static int read_ends(struct limpet_hijack *hijack)
{
	int ends[2];
	int error = limpet_memory_read_own(hijack->setup.target->pid, hijack->ends_there, ends,
					   sizeof(ends));

	if (error)
		return error;
	hijack->channel_there = ends[0];
	hijack->ours_there = ends[1];
	return 0;
}

/* The stub has made the channel, and is stopped. */
static int take_end(struct limpet_hijack *hijack, const struct limpet_segment *segment,
		    struct limpet_err *err)
{
	LIMPET_CLOSE int theirs = -1;
	int error = read_ends(hijack);

	if (error)
		return failed(err, hijack, "reading its scratch memory", error);
	theirs = get_descriptor(hijack, hijack->channel_there);
	hijack->channel = get_descriptor(hijack, hijack->ours_there);
	if (hijack->channel < 0)
		return failed(err, hijack, "pidfd_getfd", hijack->channel);
	if (!is_channel(hijack->channel) || !is_channel(theirs))
		return failed(err, hijack, "socketpair", -EBADF);
	limpet_own_objects_note(theirs);
	limpet_own_objects_note(hijack->channel);
	limpet_fault_point("send memory");
	error = segment ? send_memory(hijack->channel, segment) : 0;
	return error ? failed(err, hijack, "sending the memory to share", error) : 0;
}

/* Runs the stub up to the call that makes the channel. */
static int start_stub(struct limpet_hijack *hijack, struct limpet_boot *boot, uint64_t boot_address,
		      struct limpet_err *err)
{
	const struct limpet_agent_image *image;
	int64_t answer;
	int error = limpet_agent_image_get(&image);

	if (error)
		return limpet_err_set(err, error, "the agent inside limpet is damaged");
	boot->channel = boot->injector_end = -1;
	boot->image = hijack->image_there;
	boot->exit_sp = limpet_tracee_sigreturn_sp(hijack->tracee);
	boot->exit_syscall = hijack->setup.gadgets->syscall;
	boot->map = hijack->map;
	boot->map_bytes = hijack->map_bytes;
	limpet_fault_point("write boot");
	error = limpet_memory_write(hijack->setup.target->pid, boot_address, boot, sizeof(*boot));
	if (error)
		return failed(err, hijack, "writing its scratch memory", error);
	hijack->ends_there = boot_address + offsetof(struct limpet_boot, channel);
	/* As after a call instruction: rsp + 8 is a multiple of 16. */
	error = limpet_tracee_run(hijack->tracee, hijack->map + image->boot_entry,
				  boot_address - 72, boot_address,
				  limpet_monotonic_ns() + CALL_PATIENCE_NS, &answer);
	if (error && limpet_tracee_is_running(hijack->tracee))
		hijack->ends_there = 0;
	if (error)
		return failed(err, hijack, "running the stub", error);
	return answer < 0 ? failed(err, hijack, "socketpair", answer) : 0;
}

/* Runs it from there to its end. */
static int finish_stub(struct limpet_hijack *hijack, uint64_t least_ns, struct limpet_err *err)
{
	const uint64_t deadline_ns = hijack->setup.wait.deadline_ns;
	int error = limpet_tracee_go_on(hijack->tracee);

	if (error)
		return failed(err, hijack, "running the stub", error);
	/* From here on the stub closes and moves descriptors: their numbers may be the program's
	 * when we look. */
	hijack->channel_there = hijack->ours_there = hijack->image_there = -1;
	hijack->ends_there = 0;
	error = wait_ready(hijack, deadline_ns > least_ns ? deadline_ns : least_ns);
	hijack->channel_closed = error == -EPIPE;
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
	if (!error)
		return 0;
	hijack->abandoned = hijack->abandoned || limpet_tracee_is_running(hijack->tracee);
	return failed(err, hijack, "waiting for the stub", error);
}

int limpet_hijack_call(struct limpet_hijack *hijack, struct limpet_boot *boot,
		       const struct limpet_segment *segment, struct limpet_err *err)
{
	const uint64_t boot_address = hijack->map + hijack->code_bytes + STACK_BYTES;
	const uint64_t least_ns = limpet_monotonic_ns() + STUB_PATIENCE_NS;
	int error = start_stub(hijack, boot, boot_address, err);

	if (!error)
		error = take_end(hijack, segment, err);
	if (!error)
		error = finish_stub(hijack, least_ns, err);
	if (error)
		return error;
	error = limpet_memory_read_own(hijack->setup.target->pid, boot_address, boot,
				       sizeof(*boot));
	if (error) {
		hijack->abandoned = true;
		return failed(err, hijack, "reading its scratch memory", error);
	}
	hijack->channel_there = boot->channel;
	return 0;
}

/* Tries again if the call could not be made; but not if it was made and only its result was lost:
 * the number may be the program's by then. */
static void close_there(struct limpet_hijack *hijack, int fd)
{
	if (fd >= 0 && call_there(hijack, SYS_close, (uint64_t)fd, 0, 0, 0, 0, 0) < 0 &&
	    limpet_own_objects_has(hijack->setup.target->pid, fd))
		call_there(hijack, SYS_close, (uint64_t)fd, 0, 0, 0, 0, 0);
}

/* Closes the ends of a stub that was stopped by a failure. Before it made the channel the numbers
 * are -1. */
static void close_ends(struct limpet_hijack *hijack)
{
	if (hijack->ends_there && hijack->channel_there < 0)
		(void)!read_ends(hijack);
	close_there(hijack, hijack->ours_there);
	if (!hijack->channel_stays)
		close_there(hijack, hijack->channel_there);
}

static int is_stub_mapped(const struct limpet_hijack *hijack)
{
	struct limpet_maps maps;
	const struct limpet_map *map;
	int answer = limpet_proc_maps_read(hijack->setup.target->pid, &maps);

	if (answer)
		return answer;
	map = limpet_proc_maps_find(&maps, hijack->map);
	answer = map && limpet_memfd_is_agent(map->path);
	limpet_proc_maps_done(&maps);
	return answer;
}

/* A stub whose channel is closed completes its step, or undoes it, and then unmaps itself. Until
 * then nobody can tell what is left of the agent. */
static int wait_for_stub(const struct limpet_hijack *hijack)
{
	const uint64_t longest_pause_ns = 10000000;
	uint64_t pause_ns = 100000;
	int answer;

	while ((answer = is_stub_mapped(hijack)) > 0) {
		answer = limpet_wait_pause(&hijack->setup.wait, &pause_ns, longest_pause_ns);
		if (answer)
			break;
	}
	return answer;
}

int limpet_hijack_finish(struct limpet_hijack *hijack)
{
	int error;

	if (hijack->abandoned) {
		error = limpet_tracee_abandon(hijack->tracee);
		if (!error && hijack->channel_closed)
			error = wait_for_stub(hijack);
	} else if (limpet_tracee_halt(hijack->tracee, limpet_monotonic_ns() + CALL_PATIENCE_NS) <
		   0) {
		/* A step did not finish in time, nor does it now. */
		error = limpet_tracee_release(hijack->tracee);
	} else {
		close_there(hijack, hijack->image_there);
		close_ends(hijack);
		for (unsigned i = 0; i < hijack->last_count; i++)
			call_there(hijack, SYS_munmap, hijack->last[i].start, hijack->last[i].bytes,
				   0, 0, 0, 0);
		if (hijack->map)
			unmap_stub(hijack);
		error = limpet_tracee_release(hijack->tracee);
	}
	if (hijack->channel >= 0)
		close(hijack->channel);
	free(hijack);
	return error;
}
