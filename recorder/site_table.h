/* The sites of a capture: a row of figures for each stack that allocates, of the current period,
 * and what it holds since the start. One thread. */
#ifndef LIMPET_RECORDER_SITE_TABLE_H
#define LIMPET_RECORDER_SITE_TABLE_H

#include <stddef.h>
#include <stdint.h>

struct limpet_site {
	/* The first cache line: what most events touch. */
	uint32_t node;
	uint32_t period; /* the table's own: which one the figures are of */
	uint64_t allocations, allocated_bytes, frees, freed_bytes, temporary;
	uint64_t
		live_bytes; /* since the start, as this and what follows up to the peak's figures */
	uint64_t held_peak; /* the accounting's peak that `held` is of; another: nothing happened
			     * since
			     */
	/* Kept only where they are asked for; more blocks than 2^32 fit no live table below 128
	 * GiB. */
	uint32_t live_blocks, held_blocks;
	uint64_t held_bytes;
	uint64_t untracked, untracked_bytes;
	uint64_t mmaps, mmap_bytes, unmapped_parts, unmapped_bytes;
} __attribute__((aligned(128)));
_Static_assert(sizeof(struct limpet_site) == 128, "two cache lines");

/* Its insides are here for the sake of the functions below that each event calls. */
struct limpet_site_table {
	uint32_t period;           /* from 1 */
	struct limpet_site *sites; /* entry 0 stands for none */
	size_t site_count, site_capacity;
	uint32_t *site_of_node; /* 0: none yet */
	size_t node_capacity;
	uint64_t *touched_nodes; /* bit map: of those below, to put them in order */
	uint32_t *touched;       /* in this period; has room for all */
	size_t touched_count;
	uint32_t growing;
	uint64_t growing_bytes;
};

/* NULL: no memory. */
struct limpet_site_table *limpet_site_table_new(void);
void limpet_site_table_free(struct limpet_site_table *table);

/* Enters a node, or finds it: its site's number, from 1, which stays. Nodes are small numbers.
 * 0: no memory. */
uint32_t limpet_site_table_enter(struct limpet_site_table *table, uint32_t node);
/* A site's first event of the period. */
void limpet_site_table_begin(struct limpet_site_table *table, uint32_t number);

/* As _enter. */
static inline uint32_t limpet_site_table_number(struct limpet_site_table *table, uint32_t node)
{
	uint32_t number = node < table->node_capacity ? table->site_of_node[node] : 0;

	return number ? number : limpet_site_table_enter(table, node);
}

/* The site with that number, its figures of the period at zero with its first event in it. Valid
 * until the next new site. */
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

/* Bring near what _number and _touch will want for an event soon: by node, or by number. */
static inline void limpet_site_table_prefetch_node(const struct limpet_site_table *table,
						   uint32_t node)
{
	if (node < table->node_capacity)
		__builtin_prefetch(&table->sites[table->site_of_node[node]], 1);
}

static inline void limpet_site_table_prefetch(const struct limpet_site_table *table,
					      uint32_t number)
{
	__builtin_prefetch(&table->sites[number], 1);
}

/* All sites by node: those from `*node` on, which is set to the node after it. NULL: no more. */
const struct limpet_site *limpet_site_table_next(const struct limpet_site_table *table,
						 uint32_t *node);

/* Sites that were touched in this period. */
size_t limpet_site_table_touched(const struct limpet_site_table *table);

/* Orders those that were touched in this period by node. Answers their number. */
size_t limpet_site_table_sort(struct limpet_site_table *table);
/* Of these, in that order. */
const struct limpet_site *limpet_site_table_at(const struct limpet_site_table *table, size_t index);
/* Begins another period. */
void limpet_site_table_next_period(struct limpet_site_table *table);

/* The node that holds most of what was allocated since the start, as of the last period's end, and
 * what it holds now; 0: none. */
uint32_t limpet_site_table_growing(const struct limpet_site_table *table, uint64_t *ret_bytes);

#endif
