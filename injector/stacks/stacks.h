/* Where every thread of a live process stands.
 *
 * One thread after the other is stopped for as long as it takes to copy its registers and the top
 * of its stack (stack_copier.h); the copies are unwound afterwards, by a process without rights
 * (stack_reader.h). Nothing is loaded into the target, and nothing in it is changed. */
#ifndef LIMPET_INJECTOR_STACKS_STACKS_H
#define LIMPET_INJECTOR_STACKS_STACKS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "common/err.h"
#include "injector/elf/modules.h"
#include "injector/stacks/stack_thread.h"

struct limpet_stacks {
	struct limpet_modules modules;
	struct limpet_stack_thread *list; /* by thread id */
	size_t count;
	/* The process that unwinds ended in libunwind: from there on it went without. */
	bool without_libunwind;
};

struct limpet_target;
/* `only`: that thread alone, 0: all. A thread that ends meanwhile is left out. The caller has seen
 * that preflight does not refuse to stop threads (limpet_preflight_options.stops_only). -ESRCH: the
 * process, or that thread, is gone; -ESTALE: it executes another program; -EALREADY: another limpet
 * is at work in it; -ENOMEM. */
int limpet_stacks_read(const struct limpet_target *target, pid_t only, struct limpet_stacks *ret,
		       struct limpet_err *err) LIMPET_MUST_CHECK;
void limpet_stacks_done(struct limpet_stacks *stacks);

#endif
