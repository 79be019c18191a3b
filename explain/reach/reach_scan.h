/* Reads ranges of a process's memory, the present pages of them, and shows their words. */
#ifndef LIMPET_EXPLAIN_REACH_REACH_SCAN_H
#define LIMPET_EXPLAIN_REACH_REACH_SCAN_H

#include "explain/reach/search_ranges.h"

struct limpet_reach_scan {
	const struct limpet_memory_reader *memory;
	struct limpet_pages *pages; /* which leave out swapped pages */
	/* `count` words from `address` on, in ascending order within a range. 0 or -errno, which
	 * ends the scan. */
	int (*visit)(void *context, const struct limpet_search_range *range, uint64_t address,
		     const uint64_t *words, size_t count);
	void *context;
	uint64_t bytes;   /* out: were read */
	uint64_t missed;  /* out: could not be, of what is there still */
	bool is_spent;    /* out: the reader's budget was too small */
	uint64_t *buffer; /* private */
};
/* Reads these of the ranges whose kind has its bit set. 0, -ENOMEM, or what `visit` returned. */
int limpet_reach_scan(struct limpet_reach_scan *scan, const struct limpet_search_ranges *ranges,
		      unsigned kinds) LIMPET_MUST_CHECK;

#endif
