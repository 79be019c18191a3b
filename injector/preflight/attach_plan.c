#include "injector/preflight/attach_plan.h"

#include <errno.h>
#include <stdlib.h>

#include "injector/proc/target_process.h"

static int make(const struct limpet_target *target, const struct limpet_capture_config *config,
		struct limpet_attach_plan *plan, struct limpet_err *err)
{
	int error = limpet_modules_read(target, &plan->modules, err);

	if (error)
		return error;
	if (limpet_modules_fingerprint(target, plan->modules.r_debug, &plan->fingerprint) < 0)
		plan->fingerprint = 0;
	if (limpet_entries_find(&plan->modules, config->entry_list, &plan->entries) < 0)
		return limpet_err_set(err, -ENOMEM, "out of memory");
	plan->error = limpet_plan_make(&plan->modules, &plan->entries, config->load, &plan->hooks,
				       &plan->err);
	return 0;
}

int limpet_attach_plan_new(const struct limpet_target *target,
			   const struct limpet_capture_config *config,
			   struct limpet_attach_plan **ret, struct limpet_err *err)
{
	struct limpet_attach_plan *plan = calloc(1, sizeof(*plan));
	int error = plan ? make(target, config, plan, err)
			 : limpet_err_set(err, -ENOMEM, "out of memory");

	if (error)
		limpet_attach_plan_free(plan);
	else
		*ret = plan;
	return error;
}

bool limpet_attach_plan_is_current(struct limpet_attach_plan *plan)
{
	return limpet_target_check(plan->modules.target) == 0 &&
	       limpet_modules_are_current(&plan->modules, plan->fingerprint);
}

void limpet_attach_plan_free(struct limpet_attach_plan *plan)
{
	if (!plan)
		return;
	limpet_plan_done(&plan->hooks);
	limpet_entries_done(&plan->entries);
	limpet_modules_done(&plan->modules);
	free(plan);
}
