/* The only place that selects an architecture directory of common/. */
#ifndef LIMPET_COMMON_ARCH_H
#define LIMPET_COMMON_ARCH_H

#include "common/arch_path.h"

/* The formatter would treat the paths as expressions. */
/* clang-format off */
#include LIMPET_ARCH_STRING(common/arch/LIMPET_ARCH/pause.h)
#include LIMPET_ARCH_STRING(common/arch/LIMPET_ARCH/plt.h)
#include LIMPET_ARCH_STRING(common/arch/LIMPET_ARCH/relocations.h)
/* clang-format on */

#endif
