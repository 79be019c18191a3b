/* Held by a jmp_buf, which keeps rbx, r12 to r15 as they were. */
#include "planted.h"

#include <setjmp.h>

jmp_buf kept_jump;

PLANTED_FRAME static void *make_object(void)
{
	return block(104);
}

PLANTED_FRAME static void save(void *object)
{
	__asm__ volatile("mov %0, %%rbx; mov %1, %%rdi; call _setjmp; xor %%ebx, %%ebx"
			 :
			 : "r"(object), "r"(&kept_jump)
			 : "rax", "rbx", "rcx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11",
			   "memory");
}

void plant(void)
{
	save(make_object());
}
