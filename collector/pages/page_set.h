/* The pages of a process that count in its resident memory, as limpet knows them: those of the last
 * scan, and those that were touched since.
 *
 * Memory is taken by blocks of 2 MiB of the address space, some 200 bytes for each in which there
 * is a page. One thread. */
#ifndef LIMPET_COLLECTOR_PAGES_PAGE_SET_H
#define LIMPET_COLLECTOR_PAGES_PAGE_SET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"

#define LIMPET_PAGE_SET_PAGE 4096u

struct limpet_page_set;

/* `most_blocks`: no more than this many blocks of 2 MiB. NULL: no memory. */
struct limpet_page_set *limpet_page_set_new(uint32_t most_blocks) LIMPET_MUST_CHECK;
void limpet_page_set_free(struct limpet_page_set *set);
/* Pages in it. */
uint64_t limpet_page_set_count(const struct limpet_page_set *set);

/* A fault on this page, by the stack `node`, at a time in nanoseconds: 1 if the page was there
 * already: then the process had given it back unseen, or the kernel has put another one in its
 * place; 0 if it is new; -ENOMEM. */
int limpet_page_set_touch(struct limpet_page_set *set, uint64_t address, uint32_t node,
			  uint64_t time_ns) LIMPET_MUST_CHECK;

/* A scan: begin, report each range that is present, and end. Where there was a fault after
 * `young_ns`, nothing is taken as gone: pages may have come after the scan of their place. */
void limpet_page_set_scan_begin(struct limpet_page_set *set, uint64_t young_ns);
/* -ENOMEM: there was no room for some of it; the rest is known. */
int limpet_page_set_present(struct limpet_page_set *set, uint64_t start,
			    uint64_t end) LIMPET_MUST_CHECK;
/* Between begin and end: the kernel may have reported the fault on this page without having brought
 * the page yet, so it is not taken as gone. */
void limpet_page_set_expect(struct limpet_page_set *set, uint64_t address);
struct limpet_page_set_changes {
	/* The page was there, and is no more. */
	void (*gone)(void *context, uint64_t page);
	/* The page came without a fault that was reported. `node`: with others of a huge page, to
	 * the fault by this stack; 0: it is not known how. */
	void (*unfaulted)(void *context, uint64_t page, uint32_t node);
	void *context;
};
/* In order of blocks, not of addresses. */
void limpet_page_set_scan_end(struct limpet_page_set *set,
			      const struct limpet_page_set_changes *changes);

#endif
