/* busy: one thread that does nothing but malloc and free.
 *
 *	busy      "ready PID"; ends by a signal */
#include "test/targets/target.h"

int main(void)
{
	target_say("ready %d", getpid());
	for (;;) {
		void *volatile block = malloc(100);

		free(block);
	}
}
