/* The pages of all heaps of V8 in a process, and which parts of them are not in use: what a walk
 * over objects has to know beside a copy of a page. Read from outside, while the process runs. */
#ifndef LIMPET_EXPLAIN_RUNTIMES_V8_HEAP_H
#define LIMPET_EXPLAIN_RUNTIMES_V8_HEAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"
#include "explain/runtimes/v8_pages.h"
#include "explain/runtimes/v8_walk.h"

struct limpet_maps;

struct limpet_v8_heap_page {
	struct limpet_v8_page page;
	struct limpet_v8_space space; /* its address 0: not found */
	bool is_unused;               /* of the young generation, and nothing was allocated in it */
};

/* Begins as all zeros. */
struct limpet_v8_heap {
	struct limpet_v8_heap_page *pages; /* sorted by address */
	size_t count, capacity;
	uint64_t *areas; /* addresses of what says where objects are being allocated */
	size_t area_count, area_capacity;
	size_t isolates;
};
void limpet_v8_heap_done(struct limpet_v8_heap *heap);

/* Finds them. 0 or -ENOMEM; what cannot be read is left out. */
int limpet_v8_heap_read(const struct limpet_memory_reader *memory, const struct limpet_maps *maps,
			struct limpet_v8_heap *heap) LIMPET_MUST_CHECK;
/* Looks again at pages of the young generation: which of them are in use changes with each
 * collection. */
void limpet_v8_heap_refresh(const struct limpet_memory_reader *memory, struct limpet_v8_heap *heap);
/* The page that has the address; NULL: none. */
const struct limpet_v8_heap_page *limpet_v8_heap_find(const struct limpet_v8_heap *heap,
						      uint64_t address);

/* The parts of a page that are not in use now, sorted; returns their number. */
#define LIMPET_V8_GAPS 8u
size_t limpet_v8_heap_gaps(const struct limpet_memory_reader *memory,
			   const struct limpet_v8_heap *heap, const struct limpet_v8_page *page,
			   struct limpet_v8_gap ret[LIMPET_V8_GAPS]);

#endif
