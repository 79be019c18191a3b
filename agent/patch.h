/* Finds, exchanges and restores slots. Never under an allocation hook. */
#ifndef LIMPET_AGENT_PATCH_H
#define LIMPET_AGENT_PATCH_H

#include "agent/agent.h"

void limpet_patch_configure(const struct limpet_start *start);
int limpet_patch_planned(void);
int limpet_patch_restore(void);
int limpet_patch_new_modules(void);
/* Called before a call into the loader. `closes`: the function closes a module. */
void limpet_patch_on_loader_call(bool closes);

#endif
