/* Groups the blocks of a graph that are not held by state, and by type or size. */
#ifndef LIMPET_EXPLAIN_REACH_LEAKS_SITES_H
#define LIMPET_EXPLAIN_REACH_LEAKS_SITES_H

#include "explain/reach/leaks.h"
#include "explain/reach/reach_marks.h"
#include "injector/proc/memory_reader.h"

enum limpet_leak_state limpet_leaks_state_of(const struct limpet_reach_graph *graph, uint32_t block,
					     bool is_exact);
/* Sums and sites; `is_exact`: what is lost is definitely lost. 0, -ENOMEM, or -errno of /proc. */
int limpet_leaks_sites_add(const struct limpet_target *target,
			   const struct limpet_memory_reader *memory,
			   const struct limpet_reach_graph *graph, bool is_exact,
			   struct limpet_leaks *leaks) LIMPET_MUST_CHECK;

#endif
