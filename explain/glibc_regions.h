/* The regions of a main arena whose memory is not contiguous, because brk(2) failed or somebody
 * else called it, too: each ends with two marks or with the top. */
#ifndef LIMPET_EXPLAIN_GLIBC_REGIONS_H
#define LIMPET_EXPLAIN_GLIBC_REGIONS_H

#include "explain/glibc_walk.h"

/* Begins as all zeros. */
struct limpet_glibc_regions {
	struct limpet_glibc_region *list; /* ascending */
	size_t count, capacity;
	struct limpet_glibc_figures figures; /* the sum */
};
void limpet_glibc_regions_done(struct limpet_glibc_regions *regions);

/* Adds all regions within `region`, which may contain other memory as well; its start may be one.
 * By mmap(2) they begin at page boundaries, by brk(2) anywhere. 0, -ENOMEM, or -EBADMSG: a region
 * broke off after many chunks, so they are changing; -ETIME. */
int limpet_glibc_regions_find(struct limpet_glibc_reader *reader,
			      const struct limpet_present *present,
			      const struct limpet_glibc_region *region,
			      const struct limpet_glibc_fast *fast,
			      struct limpet_glibc_regions *regions) LIMPET_MUST_CHECK;

#endif
