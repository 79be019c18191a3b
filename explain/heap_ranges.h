/* The memory of an allocator or a runtime, as ranges of addresses: its heap, and its own tables. */
#ifndef LIMPET_EXPLAIN_HEAP_RANGES_H
#define LIMPET_EXPLAIN_HEAP_RANGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"

struct limpet_heap_range {
	uint64_t start, end;
	bool is_table;
};

/* Begins as all zeros. */
struct limpet_heap_ranges {
	struct limpet_heap_range *list;
	size_t count, capacity;
};
void limpet_heap_ranges_done(struct limpet_heap_ranges *ranges);

/* Adds one behind the others, wherever it lies. 0 or -ENOMEM. */
int limpet_heap_ranges_add(struct limpet_heap_ranges *ranges, uint64_t start, uint64_t end,
			   bool is_table) LIMPET_MUST_CHECK;
/* Sorts by address. */
void limpet_heap_ranges_sort(struct limpet_heap_ranges *ranges);
/* The range that contains this address, or NULL. Of sorted ranges without overlaps. */
const struct limpet_heap_range *limpet_heap_ranges_find(const struct limpet_heap_ranges *ranges,
							uint64_t address);

#endif
