/* The mapping of an agent's thunks, which is left on purpose if the program stores addresses in it.
 * Its last word then says so: a process that is forked while the agent is removed may have a copy
 * that it does not need. */
#ifndef LIMPET_INJECTOR_HOOK_THUNKS_H
#define LIMPET_INJECTOR_HOOK_THUNKS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "injector/proc/proc.h"

struct limpet_target;

/* Whether the mapping contains thunks. */
bool limpet_thunks_are(const struct limpet_map *map);
/* The same, and they were left on purpose. Also of any process that is looked at, by its pid. */
bool limpet_thunks_were_left(pid_t pid, const struct limpet_map *map);
/* To be called before their agent is removed. */
int limpet_thunks_leave(const struct limpet_target *target, uint64_t thunks);

#endif
