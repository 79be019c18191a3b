/* Starting a program under our eyes: stopped at its entry point, its libraries loaded and bound,
 * and not one instruction of its own done. */
#ifndef LIMPET_INJECTOR_PTRACE_LAUNCH_H
#define LIMPET_INJECTOR_PTRACE_LAUNCH_H

#include <sys/types.h>

#include "common/err.h"

struct limpet_tracee;

/* Forks and executes argv[0] (searched in PATH). Call it before signals are set up: the program
 * gets the mask and the dispositions of this moment. On success *ret_tracee stands at the entry
 * point; a 32-bit program, which preflight refuses, before its first instruction. -ENOENT: not
 * found, other -errno of exec: cannot be executed; with words. */
int limpet_launch(char *const argv[], pid_t *ret_pid, struct limpet_tracee **ret_tracee,
		  struct limpet_err *err) LIMPET_MUST_CHECK;

/* Ends a child that may still be traced, and waits for it. One that was waited for is left alone:
 * its number may be another's by now. */
void limpet_launch_end(pid_t pid);

#endif
