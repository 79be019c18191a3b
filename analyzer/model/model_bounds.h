/* Bounds of a trace's figures, from counted losses. Internal to the model.
 *
 * A dropped free leaves its block live in the accounting; a dropped allocation keeps its block out.
 * Live is therefore at most the accounting's figure plus all dropped allocations, and at least that
 * figure minus what the dropped frees can have freed. A block whose address is allocated again
 * while it counts as live takes off one of these frees: its free is inferred and counted. */
#ifndef LIMPET_ANALYZER_MODEL_MODEL_BOUNDS_H
#define LIMPET_ANALYZER_MODEL_MODEL_BOUNDS_H

#include "analyzer/model/model.h"

/* Takes the losses in the file's last period so far. */
void limpet_model_bounds_set_missing(struct limpet_model_missing *missing,
				     const struct limpet_trace_period *period);
/* From the model's losses, totals, sizes and `missing`. `whole`: the totals are of all stacks, so
 * that they do not depend on which ones are known. */
void limpet_model_bounds_find(struct limpet_model *model, bool whole);

#endif
