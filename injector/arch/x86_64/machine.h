/* Instructions and flags of x86-64 that the injector looks for. */
#ifndef LIMPET_INJECTOR_ARCH_MACHINE_H
#define LIMPET_INJECTOR_ARCH_MACHINE_H

#include <stdint.h>
#include <x86intrin.h>

#define LIMPET_ARCH_SYSCALL_RET "\x0f\x05\xc3"
#define LIMPET_ARCH_POP_RAX_RET "\x58\xc3"
/* mov $15, %rax; syscall (glibc, musl) and mov $15, %eax; syscall */
#define LIMPET_ARCH_RESTORER_LONG "\x48\xc7\xc0\x0f\x00\x00\x00\x0f\x05"
#define LIMPET_ARCH_RESTORER_SHORT "\xb8\x0f\x00\x00\x00\x0f\x05"
/* Trap flag and direction flag: both clear at the entry of a function. */
#define LIMPET_ARCH_FLAGS_CLEAR 0x500u

/* From the return address of a signal frame (the restorer) to the saved program counter: struct
 * rt_sigframe, then uc_mcontext.rip in struct ucontext. */
#define LIMPET_ARCH_SIGNAL_PC_OFFSET 176u

/* Of a signal frame, whose first word is the restorer's address: its alignment, and which word has
 * the code segment, that of the kernel's 64-bit user code in its low half. */
#define LIMPET_ARCH_SIGNAL_FRAME_ALIGNS(at) ((at) % 16 == 8)
#define LIMPET_ARCH_SIGNAL_FRAME_SEGMENTS 24u
#define LIMPET_ARCH_USER_CODE 0x33u
/* DR7: execution breakpoint 0, for this thread. */
#define LIMPET_ARCH_DEBUG_ENABLE_0 1u

/* The agent's clock. */
static inline uint64_t limpet_arch_ticks(void)
{
	unsigned cpu;

	return __rdtscp(&cpu);
}

#endif
