/* Which pages of a process's memory exist: present, or swapped out. A page that was never touched
 * does not exist, and programs map terabytes of such pages (the shadow memory of a sanitizer).
 *
 * The process runs meanwhile: a page that is reported may be gone when it is read, and a page that
 * is touched later is not reported. Pages that were only ever read, and so hold only zeros, may be
 * left out. */
#ifndef LIMPET_INJECTOR_PROC_PAGES_H
#define LIMPET_INJECTOR_PROC_PAGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/err.h"

struct limpet_target;

#define LIMPET_PAGES_RANGES 256u

enum limpet_pages_way {
	LIMPET_PAGES_SCAN, /* PAGEMAP_SCAN of Linux 6.7, which skips ranges without page tables;
			     LIMPET_PAGES_READ if the kernel lacks it */
	LIMPET_PAGES_READ  /* reads an entry of the pagemap for each page, existing or not: some
			      seconds per terabyte. Large mappings that are empty according to
			      /proc/PID/smaps are left out */
};

struct limpet_page_range {
	uint64_t start, end;
};

struct limpet_pages;
/* The state of the process now, for one pass over its memory. */
int limpet_pages_new(const struct limpet_target *target, enum limpet_pages_way way,
		     struct limpet_pages **ret) LIMPET_MUST_CHECK;
void limpet_pages_free(struct limpet_pages *pages);
/* From here on, also leave out what is swapped out; fail if the pagemap cannot be read, instead of
 * taking pages for existing ones. */
void limpet_pages_leave_out_swapped(struct limpet_pages *pages);
/* From here on, only report what counts in RSS: leave out what is swapped out, and the kernel's
 * page of zeros in each way; fail if the pagemap cannot be read. LIMPET_PAGES_READ: to whom the
 * page numbers are hidden, that page looks like one that is shared after fork(2); in a mapping
 * without shared pages it is left out. */
void limpet_pages_be_exact(struct limpet_pages *pages);
/* Whether PAGEMAP_SCAN works, as far as it was tried: then a mapping may have any size. */
bool limpet_pages_can_scan(const struct limpet_pages *pages);

/* Looks at the first part of a mapping, [start, end), for some milliseconds at most; at pages that
 * are partly in it, as a whole. `own`: of a file that is mapped privately, only what the process
 * has written to. Returns how many ranges it stored in `ret`, in ascending order, and up to which
 * address it looked, which is always beyond `start`. -errno: nothing is known about this part. */
int limpet_pages_next(struct limpet_pages *pages, uint64_t start, uint64_t end, bool own,
		      struct limpet_page_range ret[LIMPET_PAGES_RANGES],
		      uint64_t *ret_at) LIMPET_MUST_CHECK;

/* Whether private pages of [start, end), 64 MiB at most, are shared with other processes since
 * a fork, or this cannot be read. process_vm_readv(2) pins the pages that it reads, and the kernel
 * gives the process a copy of such a page for that, as if it had written to it (Linux 5.19): then
 * read /proc/PID/mem instead. */
bool limpet_pages_are_shared(struct limpet_pages *pages, uint64_t start, uint64_t end);

/* How many bytes of [start, start + bytes) are present in the process's page tables, and so count
 * for its RSS; and how many of these are pages of files, or shared (NULL: not wanted). -errno: this
 * cannot be read. */
int limpet_pages_count(const struct limpet_target *target, uint64_t start, uint64_t bytes,
		       uint64_t *ret_bytes, uint64_t *ret_file_bytes) LIMPET_MUST_CHECK;

#endif
