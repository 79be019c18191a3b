/* Instructions and flags of x86-64 that the injector looks for. */
#ifndef LIMPET_INJECTOR_PTRACE_ARCH_MACHINE_H
#define LIMPET_INJECTOR_PTRACE_ARCH_MACHINE_H

#include <stdbool.h>
#include <stdint.h>
#include <x86intrin.h>

#define LIMPET_ARCH_SYSCALL_RET "\x0f\x05\xc3"
#define LIMPET_ARCH_POP_RAX_RET "\x58\xc3"
/* mov $15, %rax; syscall (glibc, musl) and mov $15, %eax; syscall */
#define LIMPET_ARCH_RESTORER_LONG "\x48\xc7\xc0\x0f\x00\x00\x00\x0f\x05"
#define LIMPET_ARCH_RESTORER_SHORT "\xb8\x0f\x00\x00\x00\x0f\x05"
/* Trap flag and direction flag: both must be clear at the entry of a function. Alignment check
 * flag: libc's code faults with it set. */
#define LIMPET_ARCH_FLAGS_CLEAR 0x40500u

/* Distance from the return address of a signal frame (the restorer) to the saved program counter:
 * struct rt_sigframe, then uc_mcontext.rip in struct ucontext. */
#define LIMPET_ARCH_SIGNAL_PC_OFFSET 176u

/* Of a signal frame, whose first word is the restorer's address: its alignment; the words of the
 * saved stack pointer and code segment (the low half is that of the kernel's 64-bit user code); and
 * how far below that stack pointer it begins at most, unless it is on another stack: the red zone,
 * the extended state (AMX: 11 KiB) and the frame itself. */
#define LIMPET_ARCH_SIGNAL_FRAME_ALIGNS(at) ((at) % 16 == 8)
#define LIMPET_ARCH_SIGNAL_FRAME_SP 21u
#define LIMPET_ARCH_SIGNAL_FRAME_SEGMENTS 24u
#define LIMPET_ARCH_SIGNAL_FRAME_REACH (16u << 10)
#define LIMPET_ARCH_USER_CODE 0x33u
#define LIMPET_ARCH_USER_CODE_XEN 0xe033u /* in a paravirtual guest */

/* Whether the bytes right before an address may be a call that returns to it: E8 with a
 * displacement, or FF /2 with any operand (Intel SDM, volume 2, CALL). */
#define LIMPET_ARCH_CALL_BYTES 7u
static inline bool limpet_arch_ends_call(const uint8_t before[LIMPET_ARCH_CALL_BYTES])
{
	if (before[LIMPET_ARCH_CALL_BYTES - 5] == 0xe8)
		return true;
	for (unsigned bytes = 2; bytes <= LIMPET_ARCH_CALL_BYTES; bytes++) {
		const uint8_t *code = before + LIMPET_ARCH_CALL_BYTES - bytes;
		uint8_t mod = code[1] >> 6, rm = code[1] & 7;
		unsigned wanted = 2 + (mod != 3 && rm == 4) + (mod == 1) + (mod == 2 ? 4 : 0) +
				  (mod == 0 && rm == 5 ? 4 : 0);

		if (code[0] != 0xff || (code[1] & 0x38) != 0x10)
			continue;
		/* A base of 5 with mod 0 has a displacement of four bytes. */
		if (mod == 0 && rm == 4 && bytes > 2 && (code[2] & 7) == 5)
			wanted += 4;
		if (wanted == bytes)
			return true;
	}
	return false;
}

/* Whether these four bytes may be the displacement at the end of an instruction: CALL, JMP, Jcc, or
 * a LEA relative to rip (Intel SDM, volume 2). */
static inline bool limpet_arch_has_distance(const uint8_t *distance)
{
	return distance[-1] == 0xe8 || distance[-1] == 0xe9 ||
	       (distance[-2] == 0x0f && (distance[-1] & 0xf0) == 0x80) ||
	       (distance[-2] == 0x8d && (distance[-1] & 0xc7) == 0x05);
}

/* How glibc mangles addresses of functions for atexit(3) and setjmp(3): PTR_MANGLE, with a word at
 * this offset from the thread pointer, which is the same for all threads
 * (sysdeps/unix/sysv/linux/x86_64/pointer_guard.h, struct tcbhead_t). */
#define LIMPET_ARCH_POINTER_GUARD 0x30u
static inline uint64_t limpet_arch_mangle(uint64_t value, uint64_t guard)
{
	value ^= guard;
	return value << 17 | value >> 47;
}
static inline uint64_t limpet_arch_demangle(uint64_t value, uint64_t guard)
{
	return (value >> 17 | value << 47) ^ guard;
}

/* DR7: execution breakpoint 0, for this thread. */
#define LIMPET_ARCH_DEBUG_ENABLE_0 1u
/* INT3, and how far it moves the program counter. */
#define LIMPET_ARCH_BREAKPOINT 0xccu
#define LIMPET_ARCH_BREAKPOINT_BYTES 1u

#endif
