/* One page of mimalloc: memory for blocks of one size. */
#ifndef LIMPET_EXPLAIN_MIMALLOC_PAGE_H
#define LIMPET_EXPLAIN_MIMALLOC_PAGE_H

#include "explain/class_tally.h"
#include "injector/proc/memory_reader.h"

struct limpet_mimalloc_page {
	uint64_t address; /* of its description */
	uint64_t start, end;
	uint64_t block_bytes;
	uint64_t reserved, capacity, used; /* blocks: room for them; of these made; given out */
	uint64_t free;                     /* the first of a list, or 0 */
	/* Blocks that other threads have freed, and that count as given out: the first of a list,
	 * or 0; and one more, in a list of its heap. */
	uint64_t waiting;
	bool is_one_put;
	uint64_t keys[2]; /* by which that list is encoded; 0: it is not */
};

/* Whether this may be a page. `start` and `end` hold its blocks. */
bool limpet_mimalloc_page_is_right(const struct limpet_mimalloc_page *page);

/* How often one that changes is read. */
#define LIMPET_MIMALLOC_TRIES 3u

/* How the pages of a heap are counted. */
struct limpet_mimalloc_count {
	const struct limpet_memory_reader *memory;
	struct limpet_class_tally *tally;
	uint64_t right, wrong; /* pages */
};
/* Adds its blocks in use. False: it changed meanwhile. */
bool limpet_mimalloc_count_page(struct limpet_mimalloc_count *count,
				const struct limpet_mimalloc_page *page);
/* So many pages could not be counted. */
void limpet_mimalloc_count_miss(struct limpet_mimalloc_count *count, uint64_t pages);
/* Nothing that is known was found: there is none, or the time for reading was over. */
void limpet_mimalloc_count_fail(struct limpet_mimalloc_count *count);
/* All pages were read: fails if too many of them were wrong. */
void limpet_mimalloc_count_end(struct limpet_mimalloc_count *count);

/* A number of up to 8 bytes. */
uint64_t limpet_mimalloc_get(const unsigned char *copy, size_t at, size_t bytes);

#endif
