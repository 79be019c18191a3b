/* Why a model is not complete, or its figures not exact, in words for text, JSON and pages. */
#ifndef LIMPET_ANALYZER_MODEL_MODEL_LOSSES_H
#define LIMPET_ANALYZER_MODEL_MODEL_LOSSES_H

#include <stdbool.h>
#include <stddef.h>

#include "analyzer/model/model.h"

struct limpet_model_loss {
	enum limpet_loss loss;
	bool incomplete, inexact; /* one of them, or both */
	char words[LIMPET_LOSS_WORDS];
};

/* Returns their number: 0 for a model that is complete and exact. */
size_t limpet_model_losses(const struct limpet_model *model,
			   struct limpet_model_loss ret[LIMPET_LOSS_COUNT]);

/* The first reason why it is not complete, apart from losses that are counted, and a missing end;
 * "": none. */
const char *limpet_model_because(const struct limpet_model *model);

#endif
