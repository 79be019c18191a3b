/* An alternate signal stack that only the kernel knows. It is in use; nothing outside of the
 * process can see that. */
#include "planted.h"

#include <signal.h>

enum { STACK_BYTES = 65528 };

PLANTED_FRAME static void make_signal_stack(void)
{
	const stack_t stack = {.ss_sp = block(STACK_BYTES), .ss_size = STACK_BYTES};

	if (sigaltstack(&stack, NULL))
		broken("sigaltstack");
}

void plant(void)
{
	make_signal_stack();
}
