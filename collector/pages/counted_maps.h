/* The mappings, and those whose pages are recorded: anonymous memory, shared memory, and what a
 * process has written to of files that it maps privately. Pages of files are left out: they are the
 * page cache's, and a fault brings several of them. */
#ifndef LIMPET_COLLECTOR_PAGES_COUNTED_MAPS_H
#define LIMPET_COLLECTOR_PAGES_COUNTED_MAPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"
#include "injector/proc/proc.h"

struct limpet_counted_map {
	uint64_t start, end;
	bool counts; /* its pages are recorded */
	bool own;    /* of a file: only the pages that the process has written to */
	bool writable;
	bool executable; /* and anonymous: JIT-compiled code */
};
/* Begins as all zeros; sorted. */
struct limpet_counted_maps {
	struct limpet_counted_map *list;
	size_t count, capacity;
};
void limpet_counted_maps_done(struct limpet_counted_maps *maps);
/* Replaces the list. 0 or -ENOMEM: the list is cut short. */
int limpet_counted_maps_set(struct limpet_counted_maps *maps,
			    const struct limpet_maps *all) LIMPET_MUST_CHECK;
/* NULL: the address was not mapped then. */
const struct limpet_counted_map *limpet_counted_maps_find(const struct limpet_counted_maps *maps,
							  uint64_t address);

#endif
