/* The heap of Google's tcmalloc, read from outside: the memory that it manages, by the tree in
 * which it looks up to which span a page belongs. The tree is found by its structure, without
 * symbols. */
#ifndef LIMPET_EXPLAIN_TCMALLOC_H
#define LIMPET_EXPLAIN_TCMALLOC_H

#include <stdbool.h>

#include "explain/heap_ranges.h"
#include "explain/memory_ranges.h"
#include "injector/proc/memory_reader.h"
#include "injector/proc/pages.h"
#include "injector/proc/proc.h"

/* Memory comes from the system by huge pages: mappings of others are aligned otherwise. */
#define LIMPET_TCMALLOC_ALIGN_BYTES ((uint64_t)2 << 20)

/* Begins as all zeros. */
struct limpet_tcmalloc {
	struct limpet_heap_ranges ranges; /* sorted: what the tree covers, mappings that it is in */
	bool is_cut;                      /* there are more, which are not in the list, or may be */
};
void limpet_tcmalloc_done(struct limpet_tcmalloc *tcmalloc);

/* Looks for the tree among the data of the process's modules, by ranges that are UNKNOWN: none is
 * found unless it explains some of them. 0, also if nothing is found; -ENOMEM. */
int limpet_tcmalloc_read(const struct limpet_memory_reader *memory, const struct limpet_maps *maps,
			 struct limpet_pages *pages, const struct limpet_memory_ranges *ranges,
			 struct limpet_tcmalloc *tcmalloc) LIMPET_MUST_CHECK;

/* Reads the tree below this root. Public for tests. */
int limpet_tcmalloc_read_tree(const struct limpet_memory_reader *memory,
			      const struct limpet_maps *maps, uint64_t root,
			      struct limpet_tcmalloc *tcmalloc) LIMPET_MUST_CHECK;
/* Whether the tree's part below this word of its root has an entry for the page at `address`, of a
 * span that contains it. Sets *ret_span to the span's structure. Public for tests. */
bool limpet_tcmalloc_explains(const struct limpet_memory_reader *memory, uint64_t node,
			      uint64_t address, uint64_t *ret_span);

#endif
