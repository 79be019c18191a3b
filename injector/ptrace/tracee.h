/* One thread of the target under ptrace: stop it, examine it, hijack it, release it.
 *
 * Uses only PTRACE_SEIZE and PTRACE_INTERRUPT, without PTRACE_O_EXITKILL: if limpet dies, the
 * kernel detaches the thread. A hijacked thread has a signal frame with its former state on its own
 * stack, below the red zone, and all foreign code that it runs ends there: it resumes by itself if
 * limpet is gone. Normally limpet restores it by PTRACE_SETREGSET in an event stop, after which the
 * kernel restarts an interrupted system call as if there had been no stop.
 *
 * All calls come from the one thread that seized, the tracer's (tracer.h). Every wait has a
 * deadline (CLOCK_MONOTONIC ns). */
#ifndef LIMPET_INJECTOR_PTRACE_TRACEE_H
#define LIMPET_INJECTOR_PTRACE_TRACEE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/user.h>

#include "common/err.h"
#include "injector/ptrace/tracer.h"

struct limpet_tracee;

/* Seizes and interrupts a thread. On success it is in an event stop and its registers are read.
 * -ESRCH: gone; -EPERM: traced by another process, or not allowed; -ETIMEDOUT: did not stop (D
 * state), and is a stray now (limpet_tracer_release_strays), or a process of the program's own
 * traces it for the moment. */
int limpet_tracee_stop(struct limpet_tracer *tracer, pid_t pid, pid_t tid, uint64_t deadline_ns,
		       struct limpet_tracee **ret) LIMPET_MUST_CHECK;
/* The same in two steps, to stop many threads at once. A thread that was asked will stop soon, and
 * must be awaited. */
struct limpet_timed_wait;
/* `wait`: what limpet_timed_wait_probe() found before any thread was asked; NULL: nothing. */
int limpet_tracee_request_stop(struct limpet_tracer *tracer, pid_t pid, pid_t tid,
			       const struct limpet_timed_wait *wait,
			       struct limpet_tracee **ret) LIMPET_MUST_CHECK;
/* On failure it is released or becomes a stray, and is freed. */
int limpet_tracee_await(struct limpet_tracee *tracee, uint64_t deadline_ns) LIMPET_MUST_CHECK;
/* Makes a stopped thread continue at another address. -EBUSY: it is in a system call. */
int limpet_tracee_move(struct limpet_tracee *tracee, uint64_t pc) LIMPET_MUST_CHECK;
/* Adopts the stopped thread of a program that this process has started, and traces already (limpet
 * run). */
int limpet_tracee_adopt(struct limpet_tracer *tracer, pid_t pid,
			struct limpet_tracee **ret) LIMPET_MUST_CHECK;
/* Releases the thread; if it was hijacked, restores its state first. A call that the stop has cut
 * short is finished by the thread as a stray, which is not held. Frees. NULL is allowed.
 * Returns 0 or -errno (-ESRCH: it is gone). */
int limpet_tracee_release(struct limpet_tracee *tracee);

/* Detaches a running hijacked thread as it is: it resumes by the sigreturn frame. Frees. */
int limpet_tracee_abandon(struct limpet_tracee *tracee);

/* To be called in other waits for the thread: looks whether it is frozen. */
bool limpet_tracee_probe_frozen(const struct limpet_tracee *tracee);

pid_t limpet_tracee_tid(const struct limpet_tracee *tracee);
const struct user_regs_struct *limpet_tracee_regs(const struct limpet_tracee *tracee);
/* The stopped thread's registers for vectors and floating point. Returns how many bytes; 0: they
 * could not be read, or did not fit. */
size_t limpet_tracee_read_vectors(const struct limpet_tracee *tracee, void *ret, size_t bytes);
/* It is, or may be, in the critical section of a restartable sequence, where it must not be
 * hijacked. Before Linux 5.13 the kernel does not tell: then any thread that is not in a system
 * call. */
bool limpet_tracee_in_rseq(const struct limpet_tracee *tracee);
/* It runs 32-bit code, as a 64-bit program may for a while: it must not be hijacked. */
bool limpet_tracee_runs_32_bit(const struct limpet_tracee *tracee);
/* The thread's system calls are dispatched to a handler of SIGSYS (syscall user dispatch): so would
 * be ours. False if the kernel cannot tell (before Linux 6.4). */
bool limpet_tracee_dispatches(const struct limpet_tracee *tracee);
/* Code in the target that a hijacked thread runs. */
struct limpet_tracee_gadgets {
	uint64_t syscall;  /* `syscall; ret` */
	uint64_t restorer; /* `mov $15, %eax|%rax; syscall`: rt_sigreturn; 0: none (musl links it
			      only into programs that handle signals) */
	uint64_t pop_rax;  /* `pop %rax; ret`: used to load the number from the stack */
};
/* Finds them in `bytes` bytes of code at `address`; fields that are set already are kept. Returns
 * whether a sigreturn frame can be built now. */
bool limpet_tracee_find_gadgets(const uint8_t *code, size_t bytes, uint64_t address,
				struct limpet_tracee_gadgets *gadgets);

/* Reads a word of the stopped thread's memory. A stack that may grow to there does, as if the
 * thread had touched it. -EIO, -EFAULT: there is no memory. */
int limpet_tracee_touch(const struct limpet_tracee *tracee, uint64_t address) LIMPET_MUST_CHECK;
/* Hijacks the stopped thread: saves its whole state, blocks its signals, writes the sigreturn
 * frame. `stack_low` is the lowest address that its stack may use. -ENOSPC: too little stack;
 * -ESTALE: the process executes another program by now; -EACCES: the thread may not access most
 * memory (pkeys(7)): neither it nor the kernel for it could use the frame. */
int limpet_tracee_hijack(struct limpet_tracee *tracee, const struct limpet_tracee_gadgets *gadgets,
			 uint64_t stack_low) LIMPET_MUST_CHECK;
/* Stack pointer at which the sigreturn frame begins (for struct limpet_boot.exit_sp). */
uint64_t limpet_tracee_sigreturn_sp(const struct limpet_tracee *tracee);
/* Unused stack memory of the hijacked thread, at least 256 bytes, for arguments of system calls. */
uint64_t limpet_tracee_spare(const struct limpet_tracee *tracee);

/* Makes a system call on the hijacked thread. Returns 0 if the call was made; *ret_answer has its
 * result. So a local failure never looks like a remote one. */
int limpet_tracee_syscall(struct limpet_tracee *tracee, long number, const uint64_t args[6],
			  uint64_t deadline_ns, int64_t *ret_answer) LIMPET_MUST_CHECK;
/* The same for the last one before the thread is released, which takes a stop less. Not for a call
 * that a signal would interrupt. */
int limpet_tracee_last_syscall(struct limpet_tracee *tracee, long number, const uint64_t args[6],
			       uint64_t deadline_ns, int64_t *ret_answer) LIMPET_MUST_CHECK;
/* A maker: a thread that exists while the hijacked one waits in clone(2), as in vfork(2), for its
 * end. It shares everything with the process, and makes system calls for us, all signals blocked;
 * it may then take a descriptor table of its own. It is traced, has executed nothing, and uses only
 * stack memory below the hijacked thread's. If limpet dies, it ends by itself, and only then the
 * hijacked thread goes on. *ret_answer: what the kernel answered if it made none (-EAGAIN: a limit
 * on threads); *ret is not set then. */
int limpet_tracee_begin_maker(struct limpet_tracee *tracee, uint64_t deadline_ns,
			      struct limpet_tracee **ret, int64_t *ret_answer) LIMPET_MUST_CHECK;
struct limpet_tracee_call {
	long number;
	uint64_t args[6];
};
/* Has the maker make these calls, at most six, without a stop between them, whatever their answers,
 * also if limpet dies. Then it stands at its exit, where its descriptors and memory are still
 * there, and can make no other. -ESRCH: the process is ending. */
int limpet_tracee_maker_calls(struct limpet_tracee *maker, const struct limpet_tracee_call *calls,
			      size_t count, uint64_t deadline_ns) LIMPET_MUST_CHECK;
/* Lets it end, and the hijacked thread go on as soon as that runs (limpet_tracee_run). */
int limpet_tracee_let_end(struct limpet_tracee *maker, uint64_t deadline_ns) LIMPET_MUST_CHECK;
/* Ends it, if it is not ending yet, waits until it is gone, and frees it. */
int limpet_tracee_end_maker(struct limpet_tracee *maker, uint64_t deadline_ns) LIMPET_MUST_CHECK;
/* Lets the hijacked thread run at `pc` with the given stack and first argument. */
int limpet_tracee_run(struct limpet_tracee *tracee, uint64_t pc, uint64_t sp, uint64_t argument,
		      uint64_t deadline_ns) LIMPET_MUST_CHECK;
/* To be called while it runs there: a stop of the whole target (SIGSTOP, Ctrl-Z) that reaches this
 * thread must not keep it from finishing. -EPROTO: it has faulted, and stands there. */
int limpet_tracee_keep_going(struct limpet_tracee *tracee) LIMPET_MUST_CHECK;
/* Sleeps while *word, a futex, is 0 and no tracee has stopped, for `limit_ns` at most. It is
 * LIMPET_TRACEE_STOPPED for a moment when one has. */
#define LIMPET_TRACEE_STOPPED 2u
void limpet_tracee_sleep_on(uint32_t *word, uint64_t limit_ns);
bool limpet_tracee_is_running(const struct limpet_tracee *tracee);
/* Stops it again. */
int limpet_tracee_halt(struct limpet_tracee *tracee, uint64_t deadline_ns) LIMPET_MUST_CHECK;

#endif
