/* Gathers the rows of one EVENTS block, a column a field: alike lies by alike, and zstd does the
 * rest. A block needs nothing from blocks before it. One thread. */
#ifndef LIMPET_INJECTOR_EVENT_COLUMNS_H
#define LIMPET_INJECTOR_EVENT_COLUMNS_H

#include <stdint.h>

#include "common/bytes.h"

struct limpet_event_columns;

/* NULL: no memory. */
struct limpet_event_columns *limpet_event_columns_new(void);
void limpet_event_columns_free(struct limpet_event_columns *columns);

struct limpet_event_row {
	uint8_t op; /* enum limpet_trace_row, LIMPET_ROW_TEMPORARY */
	uint32_t node;
	uint32_t thread; /* dense number of the thread in the capture... */
	uint32_t tid;    /* ...and what the target calls it */
	uint64_t tick;   /* not below the row before's */
	uint64_t size;
	uint64_t age_ticks;
};
/* 0 or -ENOMEM. */
int limpet_event_columns_add(struct limpet_event_columns *columns,
			     const struct limpet_event_row *row);
uint32_t limpet_event_columns_rows(const struct limpet_event_columns *columns);
/* Puts the sections of the block behind `content`. Want of memory shows in it. */
void limpet_event_columns_put(const struct limpet_event_columns *columns,
			      struct limpet_bytes *content);
/* Empties it for the next block. */
void limpet_event_columns_clear(struct limpet_event_columns *columns);

#endif
