/* Which pages of a process's memory there are: present, or swapped out. A page that was never
 * touched is neither, and programs map terabytes of them (the shadow memory of a sanitizer).
 *
 * The process runs meanwhile: what is named may be gone by the time it is read, and what comes
 * later is not named. Pages that hold nothing but zeros for the reason that they were only ever
 * read may be left out. */
#ifndef LIMPET_INJECTOR_PROC_PAGES_H
#define LIMPET_INJECTOR_PROC_PAGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/err.h"

#define LIMPET_PAGES_RANGES 256u

enum limpet_pages_way {
	LIMPET_PAGES_ASK, /* PAGEMAP_SCAN, Linux 6.7, which skips what has no page tables; where it
			     is not there, the other way */
	LIMPET_PAGES_READ /* an entry of the pagemap for each page, there or not: some seconds for a
			     terabyte. What /proc/PID/smaps says is empty is left out, if large */
};

struct limpet_page_range {
	uint64_t start, end;
};

struct limpet_pages;
/* As the process is now: for one pass over its memory. */
int limpet_pages_new(pid_t pid, enum limpet_pages_way way,
		     struct limpet_pages **ret) LIMPET_MUST_CHECK;
void limpet_pages_free(struct limpet_pages *pages);
/* From here on what is swapped out is left out, too. */
void limpet_pages_leave_out_swapped(struct limpet_pages *pages);
/* Whether the kernel can be asked, as far as it was tried: a mapping may then have any size. */
bool limpet_pages_asks(const struct limpet_pages *pages);

/* Looks at the first part of a mapping, [start, end), for some milliseconds at most. `own`: of a
 * file that is mapped privately only what the process has written to. Answers how many ranges of
 * `ret` are filled in, in the order of addresses, and up to where it has looked, which is always
 * beyond `start`. -errno: nothing is known of that part. */
int limpet_pages_next(struct limpet_pages *pages, uint64_t start, uint64_t end, bool own,
		      struct limpet_page_range ret[LIMPET_PAGES_RANGES],
		      uint64_t *ret_at) LIMPET_MUST_CHECK;

/* How much of [start, start + bytes) is present, as the process's page tables have it: what counts
 * for its RSS. -errno: that cannot be read. */
int limpet_pages_count(pid_t pid, uint64_t start, uint64_t bytes,
		       uint64_t *ret_bytes) LIMPET_MUST_CHECK;

#endif
