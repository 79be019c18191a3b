/* decoy: a thread whose stack is full of the address that signal handlers return to, as
 * sigaction(2) leaves it there, and that is in none.
 *
 * Commands: "keep N" keeps N blocks of 100 bytes; "quit". */
#include <signal.h>
#include <sys/syscall.h>

#include "test/targets/target.h"

/* As the kernel has it, sigaction(2) */
struct kernel_action {
	void (*handler)(int);
	unsigned long flags;
	uint64_t restorer;
	uint64_t mask;
};

static void on_signal(int number)
{
	(void)number;
}

TARGET_FRAME static void decoy_keep(unsigned long n)
{
	static void *volatile kept;

	while (n--)
		kept = malloc(100);
	if (!kept)
		target_broken("no memory");
}

int main(void)
{
	struct kernel_action action = {0};
	volatile uint64_t words[32];
	char line[64];
	unsigned long n;

	if (signal(SIGUSR1, on_signal) == SIG_ERR ||
	    syscall(SYS_rt_sigaction, SIGUSR1, NULL, &action, sizeof(action.mask)) ||
	    !action.restorer)
		target_broken("no restorer");
	for (unsigned i = 0; i < 32; i++)
		words[i] = action.restorer;
	target_say("ready %d", getpid());
	while (target_listen(line, sizeof(line)) && target_word(line, "keep", &n)) {
		decoy_keep(n);
		target_say("kept");
	}
	return words[7] == action.restorer ? 0 : TARGET_EXIT_BROKEN;
}
