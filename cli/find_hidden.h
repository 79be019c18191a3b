/* Looks for the functions of allocators that have no name, before an attach, or says in advance
 * that attach will. */
#ifndef LIMPET_CLI_FIND_HIDDEN_H
#define LIMPET_CLI_FIND_HIDDEN_H

#include <stdbool.h>

#include "cli/capture_options.h"
#include "injector/preflight/preflight.h"

struct limpet_target;

/* Looks if the target has an allocator that is not followed, and nothing else stands against an
 * attach. Says what it does, and what comes of it: in `err`, if that is why preflight refuses.
 * True: functions were found, which are now in the options' list, and preflight has to be run again
 * with it. */
bool limpet_find_hidden(const struct limpet_target *target, struct limpet_capture_options *options,
			const struct limpet_preflight *preflight, struct limpet_err *err);

/* Adds to what preflight found that attach will look for them; also as the hint of a refusal. True:
 * it is refused as it is, but attach will try. */
bool limpet_find_hidden_announce(const struct limpet_target *target,
				 struct limpet_preflight *preflight);

#endif
