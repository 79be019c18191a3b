/* A system call that touches neither errno nor anything else of libc's: for who shares another's
 * memory, and its thread-local storage with it. Answers what the kernel does. */
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
