/* The only place that chooses the architecture's directory for code that reads probed registers. */
#ifndef LIMPET_INJECTOR_HIDDEN_ARCH_H
#define LIMPET_INJECTOR_HIDDEN_ARCH_H

#include "common/arch_path.h"

/* clang-format off */
#include LIMPET_ARCH_STRING(injector/hidden/arch/LIMPET_ARCH/probed_registers.h)
/* clang-format on */

#endif
