/* The present pages of parts of a process's memory, as sorted ranges: those that count in RSS. */
#ifndef LIMPET_EXPLAIN_PRESENT_H
#define LIMPET_EXPLAIN_PRESENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"
#include "injector/proc/pages.h"

struct limpet_present_range {
	uint64_t start, end;
	uint64_t before; /* bytes in all ranges before this one */
};

/* Begins as all zeros. */
struct limpet_present {
	struct limpet_present_range *list;
	size_t count, capacity;
};
void limpet_present_done(struct limpet_present *present);

/* Adds a range at or above the end of the last one. -EINVAL: it is not, or is empty; -ENOMEM. */
int limpet_present_add(struct limpet_present *present, uint64_t start,
		       uint64_t end) LIMPET_MUST_CHECK;
/* Adds what is present in [start, end). `pages` must leave out swapped pages. */
int limpet_present_read(struct limpet_present *present, struct limpet_pages *pages, uint64_t start,
			uint64_t end) LIMPET_MUST_CHECK;

/* Bytes of [start, end) that are present. */
uint64_t limpet_present_bytes(const struct limpet_present *present, uint64_t start, uint64_t end);
/* The first present address from this one on; UINT64_MAX: there is none. */
uint64_t limpet_present_next(const struct limpet_present *present, uint64_t address);
/* The end of the present range that holds this address; 0: the address is not present. */
uint64_t limpet_present_end(const struct limpet_present *present, uint64_t address);

#endif
