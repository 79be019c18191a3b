/* The one place that chooses an architecture folder of common/. */
#ifndef LIMPET_COMMON_ARCH_H
#define LIMPET_COMMON_ARCH_H

#define LIMPET_ARCH_STRING_(x) #x
#define LIMPET_ARCH_STRING(x) LIMPET_ARCH_STRING_(x)
/* The formatter would take the paths for expressions. */
/* clang-format off */
#include LIMPET_ARCH_STRING(common/arch/LIMPET_ARCH/relocations.h)
/* clang-format on */

#endif
