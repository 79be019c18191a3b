/* _dl_find_object for the agent's own code, when no dynamic linker lists it. */
#ifndef LIMPET_AGENT_FINDER_H
#define LIMPET_AGENT_FINDER_H

#include "agent/agent.h"

/* Before any slot leads to limpet_path_finder. */
extern struct limpet_found limpet_found;
void limpet_finder_configure(const struct limpet_start *start);

#endif
