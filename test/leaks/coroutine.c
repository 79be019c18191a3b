/* Held by the frame of a suspended coroutine, whose stack is a block. As `coroutine_running` the
 * main thread rests in it: its stack pointer is inside a block. */
#include "planted.h"

#include <ucontext.h>

enum { STACK_BYTES = 262128 };

ucontext_t main_context, coroutine_context;
char *coroutine_stack;

PLANTED_FRAME static void *make_task(void)
{
	return block(104);
}

static void coroutine(void)
{
	void *volatile tasks[10];

	for (int i = 0; i < 10; i++)
		tasks[i] = make_task();
	if (called("coroutine_running"))
		rest();
	swapcontext(&coroutine_context, &main_context);
	__asm__ volatile("" : : "r"(tasks) : "memory");
}

void plant(void)
{
	coroutine_stack = block(STACK_BYTES);
	getcontext(&coroutine_context);
	coroutine_context.uc_stack.ss_sp = coroutine_stack;
	coroutine_context.uc_stack.ss_size = STACK_BYTES;
	makecontext(&coroutine_context, coroutine, 0);
	swapcontext(&main_context, &coroutine_context);
}
