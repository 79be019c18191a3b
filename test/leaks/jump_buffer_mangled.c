/* Held by a jmp_buf in the place of rbp, which glibc mangles: no tool that looks at words sees it.
 */
#include "planted.h"

#include <setjmp.h>

jmp_buf kept_jump;

PLANTED_FRAME static void *make_object(void)
{
	return block(104);
}

/* The leap is over the red zone. */
PLANTED_FRAME static void save(void *object)
{
	__asm__ volatile("lea -136(%%rsp), %%rsp; push %%rbp; mov %%rax, %%rbp; call _setjmp\n\t"
			 "pop %%rbp; lea 136(%%rsp), %%rsp"
			 : "+a"(object)
			 : "D"(&kept_jump)
			 : "rcx", "rdx", "rsi", "r8", "r9", "r10", "r11", "cc", "memory");
}

void plant(void)
{
	save(make_object());
}
