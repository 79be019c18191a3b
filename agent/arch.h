/* The only place that selects the agent's architecture directory. */
#ifndef LIMPET_AGENT_ARCH_H
#define LIMPET_AGENT_ARCH_H

#define LIMPET_ARCH_STRING_(x) #x
#define LIMPET_ARCH_STRING(x) LIMPET_ARCH_STRING_(x)
/* The formatter would treat the paths as expressions. */
/* clang-format off */
#include LIMPET_ARCH_STRING(agent/arch/LIMPET_ARCH/sys.h)
/* clang-format on */

#endif
