/* A system call that a seccomp filter turned into SIGSYS, as its handler finds it: the registers of
 * SVC. */
#ifndef LIMPET_COMMON_ARCH_AARCH64_TRAPPED_CALL_H
#define LIMPET_COMMON_ARCH_AARCH64_TRAPPED_CALL_H

#include <stdint.h>
#include <ucontext.h>

/* index: below 6 */
static inline uint64_t limpet_arch_trapped_argument(const ucontext_t *context, unsigned index)
{
	return context->uc_mcontext.regs[index];
}

static inline void limpet_arch_trapped_answer(ucontext_t *context, int64_t answer)
{
	context->uc_mcontext.regs[0] = (uint64_t)answer;
}

#endif
