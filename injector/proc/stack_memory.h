/* Reads a thread's stack from its stack pointer upwards: the rest of the mapping, then private
 * memory without a file that follows without a gap, since a stack may be split into several
 * mappings. It ends where that does: above the first thread's stack, for one, are the libraries.
 *
 * Of a stack, and of other memory of the program that lies above most, such as a heap, parts were
 * never touched. These are not read, since that would give them memory, or wait for whoever serves
 * a userfaultfd; they read as zeros. */
#ifndef LIMPET_INJECTOR_PROC_STACK_MEMORY_H
#define LIMPET_INJECTOR_PROC_STACK_MEMORY_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/err.h"
#include "injector/proc/proc.h"

/* What is known of the process's memory, at some moment before. */
struct limpet_stack_maps {
	struct limpet_maps maps; /* none: everything is read as it is */
	int pagemap;             /* -1: no other mapping than the one with `sp` is read */
};
/* Reads the maps; if they cannot be read, there are none. */
void limpet_stack_maps_read(pid_t pid, struct limpet_stack_maps *ret_maps);
void limpet_stack_maps_done(struct limpet_stack_maps *maps);

/* Returns how many bytes were read, or -errno: none could be. `maps` may be NULL, and need not have
 * a mapping with `sp`: then it is limpet_memory_read_some(). */
ssize_t limpet_stack_read(pid_t pid, const struct limpet_stack_maps *maps, uint64_t sp, void *ret,
			  size_t bytes);

#endif
