/* Collects the rows of one EVENTS block, one column per field: similar values are adjacent, and
 * zstd compresses them. A block does not depend on blocks before it. One thread. */
#ifndef LIMPET_RECORDER_EVENT_COLUMNS_H
#define LIMPET_RECORDER_EVENT_COLUMNS_H

#include <stddef.h>
#include <stdint.h>

#include "common/bytes.h"
#include "recorder/accounting.h"

struct limpet_event_columns;

/* NULL: no memory. */
struct limpet_event_columns *limpet_event_columns_new(void);
/* Call before the first row: keeps the addresses, too. */
void limpet_event_columns_keep_addresses(struct limpet_event_columns *columns);
void limpet_event_columns_free(struct limpet_event_columns *columns);

/* 0, or -ENOMEM: some of the rows are missing. */
int limpet_event_columns_add(struct limpet_event_columns *columns,
			     const struct limpet_accounting_row *rows, size_t count);
/* Appends the sections of the block to `content`, and returns the version of the format that they
 * need. An allocation failure sets `content->failed`. */
uint16_t limpet_event_columns_put(const struct limpet_event_columns *columns,
				  struct limpet_bytes *content);
/* Empties the columns for the next block. */
void limpet_event_columns_clear(struct limpet_event_columns *columns);

#endif
