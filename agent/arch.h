/* The one place that chooses the agent's architecture folder. */
#ifndef LIMPET_AGENT_ARCH_H
#define LIMPET_AGENT_ARCH_H

#define LIMPET_ARCH_STRING_(x) #x
#define LIMPET_ARCH_STRING(x) LIMPET_ARCH_STRING_(x)
/* The formatter would take the paths for expressions. */
/* clang-format off */
#include LIMPET_ARCH_STRING(agent/arch/LIMPET_ARCH/sys.h)
/* clang-format on */

#endif
