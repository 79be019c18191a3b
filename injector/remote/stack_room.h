/* Room on the stack of a stopped thread, below its stack pointer. */
#ifndef LIMPET_INJECTOR_REMOTE_STACK_ROOM_H
#define LIMPET_INJECTOR_REMOTE_STACK_ROOM_H

#include <stdbool.h>
#include <stdint.h>

#include "injector/proc/proc.h"
#include "injector/ptrace/tracee.h"

#define LIMPET_STACK_WANTED (24u << 10)

/* Whether the thread stands on the stack that it was given, by the kernel or by what the C library
 * notes about it, and LIMPET_STACK_WANTED bytes of that are left, which *ret_low is the lowest of.
 * The kernel's first stack grows to there if it may. `maps`: from some moment before. */
bool limpet_stack_room_find(pid_t pid, const struct limpet_maps *maps,
			    const struct limpet_tracee *tracee, uint64_t *ret_low);

#endif
