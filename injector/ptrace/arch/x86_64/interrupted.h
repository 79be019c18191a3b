/* A system call that has returned EINTR because its thread was stopped, and for no signal: the
 * registers with which the kernel makes it again (x86-64). */
#ifndef LIMPET_INJECTOR_PTRACE_ARCH_INTERRUPTED_H
#define LIMPET_INJECTOR_PTRACE_ARCH_INTERRUPTED_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/user.h>

#include "injector/ptrace/timed_wait.h"

/* Whether nothing reads the register of the fourth argument, with the value that the call was made
 * with, after a call that returns to `pc`: then it may hold another one. So it is in the C
 * library's functions, and not in a loop with a system call of its own. */
bool limpet_interrupted_spares_limit(pid_t pid, uint64_t pc);

/* Whether the stopped thread has just made a call by the instruction `syscall`: others have numbers
 * of their own (int $0x80). */
bool limpet_interrupted_came_by_syscall(pid_t tid, const struct user_regs_struct *regs);
/* For a thread that stands in an event stop (not a group stop), with its registers. Returns whether
 * these were changed, and are to be written: the kernel then makes the call again, or returns EINTR
 * if a handler runs (ERESTARTNOHAND). `wait`: NULL, or what was known before the stop; once a limit
 * was shortened, wait->shortened is set. Calls nothing but ptrace, and reads /proc without
 * allocating: from handlers, too. */
bool limpet_interrupted_again(pid_t pid, pid_t tid, struct limpet_timed_wait *wait,
			      struct user_regs_struct *regs);
/* The same, for whoever does not know the registers: reads and writes them. */
void limpet_interrupted_mend(pid_t tid, struct limpet_timed_wait *wait);
/* The thread has stood since: with what is left of a shortened limit now. Returns whether it
 * changed. */
bool limpet_interrupted_shorten(const struct limpet_timed_wait *wait,
				struct user_regs_struct *regs);

#endif
