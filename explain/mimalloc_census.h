/* Counts the blocks in use in mimalloc's heap, by what it keeps about each of its pages: a page is
 * memory for blocks of one size. Where that is kept is found by its structure, and nothing is
 * counted unless it holds in every checked respect, for nearly all pages. */
#ifndef LIMPET_EXPLAIN_MIMALLOC_CENSUS_H
#define LIMPET_EXPLAIN_MIMALLOC_CENSUS_H

#include "explain/class_tally.h"
#include "explain/mimalloc.h"
#include "injector/proc/pages.h"
#include "injector/proc/proc.h"

/* Of mimalloc 2. 0 or -ENOMEM. */
int limpet_mimalloc_count_segments(const struct limpet_memory_reader *memory,
				   const struct limpet_maps *maps,
				   const struct limpet_mimalloc *mimalloc,
				   struct limpet_class_tally *tally) LIMPET_MUST_CHECK;
/* Of mimalloc 3: all that the maps explain which lead to pages in these arenas. 0 or -ENOMEM. */
int limpet_mimalloc_count_map(const struct limpet_memory_reader *memory,
			      const struct limpet_maps *maps, struct limpet_pages *pages,
			      const struct limpet_mimalloc_arenas *arenas,
			      struct limpet_class_tally *tally) LIMPET_MUST_CHECK;

#endif
