/* A child without exec: its parent's lost blocks are lost in it, what the parent keeps is kept. */
#include "planted.h"

#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

void *kept_entries[20];

PLANTED_FRAME static void *make_entry(void)
{
	return block(104);
}

static void before(void)
{
	for (int i = 0; i < 20; i++) {
		kept_entries[i] = make_entry();
		make_entry();
	}
}

void plant(void)
{
	wiped(before);
	const pid_t child = fork();

	if (child < 0)
		broken("fork");
	/* The child's plant() returns, and main() says its PID. */
	if (child)
		pause_here();
	prctl(PR_SET_PDEATHSIG, SIGKILL);
}
