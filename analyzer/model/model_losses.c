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
