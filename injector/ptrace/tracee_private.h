/* What the files of a tracer and its tracees share: tracer.c has the tracer and its strays;
 * tracee.c stops and releases a thread; tracee_wait.c waits for its stops; tracee_hijack.c hijacks
 * it, and makes calls on it; tracee_maker.c has the maker. */
#ifndef LIMPET_INJECTOR_PTRACE_TRACEE_PRIVATE_H
#define LIMPET_INJECTOR_PTRACE_TRACEE_PRIVATE_H

#include <signal.h>

#include "injector/ptrace/awake.h"
#include "injector/ptrace/tick.h"
#include "injector/ptrace/timed_wait.h"
#include "injector/ptrace/tracee.h"

struct limpet_rest;

struct limpet_tracee {
	struct limpet_tracer *tracer;
	struct limpet_tracee *next, **link; /* list of all tracees of the tracer */
	pid_t pid, tid;
	bool hijacked, moved; /* moved: the registers were changed */
	bool at_syscall;      /* in a syscall-exit stop rather than an event stop */
	bool at_entry;        /* in a syscall-entry stop: the call has not been made yet */
	bool at_clone; /* at_entry, in the stop that told of a maker: see limpet_tracee_run() */
	bool at_exit;  /* a maker, with all but its exit behind it */
	bool running;
	bool group_stop;
	bool examined, is_here;       /* on our own processor: it runs while we sleep */
	bool crowded;                 /* others want that processor, too */
	struct user_regs_struct regs; /* the thread's own */
	uint8_t *xstate;
	size_t xstate_bytes;
	uint64_t signal_mask;
	uint64_t stopped_since_ns; /* 0: adopted, and nobody waits for it yet */
	uint64_t run_ns;           /* run_time(), if this stop continues the last one; else 0 */
	uint64_t home, frame, spare;
	struct limpet_tracee_gadgets gadgets;
	struct limpet_timed_wait wait; /* from before the stop */
	/* For who watches the steps: how often it and limpet have waited for each other, and its
	 * page faults, before the stop and in it. */
	struct limpet_tracee *made_by; /* of a maker, whose are counted there */
	unsigned exchanges;
	uint64_t faults_before, faults;
};

struct limpet_stray {
	pid_t pid, tid;
	uint64_t unstopped_ns;    /* when it was last seen running */
	struct limpet_rest *rest; /* it is not held, but makes the rest of its call */
};

struct limpet_tracer {
	struct limpet_tracee *tracees;
	/* Threads that were interrupted and did not stop in time (D state). Only a stopped thread
	 * can be detached, so they stay traced until they leave their system call; the next look
	 * detaches them. */
	struct limpet_stray strays[LIMPET_STRAYS_MOST];
	size_t stray_count;
	bool at_rest;                 /* limpet_tracer_rest */
	bool many;                    /* limpet_tracer_many */
	struct sigaction kept_action; /* of SIGCHLD, while another one is set */
	/* A program that limpet itself started. Its end is not reaped here: another caller waits
	 * for the exit status. */
	pid_t own_child;
	uint64_t longest_stop_ns;
	uint64_t frozen_deadline_ns; /* limpet_tracer_bound_frozen */
	uint64_t frozen_seen_ns;     /* when a target was last seen frozen */
	/* The thread that was released last: if it is outside of system calls, has the same
	 * registers again and has hardly been on a processor, it did not run in between. */
	struct {
		pid_t tid;
		uint64_t stopped_since_ns, run_ns;
		struct user_regs_struct regs;
	} last_stop;
	struct limpet_tick tick;
	struct limpet_awake awake;
};

/* ---------------------------------------------------------------- tracer.c */

/* waitpid() without waiting. The end of our own child is not reaped. */
pid_t limpet_tracer_poll(const struct limpet_tracer *tracer, pid_t tid, int *ret_status);
/* After the list of tracees has changed. */
void limpet_tracer_note_held(struct limpet_tracer *tracer);
void limpet_tracer_add_stray(struct limpet_tracer *tracer, const struct limpet_stray *stray);
bool limpet_tracer_is_stray(const struct limpet_tracer *tracer, pid_t tid);
void limpet_tracer_watch_ends(struct limpet_tracer *tracer, bool begin);

/* ---------------------------------------------------------------- tracee.c */

/* ptrace(2), as a step (step.h). */
long limpet_ptrace(int request, pid_t tid, void *address, void *data);
int limpet_tracee_new(struct limpet_tracer *tracer, pid_t pid, pid_t tid,
		      struct limpet_tracee **ret);
int limpet_tracee_read_registers(struct limpet_tracee *tracee);
int limpet_tracee_write_registers(const struct limpet_tracee *tracee,
				  struct user_regs_struct *regs);
/* For who watches the steps: adds the page faults of the stop, which ends. */
void limpet_tracee_count_faults(struct limpet_tracee *tracee);
/* Detaches and frees; `error` is an earlier failure, or 0. Returns it, or why it is not detached.
 */
int limpet_tracee_detach(struct limpet_tracee *tracee, int error);
/* Before it goes on: time has gone by since its call was made again. */
int limpet_tracee_mend_limit(struct limpet_tracee *tracee);

/* ---------------------------------------------------------------- tracee_wait.c */

enum limpet_stop_kind {
	LIMPET_STOP_KIND_EVENT,
	LIMPET_STOP_KIND_SYSCALL,
	LIMPET_STOP_KIND_SIGNAL,
	LIMPET_STOP_KIND_OTHER
};

/* A wait that is longer sleeps by a time-out of its own: a tick would wake us in vain. */
#define LIMPET_TICKS_MOST_NS 1000000u

/* Waits for the next stop. Returns -ESRCH if the thread is gone. */
int limpet_tracee_await_stop(struct limpet_tracee *tracee, uint64_t deadline_ns,
			     enum limpet_stop_kind *ret_kind, int *ret_signal);
/* The same, as a step. */
int limpet_tracee_wait_stop(struct limpet_tracee *tracee, uint64_t deadline_ns,
			    enum limpet_stop_kind *ret_kind, int *ret_signal);
/* Continues to the event stop that PTRACE_INTERRUPT asked for. Signals that come first are
 * delivered. */
int limpet_tracee_wait_event(struct limpet_tracee *tracee, uint64_t deadline_ns);
/* A stop that was seen without sleeping leaves its SIGCHLD pending. Taking it saves a useless
 * sleep, and lending for it. Whether there was one. */
bool limpet_tracee_consume_signal(void);

/* ---------------------------------------------------------------- tracee_hijack.c */

/* Below the stack that a hijacked thread or a maker uses, for arguments of system calls. */
#define LIMPET_SPARE_BYTES 512u

int limpet_tracee_resume(struct limpet_tracee *tracee, int request, int signal_number);
/* All signals are blocked but SIGSTOP, which is the program's own: if delivered, it stops the whole
 * target, but does not keep our call from finishing. -EPROTO: a fault in code that cannot fault. */
int limpet_tracee_signal_to_pass(enum limpet_stop_kind kind, int signal_number);
/* Resumes the thread until the next syscall stop. */
int limpet_tracee_to_syscall_stop(struct limpet_tracee *tracee, uint64_t deadline_ns);
/* Resumes it with `regs`, and stops it where it enters the system call. */
int limpet_tracee_enter_syscall(struct limpet_tracee *tracee, struct user_regs_struct *regs,
				uint64_t deadline_ns);
/* Continues from the entry stop of a system call to its exit stop. */
int limpet_tracee_end_call(struct limpet_tracee *tracee, uint64_t deadline_ns);
/* If the thread left a syscall-exit stop, an -ERESTART* in rax would reach the program. So continue
 * to an event stop, where the kernel checks the registers once more before it returns to user mode.
 */
int limpet_tracee_leave_syscall_stop(struct limpet_tracee *tracee, uint64_t deadline_ns);
void limpet_tracee_prepare_syscall(const struct limpet_tracee *tracee, long number,
				   const uint64_t args[6], struct user_regs_struct *regs);
/* The signal mask is restored first: until the registers follow, the thread is still on the way
 * home, and the frame there restores the mask, too. */
int limpet_tracee_restore(struct limpet_tracee *tracee, uint64_t deadline_ns);

#endif
