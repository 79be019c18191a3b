/* The sites of a capture: for each stack that allocates, its figures of the current period, and
 * what it holds of what was allocated since the start. One thread. */
#ifndef LIMPET_COLLECTOR_RECORD_SITE_TABLE_H
#define LIMPET_COLLECTOR_RECORD_SITE_TABLE_H

#include <stddef.h>
#include <stdint.h>

#include "common/counts.h"

struct limpet_site {
	struct limpet_map_counts maps; /* of the period */
	/* Kept only on request. A live table of less than 128 GiB has fewer than 2^32 blocks. */
	uint32_t live_blocks, held_blocks; /* since the start, as `live_bytes` and `held_bytes` */
	/* Of the period. All that an allocation or a free changes is in the second cache line, from
	 * `counts.allocations` to `period`. */
	struct limpet_counts counts;
	uint64_t live_bytes;
	uint64_t held_peak; /* the accounting's number of the peak of `held_*`; an older one: the
			       site has not changed since the peak */
	uint32_t node;
	uint32_t period; /* the table's number of the period to which the figures belong */
	uint64_t held_bytes;
	uint64_t unused[7]; /* named, so that sites can be compared as bytes */
} __attribute__((aligned(64)));
_Static_assert(offsetof(struct limpet_site, counts.allocations) == 64 &&
		       offsetof(struct limpet_site, held_bytes) == 128,
	       "the second cache line begins and ends there");

/* Public only for the inline functions below, which are called for each event. */
struct limpet_site_table {
	uint32_t period;           /* from 1 */
	struct limpet_site *sites; /* entry 0: none */
	size_t site_count, site_capacity;
	uint32_t *site_of_node; /* 0: none yet */
	size_t node_capacity;
	uint64_t *touched_nodes; /* bitmap of the nodes of `touched`, for sorting */
	uint32_t *touched;       /* sites with an event in this period; has room for all */
	size_t touched_count;
	uint32_t growing;
	uint64_t growing_bytes;
};

/* NULL: no memory. */
struct limpet_site_table *limpet_site_table_new(void);
void limpet_site_table_free(struct limpet_site_table *table);

/* Finds or adds a node. Returns the number of its site, from 1, which never changes; 0: no memory.
 * Nodes are small numbers. */
uint32_t limpet_site_table_enter(struct limpet_site_table *table, uint32_t node);
/* Call at a site's first event of the period. */
void limpet_site_table_begin(struct limpet_site_table *table, uint32_t number);

/* The same as _enter(). */
static inline uint32_t limpet_site_table_number(struct limpet_site_table *table, uint32_t node)
{
	uint32_t number = node < table->node_capacity ? table->site_of_node[node] : 0;

	return number ? number : limpet_site_table_enter(table, node);
}

/* The site with that number. The first call in a period resets its figures of the period. Valid
 * until a site is added. */
static inline struct limpet_site *limpet_site_table_touch(struct limpet_site_table *table,
							  uint32_t number)
{
	if (table->sites[number].period != table->period)
		limpet_site_table_begin(table, number);
	return &table->sites[number];
}

static inline uint32_t limpet_site_table_node(const struct limpet_site_table *table,
					      uint32_t number)
{
	return table->sites[number].node;
}

/* Prefetch what _number() and _touch() will read for a later event: by node, or by number. */
static inline void limpet_site_table_prefetch_node(const struct limpet_site_table *table,
						   uint32_t node)
{
	if (node < table->node_capacity)
		__builtin_prefetch(&table->sites[table->site_of_node[node]].counts.allocations, 1);
}

static inline void limpet_site_table_prefetch(const struct limpet_site_table *table,
					      uint32_t number)
{
	__builtin_prefetch(&table->sites[number].counts.allocations, 1);
}

/* Iterates over all sites by node: returns the first site from `*node` on, and sets `*node` to the
 * node after it. NULL: no more. */
const struct limpet_site *limpet_site_table_next(const struct limpet_site_table *table,
						 uint32_t *node);

/* Number of sites that were touched in this period. */
size_t limpet_site_table_touched(const struct limpet_site_table *table);

/* Sorts the sites that were touched in this period by node. Returns their number. */
size_t limpet_site_table_sort(struct limpet_site_table *table);
/* One of these, in that order. */
const struct limpet_site *limpet_site_table_at(const struct limpet_site_table *table, size_t index);
/* Begins the next period. */
void limpet_site_table_next_period(struct limpet_site_table *table);

/* The node that held most of what was allocated since the start, when the last period ended; 0:
 * none. *ret_bytes is what it holds now. */
uint32_t limpet_site_table_growing(const struct limpet_site_table *table, uint64_t *ret_bytes);

#endif
