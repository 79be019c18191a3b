/* A system call that uses neither errno nor anything else of libc: for code that shares the memory,
 * and so the thread-local storage, of another thread. Returns what the kernel returns. */
#ifndef LIMPET_INJECTOR_PTRACE_ARCH_RAW_CALL_H
#define LIMPET_INJECTOR_PTRACE_ARCH_RAW_CALL_H

static inline long limpet_raw_call(long number, long a, long b, long c, long d, long e)
{
	register long r10 __asm__("r10") = d;
	register long r8 __asm__("r8") = e;
	long answer;

	__asm__ volatile("syscall"
			 : "=a"(answer)
			 : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8)
			 : "rcx", "r11", "memory");
	return answer;
}

#endif
