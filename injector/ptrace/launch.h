/* Starts a program under ptrace. It is stopped at its entry point: its libraries are loaded and
 * bound, and not one instruction of its own has run. */
#ifndef LIMPET_INJECTOR_PTRACE_LAUNCH_H
#define LIMPET_INJECTOR_PTRACE_LAUNCH_H

#include <sys/types.h>

#include "common/err.h"

/* Forks and executes argv[0] (searched in PATH). Call it before signals are set up: the program
 * inherits the present mask and dispositions. On success it is stopped at the entry point, and is
 * to be adopted (limpet_tracee_adopt()); a 32-bit program, which preflight refuses, stands before
 * its first instruction. -ENOENT: not found, other -errno of exec: cannot be executed; with a
 * message. */
int limpet_launch(char *const argv[], pid_t *ret_pid, struct limpet_err *err) LIMPET_MUST_CHECK;

/* Ends a child that may still be traced, and waits for it. Leaves one alone that was already waited
 * for: its pid may be reused. */
void limpet_launch_end(pid_t pid);

#endif
