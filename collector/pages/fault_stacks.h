/* From the registers and the part of the stack of a fault to a node of the trace: walks by unwind
 * tables and frame pointers, and keeps the target's modules and the tree of stacks. One thread. */
#ifndef LIMPET_COLLECTOR_PAGES_FAULT_STACKS_H
#define LIMPET_COLLECTOR_PAGES_FAULT_STACKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "collector/pages/counted_maps.h"
#include "collector/pages/fault_record.h"
#include "collector/record/recorder.h"
#include "collector/stream/module_table.h"
#include "common/err.h"
#include "common/unwind_walk.h"

struct limpet_target;

struct limpet_fault_stacks;

/* Reads the modules of the target. `stack_bytes`: memory for the tree of stacks. The recorder must
 * outlive it. */
int limpet_fault_stacks_new(const struct limpet_target *target, struct limpet_recorder *recorder,
			    uint64_t stack_bytes, struct limpet_fault_stacks **ret,
			    struct limpet_err *err) LIMPET_MUST_CHECK;
void limpet_fault_stacks_free(struct limpet_fault_stacks *stacks);
/* The program has mapped code, or it is time to look: reads the modules again if they changed. */
void limpet_fault_stacks_refresh(struct limpet_fault_stacks *stacks,
				 const struct limpet_maps *maps);

/* The node of the stack of a fault; 0: it is unknown. `maps` tell JIT-compiled code. */
uint32_t limpet_fault_stacks_node(struct limpet_fault_stacks *stacks,
				  const struct limpet_fault_record *fault,
				  const struct limpet_counted_maps *maps);
/* The node of pages whose fault was not seen. */
uint32_t limpet_fault_stacks_unfaulted(struct limpet_fault_stacks *stacks);

/* Faults whose stack was cut short, as more of it than was copied had to be read, or is unknown. */
uint64_t limpet_fault_stacks_truncated(const struct limpet_fault_stacks *stacks);
/* Of these, those for which there was no room. */
uint64_t limpet_fault_stacks_lost(const struct limpet_fault_stacks *stacks);
/* See limpet_module_table_identify(). */
void limpet_fault_stacks_identify_modules(struct limpet_fault_stacks *stacks);
size_t limpet_fault_stacks_sources(const struct limpet_fault_stacks *stacks,
				   const struct limpet_collector_source **ret);

/* Walks the stack of a fault; returns the number of frames in `ret_pcs`, innermost first, as
 * limpet_walk() does. */
uint32_t limpet_fault_walk(const struct limpet_walk_map *map, const struct limpet_walk_cache *cache,
			   const struct limpet_fault_record *fault, uint64_t *ret_pcs, uint32_t max,
			   bool *ret_cut);

#endif
