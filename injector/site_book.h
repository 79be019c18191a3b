/* The sites of a capture: a row of figures for each stack that allocates, of the current period,
 * and what it holds since the start. One thread. */
#ifndef LIMPET_INJECTOR_SITE_BOOK_H
#define LIMPET_INJECTOR_SITE_BOOK_H

#include <stddef.h>
#include <stdint.h>

struct limpet_site {
	uint32_t node;
	uint32_t period; /* the book's own: which one the figures are of */
	uint64_t allocations, allocated_bytes, frees, freed_bytes, temporary;
	uint64_t untracked, untracked_bytes;
	uint64_t live_bytes; /* since the start, as this alone */
	uint64_t mmaps, mmap_bytes, unmapped_parts, unmapped_bytes;
};

struct limpet_site_book;

/* NULL: no memory. */
struct limpet_site_book *limpet_site_book_new(void);
void limpet_site_book_free(struct limpet_site_book *book);

/* The site of a node, entered when it is new, its figures of the period at zero with its first
 * event in it. Nodes are small numbers. NULL: no memory. Valid until the next call. */
struct limpet_site *limpet_site_book_find(struct limpet_site_book *book, uint32_t node);

/* Orders those that were looked up in this period by node. Answers their number. */
size_t limpet_site_book_sort(struct limpet_site_book *book);
/* Of these, in that order. */
const struct limpet_site *limpet_site_book_at(const struct limpet_site_book *book, size_t index);
/* Begins another period. */
void limpet_site_book_turn(struct limpet_site_book *book);

/* The node that holds most of what was allocated since the start, as of the last period's end, and
 * what it holds now; 0: none. */
uint32_t limpet_site_book_growing(const struct limpet_site_book *book, uint64_t *ret_bytes);

#endif
