/* Looks for the functions of allocators that have no name, before an attach, or says
 * that attach can. */
#ifndef LIMPET_CLI_FIND_HIDDEN_H
#define LIMPET_CLI_FIND_HIDDEN_H

#include <stdbool.h>

#include "cli/capture_options.h"
#include "injector/preflight/preflight.h"

struct limpet_target;

/* Looks, with --alloc-functions search, if the target has an allocator that is not followed, and
 * nothing else stands against an attach. Says what it does, and what comes of it: in `err`, if that
 * is why preflight refuses. Without the option it says that there is one. True: functions were
 * found, which are now in the options' list, and preflight has to be run again with it. */
bool limpet_find_hidden(const struct limpet_target *target, struct limpet_capture_options *options,
			const struct limpet_preflight *preflight, struct limpet_err *err);

/* Adds to what preflight found that attach can look for them. */
void limpet_find_hidden_announce(const struct limpet_target *target,
				 struct limpet_preflight *preflight);

#endif
