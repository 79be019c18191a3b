/* The mappings whose creation was recorded, as an interval tree: munmap may remove any part of any
 * number of them. Bounded; one thread. */
#ifndef LIMPET_COLLECTOR_RECORD_MAPPING_TABLE_H
#define LIMPET_COLLECTOR_RECORD_MAPPING_TABLE_H

#include <stddef.h>
#include <stdint.h>

struct limpet_mapping {
	uint64_t start, end; /* [start, end), never empty */
	uint64_t tick;       /* of the call that made it */
	uint32_t node;
	uint32_t thread; /* the accounting's number */
};

struct limpet_mapping_table;

/* NULL: no memory. */
struct limpet_mapping_table *limpet_mapping_table_new(uint64_t memory_bytes);
void limpet_mapping_table_free(struct limpet_mapping_table *table);

typedef void limpet_mapping_fn(const struct limpet_mapping *part, void *data);
/* Removes [start, end), and reports each mapped part of it, in order of address. If a mapping is
 * cut in the middle and there is no room for a second node, the upper part is given up and
 * reported as well. */
void limpet_mapping_table_release(struct limpet_mapping_table *table, uint64_t start, uint64_t end,
				  limpet_mapping_fn *each, void *data);
/* Adds a mapping, whose range must be free (released before). 0 or -ENOSPC. */
int limpet_mapping_table_add(struct limpet_mapping_table *table,
			     const struct limpet_mapping *mapping);
/* Reports all mappings in order of address. */
void limpet_mapping_table_walk(const struct limpet_mapping_table *table, limpet_mapping_fn *each,
			       void *data);
size_t limpet_mapping_table_count(const struct limpet_mapping_table *table);

#endif
