/* Mappings that grow downwards when they are touched below their beginning: MAP_GROWSDOWN, and the
 * main thread's stack.
 *
 * What is mapped in the hole below one ends its growing, and the program, by SIGSEGV. The kernel
 * keeps a gap below each from what it places by itself, so that a neighbour right above is none:
 * that is the ordinary case, and nothing is read for it. */
#ifndef LIMPET_INJECTOR_REMOTE_GROWING_H
#define LIMPET_INJECTOR_REMOTE_GROWING_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "injector/proc/proc.h"

/* Whether what ends at `end` lies in the hole that the next mapping of `maps` may grow into, as far
 * as its limit (RLIMIT_STACK) lets it, 1 GiB at most. False where that cannot be read. */
bool limpet_growing_above(pid_t pid, const struct limpet_maps *maps, uint64_t end);
/* Whether a mapping of so many bytes, where the kernel chooses, comes to lie below one that may
 * grow for all that these say. */
bool limpet_growing_likely(const struct limpet_maps *maps, uint64_t bytes);
/* As limpet_growing_above, where the kernel has chosen the place, by maps that may be old: these
 * are good for a neighbour right above alone. */
bool limpet_growing_above_new(pid_t pid, const struct limpet_maps *old, uint64_t end);

#endif
