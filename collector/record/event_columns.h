/* Collects the rows of one EVENTS block, one column per field: similar values are adjacent, and
 * zstd compresses them. A block does not depend on blocks before it. One thread. */
#ifndef LIMPET_COLLECTOR_RECORD_EVENT_COLUMNS_H
#define LIMPET_COLLECTOR_RECORD_EVENT_COLUMNS_H

#include <stddef.h>
#include <stdint.h>

#include "collector/record/accounting.h"
#include "common/bytes.h"

struct limpet_event_columns;
struct limpet_event_planes;

/* NULL: no memory. */
struct limpet_event_columns *limpet_event_columns_new(void);
/* Call before the first row: keeps the addresses, too. */
void limpet_event_columns_keep_addresses(struct limpet_event_columns *columns);
void limpet_event_columns_free(struct limpet_event_columns *columns);

/* 0, or -ENOMEM: some of the rows are missing. */
int limpet_event_columns_add(struct limpet_event_columns *columns,
			     const struct limpet_accounting_row *rows, size_t count);

/* What was collected. Zero-initialised is empty and valid. */
struct limpet_event_block {
	uint32_t rows, events, pairs;
	uint64_t first_tick;
	struct limpet_bytes ops, times, pair_nodes, pair_sizes, pair_numbers, ages, tids, switches,
		sizes, addresses, owners;
};
void limpet_event_block_done(struct limpet_event_block *block);
/* Moves what was collected into `block`. The columns are empty then, and use the memory that the
 * block had before. */
void limpet_event_columns_swap(struct limpet_event_columns *columns,
			       struct limpet_event_block *block);
/* Appends the sections of the block to `content`. An allocation failure sets `content->failed`. Any
 * thread may call it. */
void limpet_event_block_append(const struct limpet_event_block *block,
			       struct limpet_event_planes *planes, struct limpet_bytes *content);

#endif
