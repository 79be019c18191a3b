/* Stops one thread of a target, copies its registers and the top of its stack, and releases it at
 * once.
 *
 * A thread is not stopped whose system call a stop would cut short or end (stop_effect.h), or that
 * would stop only when it leaves an uninterruptible sleep: only its state is told. */
#ifndef LIMPET_INJECTOR_STACKS_STACK_COPIER_H
#define LIMPET_INJECTOR_STACKS_STACK_COPIER_H

#include <stdint.h>
#include <sys/types.h>

#include "common/err.h"
#include "injector/proc/stack_memory.h"
#include "injector/stacks/stack_thread.h"
#include "injector/stacks/stack_unwind.h"

struct limpet_target;

/* Copied of each stack, from the stack pointer on. */
#define LIMPET_STACKS_BYTES (256u << 10)

struct limpet_tracer;

struct limpet_stack_copier {
	struct limpet_tracer *tracer;
	const struct limpet_target *target;
	struct limpet_stack_maps maps;
	uint8_t *room;     /* LIMPET_STACKS_BYTES */
	size_t bytes_left; /* for the copies of all threads */
};

/* Fills in all of *ret_thread but its frames, and *ret_copy, whose stack is malloc'ed; without a
 * copy it is NULL, and ret_thread->missing says why. 0; -ESRCH: the thread is gone; -ENOMEM. */
int limpet_stack_copier_copy(struct limpet_stack_copier *copier, pid_t tid,
			     struct limpet_stack_thread *ret_thread,
			     struct limpet_stack_copy *ret_copy) LIMPET_MUST_CHECK;

#endif
