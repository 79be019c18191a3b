/* The only place that selects the agent's architecture directory. */
#ifndef LIMPET_AGENT_ARCH_H
#define LIMPET_AGENT_ARCH_H

#include "common/arch_path.h"

/* The formatter would treat the paths as expressions. */
/* clang-format off */
#include LIMPET_ARCH_STRING(agent/arch/LIMPET_ARCH/sys.h)
/* clang-format on */

#endif
