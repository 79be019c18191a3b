/* Counts by site, which is a stack: the sum of several periods or rows. One thread. */
#ifndef LIMPET_COMMON_SITE_COUNTS_H
#define LIMPET_COMMON_SITE_COUNTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/counts.h"

struct limpet_site_count {
	uint32_t node;
	struct limpet_counts counts;
	struct limpet_map_counts maps;
};
/* Zero-initialised is empty and valid. */
struct limpet_site_counts {
	struct limpet_site_count *list; /* in order of first appearance, or sorted */
	size_t count, capacity;
	uint32_t *place_of_node; /* index + 1; 0: none */
	size_t node_capacity;
};

void limpet_site_counts_done(struct limpet_site_counts *sites);

/* Finds or adds a site; nodes are small numbers. NULL: no memory. Valid until the next call. */
struct limpet_site_count *limpet_site_counts_at(struct limpet_site_counts *sites, uint32_t node);
/* NULL: none. */
const struct limpet_site_count *limpet_site_counts_find(const struct limpet_site_counts *sites,
							uint32_t node);
/* Forgets all sites, and keeps the memory. */
void limpet_site_counts_clear(struct limpet_site_counts *sites);
/* By node. */
void limpet_site_counts_sort(struct limpet_site_counts *sites);

#endif
