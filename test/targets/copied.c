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
	target_serve("free", copied_run, "freed");
	return 0;
}
