/* Which path of thunks.S a hook takes: a recording one, or straight to the original. */
#ifndef LIMPET_AGENT_HOOK_PATHS_H
#define LIMPET_AGENT_HOOK_PATHS_H

#include "agent/agent.h"

/* Fills in a hook and its thunk's path; `original` last. */
void limpet_hook_set(uint32_t index, const struct limpet_hook *hook);
/* Makes all thunks plain jumps to their originals, except those of inline hooks: these are reached
 * only through the hook areas. also_loader: those of the dynamic linker's functions, too.
 * also_finder: that of _dl_find_object, which exceptions need as long as a thread is in a hook. */
void limpet_hook_pass_all(bool also_loader, bool also_finder);

#endif
