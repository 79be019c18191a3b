/* Finds, exchanges and restores slots. Never under an allocation hook. */
#ifndef LIMPET_AGENT_PATCH_H
#define LIMPET_AGENT_PATCH_H

#include "agent/agent.h"

void limpet_patch_configure(const struct limpet_start *start);
/* Takes what limpet_patch_planned() needs. false: somebody else has it; nothing is to be undone. */
bool limpet_patch_begin(void);
void limpet_patch_end(void);
/* Between these; returns the number of patched slots. */
int limpet_patch_planned(void);
/* Returns how many slots it could not restore. */
int limpet_patch_restore(void);
int limpet_patch_new_modules(void);
/* Called before a call into the loader. `closes`: the function closes a module; `answers`: it only
 * looks up, so that the program may have forbidden all that loading needs. */
void limpet_patch_on_loader_call(bool closes, bool answers);
/* Whether the module whose code is at `pc` has a slot from which it loads this thunk as the
 * function's address. Called after the loader has returned. */
bool limpet_patch_loads_address(uint64_t pc, uint64_t thunk);

#endif
