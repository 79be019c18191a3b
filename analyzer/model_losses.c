#include "analyzer/model_losses.h"

#include <stdio.h>

#include "analyzer/json_pen.h"

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

/* Takes both. NULL: no memory. */
static json_t *append(json_t *list, json_t *value)
{
	if (list && json_array_append_new(list, value) == 0)
		return list;
	json_decref(list);
	return NULL;
}

json_t *limpet_model_losses_keys(const struct limpet_model *model, bool complete)
{
	struct limpet_model_loss losses[LIMPET_LOSS_COUNT];
	const size_t count = limpet_model_losses(model, losses);
	json_t *list = json_array();

	for (size_t i = 0; list && i < count; i++)
		if (complete ? losses[i].incomplete : losses[i].inexact)
			list = append(list, json_string(limpet_loss_kinds[losses[i].loss].key));
	return list;
}

json_t *limpet_model_losses_json(const struct limpet_model *model)
{
	struct limpet_model_loss losses[LIMPET_LOSS_COUNT];
	const size_t count = limpet_model_losses(model, losses);
	json_t *list = json_array();

	for (size_t i = 0; list && i < count; i++)
		list = append(list, json_pack("{s:s,s:o,s:b,s:b}", "reason",
					      limpet_loss_kinds[losses[i].loss].key, "words",
					      limpet_json_text(losses[i].words), "incomplete",
					      losses[i].incomplete, "inexact", losses[i].inexact));
	return list;
}
