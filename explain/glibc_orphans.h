/* Heaps of glibc's arenas that are found by themselves, because what leads to them is swapped out
 * or was changing. */
#ifndef LIMPET_EXPLAIN_GLIBC_ORPHANS_H
#define LIMPET_EXPLAIN_GLIBC_ORPHANS_H

#include "injector/proc/memory_reader.h"
#include "injector/proc/proc.h"

struct limpet_glibc_orphan {
	uint64_t start, end;
	uint64_t arena; /* its state's address; 0: the page with the heap's head is swapped out */
};

/* The first heap in the mappings at `from` or above, of the size that malloc uses unless it is told
 * to use huge pages. Returns 1, or 0 if there is none. */
int limpet_glibc_orphan_next(const struct limpet_memory_reader *memory,
			     const struct limpet_maps *maps, uint64_t from,
			     struct limpet_glibc_orphan *ret_orphan);

#endif
