/* What the kernel leaves on a stack for a signal handler: the address of the code that the handler
 * returns to, and above it the registers of what it interrupted. Such a frame is told by both. */
#ifndef LIMPET_INJECTOR_PTRACE_SIGNAL_FRAME_H
#define LIMPET_INJECTOR_PTRACE_SIGNAL_FRAME_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* Of each stack so much is looked at: no handler has more. */
#define LIMPET_SIGNAL_STACK_BYTES (4u << 20)

/* Whether a signal handler that returns to `address` goes back to what it interrupted. */
bool limpet_signal_is_restorer(pid_t pid, uint64_t address);

/* Whether a frame on the stack from `sp` up to the end of its mapping goes back to where `is_there`
 * says. `room` is for LIMPET_SIGNAL_STACK_BYTES. Dead words may look like one; and a stack that
 * cannot be read may hold one: true. */
bool limpet_signal_goes_back(pid_t pid, uint64_t sp, void *room,
			     bool (*is_there)(const void *context, uint64_t pc),
			     const void *context);

#endif
