#include "analyzer/text/losses_json.h"

#include "analyzer/model/model_losses.h"
#include "analyzer/text/json_printer.h"

json_t *limpet_losses_json_keys(const struct limpet_model *model, bool complete)
{
	struct limpet_model_loss losses[LIMPET_LOSS_COUNT];
	const size_t count = limpet_model_losses(model, losses);
	json_t *list = json_array();

	for (size_t i = 0; list && i < count; i++)
		if (complete ? losses[i].incomplete : losses[i].inexact)
			list = limpet_json_append(
				list, json_string(limpet_loss_kinds[losses[i].loss].key));
	return list;
}

json_t *limpet_losses_json(const struct limpet_model *model)
{
	struct limpet_model_loss losses[LIMPET_LOSS_COUNT];
	const size_t count = limpet_model_losses(model, losses);
	json_t *list = json_array();

	for (size_t i = 0; list && i < count; i++)
		list = limpet_json_append(
			list, json_pack("{s:s,s:o,s:b,s:b}", "reason",
					limpet_loss_kinds[losses[i].loss].key, "words",
					limpet_json_text(losses[i].words), "incomplete",
					losses[i].incomplete, "inexact", losses[i].inexact));
	return list;
}
