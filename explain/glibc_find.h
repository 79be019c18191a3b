/* Finds the main arenas of glibc's malloc in the writable data of a process's modules. */
#ifndef LIMPET_EXPLAIN_GLIBC_FIND_H
#define LIMPET_EXPLAIN_GLIBC_FIND_H

#include <sys/types.h>

#include "explain/glibc_state.h"
#include "injector/proc/pages.h"
#include "injector/proc/proc.h"

struct limpet_target;

/* Several copies of the C library may be in one process (dlmopen(3)). */
#define LIMPET_GLIBC_COPIES 8u

struct limpet_glibc_found {
	struct limpet_glibc_state mains[LIMPET_GLIBC_COPIES];
	size_t count;
	bool has_parameters;
	struct limpet_glibc_parameters parameters; /* of the copy that uses brk(2) */
	uint64_t brk_start, brk_end;               /* the mappings named [heap]; 0: none */
};

/* What of glibc's own library is there. */
enum limpet_glibc_library {
	LIMPET_GLIBC_NO_LIBRARY,
	LIMPET_GLIBC_LIBRARY,
	LIMPET_GLIBC_LIBRARY_ABSENT /* pages of its data are swapped out */
};
enum limpet_glibc_library limpet_glibc_find_library(const struct limpet_target *target,
						    const struct limpet_memory_reader *memory,
						    const struct limpet_maps *maps);

/* 0, also if nothing is found; -ENOMEM. */
int limpet_glibc_find(const struct limpet_memory_reader *memory, const struct limpet_maps *maps,
		      struct limpet_pages *pages,
		      struct limpet_glibc_found *ret_found) LIMPET_MUST_CHECK;
/* The mappings named [heap] again, which may have grown: sets brk_start and brk_end, or leaves them
 * at 0. */
void limpet_glibc_find_brk(const struct limpet_maps *maps, struct limpet_glibc_found *found);

#endif
