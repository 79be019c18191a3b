/* Between what the figures of a trace lie, for what was lost and counted. Internal to the model.
 *
 * A free that was dropped leaves its block live in the accounting; an allocation that was dropped
 * keeps one out of it. What is live is therefore at most what the accounting has and all dropped
 * allocations, and at least what it has without what the dropped frees can have freed. A block
 * whose address is allocated again while it is believed live takes one of these frees off: its free
 * is inferred, and booked. */
#ifndef LIMPET_ANALYZER_MODEL_MODEL_BOUNDS_H
#define LIMPET_ANALYZER_MODEL_MODEL_BOUNDS_H

#include "analyzer/model/model.h"

/* What the file says of losses in its last period so far. */
void limpet_model_bounds_take(struct limpet_model_missing *missing,
			      const struct limpet_trace_period *period);
/* From the model's losses, totals, sizes and `missing`. */
void limpet_model_bounds_find(struct limpet_model *model);

#endif
