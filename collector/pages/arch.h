/* The only place that chooses the architecture's directory for code that reads sampled registers.
 */
#ifndef LIMPET_COLLECTOR_PAGES_ARCH_H
#define LIMPET_COLLECTOR_PAGES_ARCH_H

#include "common/arch_path.h"

/* clang-format off */
#include LIMPET_ARCH_STRING(collector/pages/arch/LIMPET_ARCH/sampled_registers.h)
/* clang-format on */

#endif
