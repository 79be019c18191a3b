/* The only place that chooses the architecture's directory for code that reads .eh_frame. */
#ifndef LIMPET_INJECTOR_UNWIND_ARCH_H
#define LIMPET_INJECTOR_UNWIND_ARCH_H

#include "common/arch_path.h"

/* clang-format off */
#include LIMPET_ARCH_STRING(injector/unwind/arch/LIMPET_ARCH/cfi_machine.h)
/* clang-format on */

#endif
