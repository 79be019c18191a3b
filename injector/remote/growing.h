/* Mappings that grow downwards when memory below their start is touched: MAP_GROWSDOWN, and the
 * main thread's stack.
 *
 * A mapping made in the hole below such memory keeps it from growing, and SIGSEGV ends the program.
 * The kernel keeps a gap between memory that can grow and mappings that it places itself, so a
 * mapping with a direct neighbour above is safe, and so is one that is far enough below. */
#ifndef LIMPET_INJECTOR_REMOTE_GROWING_H
#define LIMPET_INJECTOR_REMOTE_GROWING_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "injector/proc/proc.h"

/* Whether a mapping that ends at `end` is in the hole into which the next mapping of `maps` may
 * grow, as far as its limit (RLIMIT_STACK) allows, 1 GiB at most. False if this cannot be read. */
bool limpet_growing_above(pid_t pid, const struct limpet_maps *maps, uint64_t end);
/* Whether memory of the process that grows can grow to this size, at most LIMPET_WINDOW_BYTES, and
 * the kernel keeps as much free below it. */
bool limpet_growing_reaches(pid_t pid, uint64_t bytes);

#endif
