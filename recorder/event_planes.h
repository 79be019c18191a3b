/* The pairs of an EVENTS block in which few of them come again: as columns of bytes of one weight,
 * of which each has its own frequencies, and pairs named from the newest back. limpet-trace(5),
 * "scattered pairs". One thread. */
#ifndef LIMPET_RECORDER_EVENT_PLANES_H
#define LIMPET_RECORDER_EVENT_PLANES_H

#include <stdbool.h>
#include <stdint.h>

#include "common/bytes.h"

struct limpet_event_planes;

/* The same pairs as an ordinary block has them: the columns of limpet-trace(5), as they are
 * gathered. */
struct limpet_event_pairs {
	const struct limpet_bytes *ops, *nodes, *sizes, *numbers;
	uint32_t rows, pairs;
};

/* NULL: no memory. */
struct limpet_event_planes *limpet_event_planes_new(void);
void limpet_event_planes_free(struct limpet_event_planes *planes);

/* Whether these sections take less space than the ordinary ones, as a rule. */
bool limpet_event_planes_pay(const struct limpet_event_pairs *pairs);
/* Puts them behind `content`. An allocation failure shows in it (`failed`). */
void limpet_event_planes_put(struct limpet_event_planes *planes,
			     const struct limpet_event_pairs *pairs, struct limpet_bytes *content);

#endif
