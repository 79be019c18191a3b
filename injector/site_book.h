/* The sites of a capture: a row of figures for each stack that allocates, of the current period,
 * and what it holds since the start. One thread. */
#ifndef LIMPET_INJECTOR_SITE_BOOK_H
#define LIMPET_INJECTOR_SITE_BOOK_H

#include <stddef.h>
#include <stdint.h>

struct limpet_site {
	/* The first cache line: what most events touch. */
	uint32_t node;
	uint32_t period; /* the book's own: which one the figures are of */
	uint64_t allocations, allocated_bytes, frees, freed_bytes, temporary;
	uint64_t live_bytes; /* since the start, as this alone */
	uint64_t untracked, untracked_bytes;
	uint64_t mmaps, mmap_bytes, unmapped_parts, unmapped_bytes;
} __attribute__((aligned(128)));

struct limpet_site_book;

/* NULL: no memory. */
struct limpet_site_book *limpet_site_book_new(void);
void limpet_site_book_free(struct limpet_site_book *book);

/* Number of the site of a node, from 1, entered when it is new; it stays. Nodes are small numbers.
 * 0: no memory. */
uint32_t limpet_site_book_number(struct limpet_site_book *book, uint32_t node);
/* The site with that number, its figures of the period at zero with its first event in it. Valid
 * until the next new site. */
struct limpet_site *limpet_site_book_touch(struct limpet_site_book *book, uint32_t number);
uint32_t limpet_site_book_node(const struct limpet_site_book *book, uint32_t number);
/* Brings near what _number and _touch will want for an event soon: by node, or by number. */
void limpet_site_book_prefetch_node(const struct limpet_site_book *book, uint32_t node);
void limpet_site_book_prefetch(const struct limpet_site_book *book, uint32_t number);

/* Sites that were touched in this period. */
size_t limpet_site_book_touched(const struct limpet_site_book *book);

/* Orders those that were touched in this period by node. Answers their number. */
size_t limpet_site_book_sort(struct limpet_site_book *book);
/* Of these, in that order. */
const struct limpet_site *limpet_site_book_at(const struct limpet_site_book *book, size_t index);
/* Begins another period. */
void limpet_site_book_turn(struct limpet_site_book *book);

/* The node that holds most of what was allocated since the start, as of the last period's end, and
 * what it holds now; 0: none. */
uint32_t limpet_site_book_growing(const struct limpet_site_book *book, uint64_t *ret_bytes);

#endif
