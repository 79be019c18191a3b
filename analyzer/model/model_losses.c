#include "analyzer/model/model_losses.h"

#include <stdio.h>

size_t limpet_model_losses(const struct limpet_model *model,
			   struct limpet_model_loss ret[LIMPET_LOSS_COUNT])
{
	size_t count = 0;

	for (unsigned i = 0; i < LIMPET_LOSS_COUNT; i++) {
		const struct limpet_loss_kind *kind = &limpet_loss_kinds[i];
		struct limpet_model_loss *loss = &ret[count];

		if (!(model->losses & LIMPET_LOSS_BIT(i)) ||
		    !(kind->clears_complete || kind->clears_exact))
			continue;
		loss->loss = (enum limpet_loss)i;
		loss->incomplete = kind->clears_complete;
		loss->inexact = kind->clears_exact;
		if (i == LIMPET_LOSS_UNFINISHED && model->end->end == LIMPET_END_RUNNING)
			snprintf(loss->words, sizeof(loss->words), "it is still running");
		else
			limpet_loss_words(loss->words, loss->loss, model->losses,
					  model->end->because);
		count++;
	}
	return count;
}

const char *limpet_model_because(const struct limpet_model *model)
{
	const uint64_t counted = LIMPET_LOSS_BIT(LIMPET_LOSS_DROPPED) |
				 LIMPET_LOSS_BIT(LIMPET_LOSS_UNSEEN) |
				 LIMPET_LOSS_BIT(LIMPET_LOSS_DAMAGED);
	/* Mappings beyond the collector's memory have no count. */
	const uint64_t said =
		counted | LIMPET_LOSS_BIT(LIMPET_LOSS_UNFINISHED) |
		limpet_loss_if(model->totals.untracked_allocations, LIMPET_LOSS_UNTRACKED);

	if (model->end->because[0])
		return model->end->because;
	for (unsigned i = 0; i < LIMPET_LOSS_COUNT; i++)
		if (model->losses & ~said & LIMPET_LOSS_BIT(i) &&
		    limpet_loss_kinds[i].clears_complete)
			return limpet_loss_kinds[i].words;
	return "";
}
