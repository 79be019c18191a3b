/* The confined process that unwinds copies of stacks (stack_unwind.h): without rights, files and
 * names of files, with bounded time and memory (confine.h). It is forked, so that it has the copies
 * already. One thread. */
#ifndef LIMPET_INJECTOR_STACKS_STACK_READER_H
#define LIMPET_INJECTOR_STACKS_STACK_READER_H

#include "injector/stacks/stack_thread.h"
#include "injector/stacks/stack_unwind.h"

/* Unwinds the copies of `count` threads, and fills in their frames. A copy without a stack is left
 * out. If the process ends, another one goes on without libunwind, once. 0; 1: that has happened;
 * -ENOMEM. */
int limpet_stack_reader_run(struct limpet_stack_scene *scene,
			    const struct limpet_stack_copy *copies,
			    struct limpet_stack_thread *threads, size_t count) LIMPET_MUST_CHECK;

#endif
