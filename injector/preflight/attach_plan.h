/* The plan of an attach: what preflight has found out of the target while it runs, and a session
 * carries out. */
#ifndef LIMPET_INJECTOR_PREFLIGHT_ATTACH_PLAN_H
#define LIMPET_INJECTOR_PREFLIGHT_ATTACH_PLAN_H

#include <stdbool.h>
#include <stdint.h>

#include "common/err.h"
#include "injector/elf/entry_find.h"
#include "injector/elf/modules.h"
#include "injector/hook/plan.h"
#include "injector/preflight/capture_config.h"

struct limpet_target;

struct limpet_attach_plan {
	struct limpet_modules modules;
	uint64_t fingerprint;          /* of the modules; 0: unknown */
	struct limpet_entries entries; /* without operators that exceptions could not pass, and with
					  the functions that cannot be followed */
	struct limpet_plan hooks;      /* the method and why, and the slots */
	int error;                     /* why there is nothing to be hooked, as of */
	struct limpet_err err;         /* limpet_plan_make() */
};

/* The target must outlive the plan. -ENOMEM, or its modules cannot be read: with a message. */
int limpet_attach_plan_new(const struct limpet_target *target,
			   const struct limpet_capture_config *config,
			   struct limpet_attach_plan **ret,
			   struct limpet_err *err) LIMPET_MUST_CHECK;
/* Whether it can still be carried out: nothing was loaded or unloaded since. */
bool limpet_attach_plan_is_current(struct limpet_attach_plan *plan);
void limpet_attach_plan_free(struct limpet_attach_plan *plan);

#endif
