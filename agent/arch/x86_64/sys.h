/* System calls and processor primitives for code without libc. Never touches errno. */
#ifndef LIMPET_AGENT_ARCH_SYS_H
#define LIMPET_AGENT_ARCH_SYS_H

#include <stdint.h>
#include <sys/syscall.h>

#include "common/arch/x86_64/pause.h"

/* NOLINTNEXTLINE(readability-function-size): as many as a system call has */
static inline long limpet_syscall6(long number, long a, long b, long c, long d, long e, long f)
{
	register long r10 __asm__("r10") = d;
	register long r8 __asm__("r8") = e;
	register long r9 __asm__("r9") = f;
	long answer;

	__asm__ volatile("syscall"
			 : "=a"(answer)
			 : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
			 : "rcx", "r11", "memory");
	return answer;
}
#define limpet_syscall4(n, a, b, c, d) limpet_syscall6(n, a, b, c, d, 0, 0)
#define limpet_syscall3(n, a, b, c) limpet_syscall6(n, a, b, c, 0, 0, 0)
#define limpet_syscall1(n, a) limpet_syscall6(n, a, 0, 0, 0, 0, 0)

/* The word at the thread pointer is the thread pointer itself (psABI, TLS variant II). */
static inline uint64_t limpet_thread_pointer(void)
{
	uint64_t tp;

	__asm__("movq %%fs:0, %0" : "=r"(tp));
	return tp;
}

/* A thread's block has as many bytes at least: compiled code reads a canary at 40. */
#define LIMPET_BLOCK_BYTES 64u
/* Of a block that has these: the same, and not 0, for all threads of glibc, which copies its stack
 * guard and its pointer guard, both random, into each. */
static inline uint64_t limpet_block_mark(uint64_t thread_pointer)
{
	const uint64_t *words = (const uint64_t *)(uintptr_t)thread_pointer;

	return words[2] == thread_pointer ? words[5] ^ words[6] : 0;
}

/* `at` need not be mapped. A no-op on a processor without this instruction. */
static inline void limpet_prefetch_to_write(const void *at)
{
	__asm__ volatile("prefetchw %0" : : "m"(*(const char *)at));
}

/* The boot stub's last step: munmap(map, bytes) by a `syscall; ret` outside of the stub, then
 * rt_sigreturn with the signal frame at `sp`. In exit.S. */
__attribute__((noreturn)) void limpet_boot_exit(uint64_t sp, uint64_t gadget, uint64_t map,
						uint64_t bytes);

#endif
