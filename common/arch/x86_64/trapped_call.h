/* A system call that a seccomp filter turned into SIGSYS, as its handler finds it: SYSCALL's
 * registers. */
#ifndef LIMPET_COMMON_ARCH_X86_64_TRAPPED_CALL_H
#define LIMPET_COMMON_ARCH_X86_64_TRAPPED_CALL_H

#include <stdint.h>
#include <ucontext.h>

static inline uint64_t limpet_arch_trapped_argument(const ucontext_t *context, unsigned index)
{
	static const int registers[] = {REG_RDI, REG_RSI, REG_RDX, REG_R10, REG_R8, REG_R9};

	return (uint64_t)context->uc_mcontext.gregs[registers[index]];
}

static inline void limpet_arch_trapped_answer(ucontext_t *context, int64_t answer)
{
	context->uc_mcontext.gregs[REG_RAX] = answer;
}

#endif
