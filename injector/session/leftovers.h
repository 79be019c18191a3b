/* What a limpet that was killed while attaching or detaching left in the target besides an agent:
 * the mappings in which the boot stub runs, and those of an agent that was not started. They are
 * recognized by their names and places. A child that was forked while a thread was hijacked has the
 * same, and if that thread was in dlopen, the descriptor by which the image was to be loaded. */
#ifndef LIMPET_INJECTOR_SESSION_LEFTOVERS_H
#define LIMPET_INJECTOR_SESSION_LEFTOVERS_H

#include <stdbool.h>

#include "common/err.h"
#include "injector/elf/modules.h"
#include "injector/remote/hijack.h"

struct limpet_target;

/* Whether there are any: 1, 0 or -errno. Mappings inside the modules in `modules` belong to an
 * agent and do not count. */
int limpet_leftovers_find(const struct limpet_target *target,
			  const struct limpet_modules *modules) LIMPET_MUST_CHECK;

/* Removes them once it is proved that no thread runs the stub. A thread may be waiting for a lock
 * in the stub: it then resumes and cleans up by itself. -EBUSY: not proved before the setup's
 * deadline. */
int limpet_leftovers_remove(const struct limpet_hijack_setup *setup,
			    const struct limpet_modules *modules,
			    struct limpet_err *err) LIMPET_MUST_CHECK;

#endif
