/* The heap of jemalloc 5.3, read from outside: its extents, by the tree in which it looks up to
 * which extent a page belongs. The tree is found by its structure, without symbols. */
#ifndef LIMPET_EXPLAIN_JEMALLOC_H
#define LIMPET_EXPLAIN_JEMALLOC_H

#include <stdbool.h>

#include "explain/memory_ranges.h"
#include "injector/proc/memory_reader.h"
#include "injector/proc/pages.h"

struct limpet_jemalloc_extent {
	uint64_t start, end;
	bool in_use;         /* otherwise its pages are free, and may be present still: */
	bool retained;       /* a purge does not give them back */
	uint64_t free_bytes; /* in use as a slab: of its regions that are free */
	/* In use: the usable size of its blocks, and how many of them are in use or in the cache of
	 * a thread. 0: not known. */
	uint64_t block_bytes;
	uint32_t blocks;
};

/* Begins as all zeros. */
struct limpet_jemalloc {
	struct limpet_jemalloc_extent *list; /* sorted by address */
	size_t count, capacity;
	bool is_cut;   /* there are more, which are not in the list, or may be */
	bool missed;   /* some that are or may be in use are not: they were changing */
	uint64_t root; /* of the tree; 0: none was found */
};
void limpet_jemalloc_done(struct limpet_jemalloc *jemalloc);

/* Leaves *jemalloc empty if no tree explains UNKNOWN ranges. 0 or -ENOMEM. */
int limpet_jemalloc_read(const struct limpet_memory_reader *memory, const struct limpet_maps *maps,
			 struct limpet_pages *pages, const struct limpet_memory_ranges *ranges,
			 struct limpet_jemalloc *jemalloc) LIMPET_MUST_CHECK;
/* The extents of the tree with this root; public for tests. 0 or -ENOMEM. */
int limpet_jemalloc_read_tree(const struct limpet_memory_reader *memory, struct limpet_pages *pages,
			      uint64_t root, struct limpet_jemalloc *jemalloc) LIMPET_MUST_CHECK;
/* The extent that holds this address, or NULL. */
const struct limpet_jemalloc_extent *limpet_jemalloc_find(const struct limpet_jemalloc *jemalloc,
							  uint64_t address);

/* Judges a tree's entry of `page`, with the extent's own words that it points to. Public for tests.
 */
#define LIMPET_JEMALLOC_WORDS 3u
uint64_t limpet_jemalloc_extent_address(uint64_t entry);
bool limpet_jemalloc_judge(uint64_t entry, uint64_t page,
			   const uint64_t words[LIMPET_JEMALLOC_WORDS],
			   struct limpet_jemalloc_extent *ret_extent);

#endif
