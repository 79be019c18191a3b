/* The one place that chooses the architecture directory of what drives the processor: registers,
 * code, signal frames. */
#ifndef LIMPET_INJECTOR_PTRACE_ARCH_H
#define LIMPET_INJECTOR_PTRACE_ARCH_H

#include "common/arch_path.h"

/* The formatter would take the paths for expressions. */
/* clang-format off */
#include LIMPET_ARCH_STRING(injector/ptrace/arch/LIMPET_ARCH/sigreturn_frame.h)
#include LIMPET_ARCH_STRING(injector/ptrace/arch/LIMPET_ARCH/interrupted.h)
#include LIMPET_ARCH_STRING(injector/ptrace/arch/LIMPET_ARCH/machine.h)
#include LIMPET_ARCH_STRING(injector/ptrace/arch/LIMPET_ARCH/raw_call.h)
#include LIMPET_ARCH_STRING(injector/ptrace/arch/LIMPET_ARCH/rest.h)
/* clang-format on */

#endif
