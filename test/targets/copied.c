/* copied: a program that goes by its own copy of a variable of a library's (copied_plugin.c), which
 * holds the address of free.
 *
 * "ready PID"; "free N" has the library allocate N blocks, and frees them by that address. "quit".
 */
#include "test/targets/target.h"

extern void (*copied_free)(void *);
char *copied_allocate(void);

TARGET_FRAME static void copied_run(unsigned long count)
{
	while (count--)
		copied_free(copied_allocate());
}

int main(void)
{
	char line[256];
	unsigned long n;

	target_say("ready %d", getpid());
	while (target_listen(line, sizeof(line))) {
		if (target_word(line, "free", &n)) {
			copied_run(n);
			target_say("freed");
		} else if (!strcmp(line, "quit")) {
			return 0;
		} else {
			target_broken("unknown command '%s'", line);
		}
	}
	return 0;
}
