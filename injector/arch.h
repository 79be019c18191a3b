/* The one place that chooses the injector's architecture folder. */
#ifndef LIMPET_INJECTOR_ARCH_H
#define LIMPET_INJECTOR_ARCH_H

#define LIMPET_ARCH_STRING_(x) #x
#define LIMPET_ARCH_STRING(x) LIMPET_ARCH_STRING_(x)
/* The formatter would take the paths for expressions. */
/* clang-format off */
#include LIMPET_ARCH_STRING(injector/arch/LIMPET_ARCH/cfi_machine.h)
#include LIMPET_ARCH_STRING(injector/arch/LIMPET_ARCH/home_frame.h)
#include LIMPET_ARCH_STRING(injector/arch/LIMPET_ARCH/machine.h)
#include LIMPET_ARCH_STRING(injector/arch/LIMPET_ARCH/raw_call.h)
/* clang-format on */

#endif
