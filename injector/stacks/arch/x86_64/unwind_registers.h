/* The registers of a stopped thread by libunwind's numbers (x86-64). */
#ifndef LIMPET_INJECTOR_STACKS_ARCH_UNWIND_REGISTERS_H
#define LIMPET_INJECTOR_STACKS_ARCH_UNWIND_REGISTERS_H

#include <libunwind.h>
#include <stdint.h>
#include <sys/user.h>

#define LIMPET_ARCH_UNWIND_REGISTERS 17u
#define LIMPET_ARCH_UNWIND_FP UNW_X86_64_RBP

static inline void limpet_arch_unwind_registers(const struct user_regs_struct *regs,
						uint64_t ret[LIMPET_ARCH_UNWIND_REGISTERS])
{
	ret[UNW_X86_64_RAX] = regs->rax;
	ret[UNW_X86_64_RDX] = regs->rdx;
	ret[UNW_X86_64_RCX] = regs->rcx;
	ret[UNW_X86_64_RBX] = regs->rbx;
	ret[UNW_X86_64_RSI] = regs->rsi;
	ret[UNW_X86_64_RDI] = regs->rdi;
	ret[UNW_X86_64_RBP] = regs->rbp;
	ret[UNW_X86_64_RSP] = regs->rsp;
	ret[UNW_X86_64_R8] = regs->r8;
	ret[UNW_X86_64_R9] = regs->r9;
	ret[UNW_X86_64_R10] = regs->r10;
	ret[UNW_X86_64_R11] = regs->r11;
	ret[UNW_X86_64_R12] = regs->r12;
	ret[UNW_X86_64_R13] = regs->r13;
	ret[UNW_X86_64_R14] = regs->r14;
	ret[UNW_X86_64_R15] = regs->r15;
	ret[UNW_X86_64_RIP] = regs->rip;
}

#endif
