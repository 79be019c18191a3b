/* "Scattered pairs" of limpet-trace(5): the encoding of the pairs of an EVENTS block in which few
 * of them recur. Numbers are split into columns of bytes of the same weight, each with its own
 * frequencies, rows refer to pairs by their distance from the newest, and ages are differences to
 * what the rows before let expect. One thread. */
#ifndef LIMPET_COLLECTOR_RECORD_EVENT_PLANES_H
#define LIMPET_COLLECTOR_RECORD_EVENT_PLANES_H

#include <stdbool.h>
#include <stdint.h>

#include "common/bytes.h"

struct limpet_event_planes;

/* The same pairs in the columns of an ordinary block, see limpet-trace(5). */
struct limpet_event_pairs {
	const struct limpet_bytes *ops, *times, *nodes, *sizes, *numbers, *ages;
	uint32_t rows, pairs;
};

/* NULL: no memory. */
struct limpet_event_planes *limpet_event_planes_new(void);
void limpet_event_planes_free(struct limpet_event_planes *planes);

/* Whether these sections usually take less space than the ordinary ones. */
bool limpet_event_planes_pay(const struct limpet_event_pairs *pairs);
/* Appends the sections to `content`. An allocation failure sets `content->failed`. */
void limpet_event_planes_append(struct limpet_event_planes *planes,
				const struct limpet_event_pairs *pairs,
				struct limpet_bytes *content);

#endif
