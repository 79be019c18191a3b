/* Why a model is not complete, or its figures not exact, for the JSON of reports and
 * comparisons. */
#ifndef LIMPET_ANALYZER_TEXT_LOSSES_JSON_H
#define LIMPET_ANALYZER_TEXT_LOSSES_JSON_H

#include <jansson.h>
#include <stdbool.h>

#include "analyzer/model/model.h"

/* The keys of the losses against `complete`, or else against `exact`. NULL: no memory. */
json_t *limpet_losses_json_keys(const struct limpet_model *model, bool complete);
/* All losses, with their words. */
json_t *limpet_losses_json(const struct limpet_model *model);

#endif
