/* The mapping of an agent's thunks, which is left on purpose where the program keeps addresses in
 * it. Then it says so itself, in its last word: a process that is forked while the agent is taken
 * away may have a copy that nobody needs. */
#ifndef LIMPET_INJECTOR_HOOK_THUNKS_H
#define LIMPET_INJECTOR_HOOK_THUNKS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "injector/proc/proc.h"

/* Whether the mapping is of thunks. */
bool limpet_thunks_are(const struct limpet_map *map);
/* The same, and they were left. */
bool limpet_thunks_were_left(pid_t pid, const struct limpet_map *map);
/* To be called before their agent is taken away. */
int limpet_thunks_leave(pid_t pid, uint64_t thunks);

#endif
