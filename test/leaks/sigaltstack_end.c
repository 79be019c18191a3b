/* An alternate signal stack, of which the program keeps the end, and the kernel the start. */
#include "planted.h"

#include <signal.h>

enum { STACK_BYTES = 65528 };

char *signal_stack_end;

PLANTED_FRAME static void make_signal_stack(void)
{
	const stack_t stack = {.ss_sp = block(STACK_BYTES), .ss_size = STACK_BYTES};

	signal_stack_end = (char *)stack.ss_sp + STACK_BYTES;
	if (sigaltstack(&stack, NULL))
		broken("sigaltstack");
}

void plant(void)
{
	make_signal_stack();
}
