/* What a limpet that was killed on the way in or out left in a target besides an agent: the image's
 * descriptor, and the mapping that the boot stub runs in. Both can be told by the image's name; the
 * stub's channel closes itself. And what a child has that was forked while we hijacked a thread:
 * there nothing closes itself, and the ends of the channel are known as ours. */
#ifndef LIMPET_INJECTOR_LEFTOVERS_H
#define LIMPET_INJECTOR_LEFTOVERS_H

#include <stdbool.h>

#include "common/err.h"
#include "injector/image/modules.h"
#include "injector/remote/hijack.h"

/* Whether there are any; 1, 0 or -errno. Mappings inside of the modules in `modules` are an agent's
 * and do not count; NULL: descriptors alone are looked at. */
int limpet_leftovers_find(pid_t pid, const struct limpet_modules *modules) LIMPET_MUST_CHECK;

/* Takes them away, once it is proven that no thread runs the stub (it may be waiting for a lock
 * there: then it finds home and cleans up by itself). -EBUSY: not before the setup's deadline. */
int limpet_leftovers_remove(const struct limpet_hijack_setup *setup,
			    const struct limpet_modules *modules,
			    struct limpet_err *err) LIMPET_MUST_CHECK;

#endif
