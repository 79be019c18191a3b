/* Reads the writable data of a process's modules, where allocators keep their state. */
#ifndef LIMPET_EXPLAIN_DATA_H
#define LIMPET_EXPLAIN_DATA_H

#include "explain/glibc_state.h"
#include "injector/proc/pages.h"
#include "injector/proc/proc.h"

/* What is shared by two parts that follow each other, so that a structure of up to this size is
 * whole in one of them. */
#define LIMPET_DATA_OVERLAP_BYTES ((uint64_t)8192)

/* Calls `scan` with copies of the present pages of .data and .bss of all modules, in parts of up
 * to 1 MiB: `bytes` from `address` on. Of a mapping up to 32 MiB are read, of all up to 256 MiB. 0
 * or -ENOMEM; what cannot be read is left out. */
int limpet_data_read(const struct limpet_memory_reader *memory, const struct limpet_maps *maps,
		     struct limpet_pages *pages,
		     void (*scan)(void *context, const uint64_t *data, size_t bytes,
				  uint64_t address),
		     void *context) LIMPET_MUST_CHECK;
/* Whether all of it is in the data of modules: where a structure may be that is only looked for. */
bool limpet_data_has(const struct limpet_maps *maps, uint64_t address, uint64_t bytes);

#endif
