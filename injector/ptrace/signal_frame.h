/* Recognizes what the kernel pushes on a stack for a signal handler: the address of the code to
 * which the handler returns (the restorer), and above it the registers of the interrupted code.
 * Both are checked. */
#ifndef LIMPET_INJECTOR_PTRACE_SIGNAL_FRAME_H
#define LIMPET_INJECTOR_PTRACE_SIGNAL_FRAME_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "injector/proc/stack_memory.h"

/* How much of each stack is examined: no handler uses more. */
#define LIMPET_SIGNAL_STACK_BYTES (4u << 20)

/* Whether a function that returns to `address` is a signal handler, which returns to the code that
 * it interrupted. */
bool limpet_signal_is_restorer(pid_t pid, uint64_t address);

/* Whether a frame on the stack, from `sp` on to where limpet_stack_read() ends, returns to an
 * address for which `is_there` is true. `maps` may be NULL. `room` has LIMPET_SIGNAL_STACK_BYTES.
 * Stale words can look like such a frame. Also true if the stack cannot be read, since it may
 * contain one. */
bool limpet_signal_goes_back(pid_t pid, const struct limpet_stack_maps *maps, uint64_t sp,
			     void *room, bool (*is_there)(const void *context, uint64_t pc),
			     const void *context);

#endif
