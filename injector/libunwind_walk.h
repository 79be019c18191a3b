/* A second opinion on a stopped thread's stack: libunwind's remote unwinder.
 *
 * libunwind-ptrace reads one word a system call and maps files; here it gets accessors over what
 * was copied in bulk (stack) and what stands in the target's memory (unwind sections), so that a
 * thread is not kept standing. */
#ifndef LIMPET_INJECTOR_LIBUNWIND_WALK_H
#define LIMPET_INJECTOR_LIBUNWIND_WALK_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/user.h>

#include "common/unwind_walk.h"
#include "injector/modules.h"

/* Program counters, innermost first; answers their number or -errno. *ret_complete: the unwinder
 * saw the end of the stack in a root function (no caller's address left), and not merely no way on.
 */
int limpet_libunwind_walk(pid_t pid, const struct limpet_modules *modules,
			  const struct user_regs_struct *regs, const struct limpet_walk_copy *stack,
			  uint64_t *ret_pcs, unsigned max, bool *ret_complete);

#endif
