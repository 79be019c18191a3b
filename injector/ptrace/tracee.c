#include "injector/ptrace/tracee.h"

#include <elf.h>
#include <errno.h>
#include <inttypes.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <unistd.h>

#include "common/clock.h"
#include "injector/proc/memory.h"
#include "injector/proc/proc.h"
#include "injector/ptrace/arch.h"
#include "injector/ptrace/sigchld.h"
#include "injector/ptrace/step.h"
#include "injector/ptrace/tracee_private.h"
#include "injector/ptrace/watchdog.h"

/* What a thread may spend on its way out of a stop and into the next one, in the kernel alone. */
#define STOP_COST_NS 100000u
#define UNKNOWN_NS UINT64_MAX

long limpet_ptrace(int request, pid_t tid, void *address, void *data)
{
	const struct limpet_step step = limpet_step_begin(LIMPET_STEP_PTRACE, tid, request);
	const long answer = ptrace((enum __ptrace_request)request, tid, address, data);

	limpet_step_end(&step, answer < 0 ? -errno : 0);
	return answer;
}

static uint64_t page_faults(const struct limpet_tracee *tracee)
{
	uint64_t fields[LIMPET_STAT_FIELDS];

	return limpet_step_is_watched() &&
			       limpet_proc_stat_read(tracee->pid, tracee->tid, fields) > 0
		       ? fields[LIMPET_STAT_MINOR_FAULTS] + fields[LIMPET_STAT_MAJOR_FAULTS]
		       : 0;
}

void limpet_tracee_count_faults(struct limpet_tracee *tracee)
{
	struct limpet_tracee *counted = tracee->made_by ?: tracee;

	counted->faults += page_faults(tracee) - tracee->faults_before;
}

/* Not by PTRACE_GETREGSET: of a thread in 32-bit code that gives other registers. */
int limpet_tracee_read_registers(struct limpet_tracee *tracee)
{
	return limpet_ptrace(PTRACE_GETREGS, tracee->tid, NULL, &tracee->regs) < 0 ? -errno : 0;
}

int limpet_tracee_write_registers(const struct limpet_tracee *tracee, struct user_regs_struct *regs)
{
	struct iovec vector = {regs, sizeof(*regs)};

	if (limpet_ptrace(PTRACE_SETREGSET, tracee->tid, (void *)NT_PRSTATUS, &vector) < 0)
		return -errno;
	return 0;
}

/* In an event stop, with the registers read: a call that has ended with EINTR for no other reason
 * than our stop is made again. Written at once: if we die, the program does not see it either. In a
 * group stop the program sees EINTR without us, too. */
static int mend(struct limpet_tracee *tracee)
{
	if (tracee->group_stop ||
	    !limpet_interrupted_again(tracee->pid, tracee->tid, &tracee->wait, &tracee->regs))
		return 0;
	return limpet_tracee_write_registers(tracee, &tracee->regs);
}

int limpet_tracee_mend_limit(struct limpet_tracee *tracee)
{
	if (!tracee->wait.shortened || !limpet_interrupted_shorten(&tracee->wait, &tracee->regs))
		return 0;
	return tracee->hijacked ? 0 : limpet_tracee_write_registers(tracee, &tracee->regs);
}

int limpet_tracee_new(struct limpet_tracer *tracer, pid_t pid, pid_t tid,
		      struct limpet_tracee **ret)
{
	struct limpet_tracee *tracee = calloc(1, sizeof(*tracee));

	if (!tracee)
		return -ENOMEM;
	tracee->tracer = tracer;
	tracee->pid = pid;
	tracee->tid = tid;
	tracee->link = &tracer->tracees;
	tracee->next = tracer->tracees;
	if (tracee->next)
		tracee->next->link = &tracee->next;
	tracer->tracees = tracee;
	tracer->at_rest = false;
	limpet_watchdog_begin();
	limpet_tracer_note_held(tracer);
	*ret = tracee;
	return 0;
}

static void tracee_free(struct limpet_tracee *tracee)
{
	*tracee->link = tracee->next;
	if (tracee->next)
		tracee->next->link = tracee->link;
	limpet_tracer_note_held(tracee->tracer);
	free(tracee->xstate);
	free(tracee);
}

/* The kernel refuses to trace an ended thread, or one of this process, with the same errno as a
 * stranger's. */
static int why_not(pid_t pid, pid_t tid)
{
	struct limpet_proc_status status;
	const int error = limpet_proc_status_read(tid, &status);

	if (error)
		return limpet_proc_is_gone(error) ? -ESRCH : -EPERM;
	if (status.state == 'Z' || status.state == 'X' || status.kernel_thread)
		return -ESRCH;
	return limpet_proc_is_own_tracer(pid, status.tracer) ? -ETIMEDOUT : -EPERM;
}

/* A thread that executes another program stays traced, and takes the pid of the process as its tid.
 */
static void follow_exec(struct limpet_tracer *tracer, pid_t pid, pid_t tid)
{
	struct limpet_proc_status status;

	if (tid != pid && !limpet_tracer_is_stray(tracer, pid) &&
	    limpet_proc_status_read(pid, &status) == 0 && status.tracer == getpid())
		limpet_tracer_add_stray(tracer, &(struct limpet_stray){.pid = pid, .tid = pid});
}

/* An exec holds a lock that this call waits for, and waits itself for all other threads to end: a
 * tracee among them ends only when we have reaped it. SIGCHLD interrupts the wait, the handler
 * reaps, and the call is restarted. No other code of ours runs meanwhile. */
static long seize(struct limpet_tracer *tracer, pid_t tid)
{
	const sigset_t child = limpet_sigchld_set();
	sigset_t kept_mask;
	long answer;
	int error;

	if (!tracer->stray_count && !tracer->many)
		return limpet_ptrace(PTRACE_SEIZE, tid, NULL, (void *)PTRACE_O_TRACESYSGOOD);
	if (!tracer->many)
		limpet_tracer_watch_ends(tracer, true);
	/* The SIGCHLD of a thread that ended since the last look is pending, and is delivered now.
	 */
	pthread_sigmask(SIG_UNBLOCK, &child, &kept_mask);
	answer = limpet_ptrace(PTRACE_SEIZE, tid, NULL, (void *)PTRACE_O_TRACESYSGOOD);
	error = errno;
	pthread_sigmask(SIG_SETMASK, &kept_mask, NULL);
	if (!tracer->many)
		limpet_tracer_watch_ends(tracer, false);
	errno = error;
	return answer;
}

int limpet_tracee_request_stop(struct limpet_tracer *tracer, pid_t pid, pid_t tid,
			       const struct limpet_timed_wait *wait, struct limpet_tracee **ret)
{
	struct limpet_tracee *tracee;
	int error;

	limpet_tracer_release_strays(tracer);
	/* Without an entry in the list it would stay stopped until limpet ends. */
	if (limpet_tracer_is_stray(tracer, tid) || tracer->stray_count == LIMPET_STRAYS_MOST)
		return -ETIMEDOUT;
	error = limpet_tracee_new(tracer, pid, tid, &tracee);
	if (error)
		return error;
	if (wait)
		tracee->wait = *wait;
	error = seize(tracer, tid) < 0 ? -errno : 0;
	if (error == -EPERM)
		error = why_not(pid, tid);
	/* Another tracer may have gone in between. */
	if (error == -EPERM && seize(tracer, tid) == 0)
		error = 0;
	if (error) {
		tracee_free(tracee);
		return error ? error : -EIO;
	}
	tracee->running = true;
	tracee->stopped_since_ns = limpet_monotonic_ns();
	if (limpet_ptrace(PTRACE_INTERRUPT, tid, NULL, NULL) < 0) {
		error = -errno;
		if (error == -ESRCH)
			follow_exec(tracer, pid, tid);
		limpet_tracee_release(tracee);
		return error ? error : -EIO;
	}
	*ret = tracee;
	return 0;
}

/* 0 if it is unknown. */
static uint64_t run_time(const struct limpet_tracee *tracee)
{
	uint64_t run_ns;

	return limpet_proc_run_time(tracee->pid, tracee->tid, &run_ns) < 0 ? 0 : run_ns;
}

/* Inside a system call that the kernel will restart or end with EINTR. */
static bool is_in_syscall(const struct limpet_tracee *tracee)
{
	return (int64_t)tracee->regs.orig_rax >= 0;
}

/* A thread in a short loop often has the same registers again. *ret_run_ns: its time on a
 * processor, if so. */
static bool is_as_released(const struct limpet_tracee *tracee, uint64_t *ret_run_ns)
{
	const struct limpet_tracer *tracer = tracee->tracer;
	uint64_t run_ns;

	if (tracee->tid != tracer->last_stop.tid || tracee->group_stop || is_in_syscall(tracee) ||
	    tracer->last_stop.run_ns == UNKNOWN_NS ||
	    memcmp(&tracee->regs, &tracer->last_stop.regs, sizeof(tracee->regs)))
		return false;
	run_ns = run_time(tracee);
	if (run_ns - tracer->last_stop.run_ns >= STOP_COST_NS)
		return false;
	*ret_run_ns = run_ns;
	return true;
}

int limpet_tracee_await(struct limpet_tracee *tracee, uint64_t deadline_ns)
{
	int error = limpet_tracee_wait_event(tracee, deadline_ns);

	if (!error)
		error = limpet_tracee_read_registers(tracee);
	if (!error)
		error = mend(tracee);
	if (error == -ESRCH)
		follow_exec(tracee->tracer, tracee->pid, tracee->tid);
	if (error) {
		limpet_tracee_release(tracee);
		return error;
	}
	if (is_as_released(tracee, &tracee->run_ns))
		tracee->stopped_since_ns = tracee->tracer->last_stop.stopped_since_ns;
	tracee->faults_before = page_faults(tracee);
	return 0;
}

int limpet_tracee_stop(struct limpet_tracer *tracer, pid_t pid, pid_t tid, uint64_t deadline_ns,
		       struct limpet_tracee **ret)
{
	const uint64_t began_ns = limpet_monotonic_ns();
	struct limpet_timed_wait wait;
	struct limpet_tracee *tracee;
	int error;

	/* No part of the patience: a thread that sleeps and wakes all the time is hard to read. */
	limpet_timed_wait_probe(pid, tid, &wait);
	deadline_ns += limpet_monotonic_ns() - began_ns;
	error = limpet_tracee_request_stop(tracer, pid, tid, &wait, &tracee);

	if (!error)
		error = limpet_tracee_await(tracee, deadline_ns);
	if (!error)
		*ret = tracee;
	return error;
}

int limpet_tracee_adopt(struct limpet_tracer *tracer, pid_t pid, struct limpet_tracee **ret)
{
	struct limpet_tracee *tracee;
	int error = limpet_tracee_new(tracer, pid, pid, &tracee);

	if (error)
		return error;
	tracer->own_child = pid;
	error = limpet_tracee_read_registers(tracee);
	if (error) {
		tracee_free(tracee);
		return error;
	}
	*ret = tracee;
	return 0;
}

pid_t limpet_tracee_tid(const struct limpet_tracee *tracee)
{
	return tracee->tid;
}

size_t limpet_tracee_read_vectors(const struct limpet_tracee *tracee, void *ret, size_t bytes)
{
	struct iovec vector = {ret, bytes};

	return limpet_ptrace(PTRACE_GETREGSET, tracee->tid, (void *)NT_X86_XSTATE, &vector) < 0
		       ? 0
		       : vector.iov_len & ~(size_t)7;
}

const struct user_regs_struct *limpet_tracee_regs(const struct limpet_tracee *tracee)
{
	return &tracee->regs;
}

int limpet_tracee_move(struct limpet_tracee *tracee, uint64_t pc)
{
	struct user_regs_struct regs = tracee->regs;
	int error;

	if (tracee->hijacked || is_in_syscall(tracee))
		return -EBUSY;
	regs.rip = pc;
	error = limpet_tracee_write_registers(tracee, &regs);
	if (!error)
		tracee->regs = regs;
	return error;
}

/* struct rseq_cs, from the kernel's user interface */
struct critical_section {
	uint32_t version, flags;
	uint64_t start, length, abort;
};

#define GET_RSEQ_CONFIGURATION 0x420f /* Linux 5.13 */

bool limpet_tracee_in_rseq(const struct limpet_tracee *tracee)
{
	/* struct ptrace_rseq_configuration */
	struct {
		uint64_t pointer;
		uint32_t bytes, signature, flags, unused;
	} rseq;
	struct critical_section section;
	const uint64_t section_offset = 8; /* of rseq_cs in struct rseq */
	uint64_t pointer;

	/* No section has a system call in it. Elsewhere, what cannot be read may be one. */
	if (ptrace((enum __ptrace_request)GET_RSEQ_CONFIGURATION, tracee->tid, (void *)sizeof(rseq),
		   &rseq) != sizeof(rseq))
		return (int64_t)tracee->regs.orig_rax < 0;
	if (!rseq.pointer)
		return false;
	if (limpet_memory_read(tracee->pid, rseq.pointer + section_offset, &pointer,
			       sizeof(pointer)) < 0)
		return true;
	if (!pointer)
		return false;
	if (limpet_memory_read(tracee->pid, pointer, &section, sizeof(section)) < 0)
		return true;
	return tracee->regs.rip - section.start < section.length;
}

#ifndef PTRACE_GET_SYSCALL_USER_DISPATCH_CONFIG /* Linux 6.4 */
#define PTRACE_GET_SYSCALL_USER_DISPATCH_CONFIG 0x4211
#endif

bool limpet_tracee_runs_32_bit(const struct limpet_tracee *tracee)
{
	return tracee->regs.cs != LIMPET_ARCH_USER_CODE &&
	       tracee->regs.cs != LIMPET_ARCH_USER_CODE_XEN;
}

bool limpet_tracee_dispatches(const struct limpet_tracee *tracee)
{
	/* struct ptrace_sud_config */
	struct {
		uint64_t mode, selector, offset, length;
	} config = {0};

	/* Mode 0 is PR_SYS_DISPATCH_OFF; in any other, calls may be dispatched. */
	return ptrace((enum __ptrace_request)PTRACE_GET_SYSCALL_USER_DISPATCH_CONFIG, tracee->tid,
		      (void *)sizeof(config), &config) == 0 &&
	       config.mode;
}

static void note_stop(const struct limpet_tracee *tracee)
{
	struct limpet_tracer *tracer = tracee->tracer;

	if (!tracee->stopped_since_ns)
		return;
	/* Without limpet it would not have run either. */
	if (tracee->stopped_since_ns > tracer->frozen_seen_ns)
		limpet_tracer_note_stop_ns(tracer,
					   limpet_monotonic_ns() - tracee->stopped_since_ns);
	tracer->last_stop.tid = tracee->tid;
	/* Not while others stand: with 10,000 of them that would take 40 ms. */
	tracer->last_stop.run_ns = tracer->tracees == tracee && !tracee->next
					   ? tracee->run_ns ?: run_time(tracee)
					   : UNKNOWN_NS;
	tracer->last_stop.stopped_since_ns = tracee->stopped_since_ns;
	tracer->last_stop.regs = tracee->regs;
}

int limpet_tracee_detach(struct limpet_tracee *tracee, int error)
{
	if (error != -ESRCH && !tracee->running) {
		limpet_tracee_count_faults(tracee);
		if (limpet_ptrace(PTRACE_DETACH, tracee->tid, NULL, NULL) == 0) {
			note_stop(tracee);
			limpet_step_note(tracee->tid, "%u exchanges, %" PRIu64 " page faults",
					 tracee->exchanges, tracee->faults);
			if (tracee->wait.shortened)
				limpet_timed_wait_returns(tracee->tid);
		} else {
			tracee->running = true;
			error = error ?: -errno;
		}
	}
	/* We must reap a thread that is ending before its parent can. */
	if (error == -ESRCH || tracee->running)
		limpet_tracer_add_stray(tracee->tracer, &(struct limpet_stray){.pid = tracee->pid,
									       .tid = tracee->tid});
	limpet_tracer_release_strays(tracee->tracer);
	tracee_free(tracee);
	return error;
}

/* Instead of being detached, the thread makes the rest of its call, if a stop has cut it short. */
static bool make_rest(struct limpet_tracee *tracee, bool was_hijacked)
{
	struct limpet_tracer *tracer = tracee->tracer;
	const uint64_t until_ns = limpet_monotonic_ns() + LIMPET_TICKS_MOST_NS;
	struct limpet_rest *rest;

	if (tracee->group_stop || tracer->stray_count == LIMPET_STRAYS_MOST)
		return false;
	rest = limpet_rest_new(tracee->pid, tracee->tid, &tracee->regs);
	if (!rest)
		return false;
	if (was_hijacked)
		limpet_rest_use_frame(rest, tracee->gadgets.syscall, tracee->home,
				      limpet_sigreturn_frame_answer(tracee->frame));
	if (limpet_rest_start(rest) < 0)
		return false;
	note_stop(tracee);
	limpet_tracer_add_stray(
		tracer,
		&(struct limpet_stray){.pid = tracee->pid, .tid = tracee->tid, .rest = rest});
	tracee_free(tracee);
	/* It stands for us once more, when it enters the call. */
	while (limpet_rest_is_starting(rest) && limpet_monotonic_ns() < until_ns) {
		sched_yield();
		limpet_tracer_release_strays(tracer);
	}
	return true;
}

int limpet_tracee_release(struct limpet_tracee *tracee)
{
	const uint64_t patience_ns = 10000000000u; /* it may wait long for a processor */
	uint64_t deadline_ns = limpet_monotonic_ns() + patience_ns;
	bool was_hijacked;
	int first = 0;

	if (!tracee)
		return 0;
	if (tracee->running) {
		/* Interrupted already, or in a remote call: only a stopped thread can be
		 * detached.
		 */
		first = tracee->hijacked ? limpet_tracee_halt(tracee, deadline_ns)
					 : limpet_tracee_wait_event(tracee, 0);
		if (!first && !tracee->hijacked)
			first = limpet_tracee_read_registers(tracee) ?: mend(tracee);
	}
	was_hijacked = tracee->hijacked;
	if (!first)
		first = was_hijacked ? limpet_tracee_restore(tracee, deadline_ns)
				     : limpet_tracee_mend_limit(tracee);
	if (!first && make_rest(tracee, was_hijacked))
		return 0;
	return limpet_tracee_detach(tracee, first);
}

/* A signal that has come since the thread was hijacked is delivered when it comes home, where the
 * kernel knows nothing of the call any more. */
static void mend_frame(const struct limpet_tracee *tracee)
{
	struct limpet_proc_status status;

	if (limpet_proc_status_read(tracee->tid, &status) == 0 &&
	    status.handlers_due & ~tracee->signal_mask)
		(void)!limpet_sigreturn_frame_end_call(tracee->pid, tracee->frame, &tracee->regs);
}

int limpet_tracee_abandon(struct limpet_tracee *tracee)
{
	const uint64_t patience_ns = 10000000000u; /* it may wait long for a processor */
	const int error = limpet_tracee_halt(tracee, limpet_monotonic_ns() + patience_ns);

	if (!error)
		mend_frame(tracee);
	return limpet_tracee_detach(tracee, error);
}
