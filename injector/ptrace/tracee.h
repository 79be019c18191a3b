/* One thread of the target under ptrace: stop it, look, hijack it, let it go.
 *
 * SEIZE and INTERRUPT only, no PTRACE_O_EXITKILL: if limpet dies, the kernel lets the thread go. A
 * hijacked thread has a signal frame of its old state prepared on its own stack, below the red
 * zone, and every foreign instruction it runs leads there in the end: it finds its way home without
 * us. The ordinary way home is SETREGSET at an event stop, by which the kernel restarts an
 * interrupted system call as if there had been no stop.
 *
 * All calls come from the one thread that seized. Every wait has a deadline (CLOCK_MONOTONIC ns).
 * SIGCHLD must be blocked (limpet_tracee_setup). */
#ifndef LIMPET_INJECTOR_PTRACE_TRACEE_H
#define LIMPET_INJECTOR_PTRACE_TRACEE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/user.h>

#include "common/err.h"

struct limpet_tracee;

/* Once per process, before anything else here. */
int limpet_tracee_setup(void);

/* Seizes and interrupts. On success the thread stands in an event stop and its registers are read.
 * -ESRCH: gone; -EPERM: traced by another, or not allowed; -ETIMEDOUT: did not stop (D state):
 * a stray. */
int limpet_tracee_stop(pid_t pid, pid_t tid, uint64_t deadline_ns,
		       struct limpet_tracee **ret) LIMPET_MUST_CHECK;
/* The same in two steps, so that many can be on their way at once. One that was asked is not
 * running for long: it has to be awaited. */
int limpet_tracee_ask(pid_t pid, pid_t tid, struct limpet_tracee **ret) LIMPET_MUST_CHECK;
/* On failure it is let go, or a stray, and freed. */
int limpet_tracee_await(struct limpet_tracee *tracee, uint64_t deadline_ns) LIMPET_MUST_CHECK;
/* Around asking several while others stand: one that runs yet may execute another program, which
 * waits for these to end and to be reaped, and meanwhile nobody can be asked. */
void limpet_tracee_many(bool begin);
/* Has a stopped thread go on elsewhere: with -EBUSY not from within a system call. */
int limpet_tracee_move(struct limpet_tracee *tracee, uint64_t pc) LIMPET_MUST_CHECK;
/* Adopts a thread that this process traces already and that stands in a stop (limpet run). */
int limpet_tracee_adopt(pid_t pid, pid_t tid, struct limpet_tracee **ret) LIMPET_MUST_CHECK;
/* Lets go; if the thread was hijacked its state is put back first. Frees. NULL is allowed. Answers
 * 0 or -errno (-ESRCH: it is gone). */
int limpet_tracee_release(struct limpet_tracee *tracee);

/* Lets a running hijacked thread go as it is: it finds its way home by the prepared frame. Frees.
 */
int limpet_tracee_abandon(struct limpet_tracee *tracee);

/* Threads that could not be stopped in time (in D state) stay traced until they come out of the
 * kernel. To be called now and then, so that they do not stand still then; and how many there are
 * left. */
void limpet_tracee_release_strays(void);
size_t limpet_tracee_strays(void);
/* Nobody is to be stopped for a while: as soon as none is held the watchdog, which has come with
 * the first, goes (injector/ptrace/watchdog.h). */
void limpet_tracee_rest(void);

pid_t limpet_tracee_tid(const struct limpet_tracee *tracee);
const struct user_regs_struct *limpet_tracee_regs(const struct limpet_tracee *tracee);
/* Stopped inside a system call that the kernel will restart or end with EINTR. */
bool limpet_tracee_in_syscall(const struct limpet_tracee *tracee);
/* The target as a whole is stopped (SIGSTOP, Ctrl-Z). */
bool limpet_tracee_in_group_stop(const struct limpet_tracee *tracee);
/* In a restartable sequence's critical section: no place to hijack. */
bool limpet_tracee_in_rseq(const struct limpet_tracee *tracee);
/* System calls of the thread are handed to a handler of SIGSYS (syscall user dispatch): ours would
 * be, too. False where the kernel cannot tell (before Linux 6.4). */
bool limpet_tracee_dispatches(const struct limpet_tracee *tracee);
/* The longest time from a thread leaving its own code to being back in it, of all that were let go
 * since the last call of this; 0: none. A thread that was stopped again before it had come to run
 * is away from the first stop to the end of the last. */
uint64_t limpet_tracee_take_longest_stop_ns(void);
/* One that was made by other means. */
void limpet_tracee_note_stop_ns(uint64_t stop_ns);

/* Code in the target that a hijacked thread runs. */
struct limpet_tracee_gadgets {
	uint64_t syscall;  /* `syscall; ret` */
	uint64_t restorer; /* `mov $15, %eax|%rax; syscall`: rt_sigreturn; 0: none (musl links it
			    * only into programs that handle signals) */
	uint64_t pop_rax;  /* `pop %rax; ret`: then the number comes from the stack */
};
/* Finds them in `bytes` bytes of code that stand at `address`; fields that are set stay. Answers
 * whether there is a way home now. */
bool limpet_tracee_find_gadgets(const uint8_t *code, size_t bytes, uint64_t address,
				struct limpet_tracee_gadgets *gadgets);

/* Hijacks the stopped thread: saves its whole state, blocks its signals, writes the frame that
 * leads home. `stack_low` is the lowest address that its stack may use. -ENOSPC: too little stack;
 * -ESTALE: another program runs there by now. */
int limpet_tracee_hijack(struct limpet_tracee *tracee, const struct limpet_tracee_gadgets *gadgets,
			 uint64_t stack_low) LIMPET_MUST_CHECK;
/* Stack pointer at which the frame that leads home begins (for struct limpet_boot.exit_sp). */
uint64_t limpet_tracee_sigreturn_sp(const struct limpet_tracee *tracee);
/* Free stack memory of the hijacked thread, at least 256 bytes, for arguments of system calls. */
uint64_t limpet_tracee_spare(const struct limpet_tracee *tracee);

/* A system call by the hijacked thread. The answer 0 here says that it was made; what it answered
 * is in *ret_answer: a local failure never looks like a remote one. */
int limpet_tracee_syscall(struct limpet_tracee *tracee, long number, const uint64_t args[6],
			  uint64_t deadline_ns, int64_t *ret_answer) LIMPET_MUST_CHECK;
/* Sets the hijacked thread going at `pc` with the given stack and first argument, and stops it
 * behind the first system call that it makes there; its answer is in *ret_answer. */
int limpet_tracee_run(struct limpet_tracee *tracee, uint64_t pc, uint64_t sp, uint64_t argument,
		      uint64_t deadline_ns, int64_t *ret_answer) LIMPET_MUST_CHECK;
/* On from there. */
int limpet_tracee_go_on(struct limpet_tracee *tracee) LIMPET_MUST_CHECK;
/* To be called while it runs there: a stop of the whole target (SIGSTOP, Ctrl-Z) that reaches this
 * thread must not keep it from finishing. -EPROTO: it has run into a fault and stands there. */
int limpet_tracee_keep_going(struct limpet_tracee *tracee) LIMPET_MUST_CHECK;
bool limpet_tracee_is_running(const struct limpet_tracee *tracee);
/* Stops it again. */
int limpet_tracee_halt(struct limpet_tracee *tracee, uint64_t deadline_ns) LIMPET_MUST_CHECK;

/* For tests: called at every ptrace, remote-call and write step with its name; NULL: none. */
extern void (*limpet_tracee_fault_point)(const char *step);
static inline void limpet_fault_point(const char *step)
{
	if (limpet_tracee_fault_point)
		limpet_tracee_fault_point(step);
}

#endif
