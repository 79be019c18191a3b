/* packed: a program whose library (packed_plugin.c) calls malloc and free by unusual pointers.
 *
 * "ready PID"; "packed N", "page N", "code N" allocate N blocks by these and free them, "kept N"
 * calls free by the structure and malloc as usual. "same": all words are as the dynamic linker left
 * them. "quit".
 */
#include "test/targets/packed.h"

int main(void)
{
	char line[256];

	target_say("ready %d", getpid());
	while (target_listen(line, sizeof(line))) {
		if (!strcmp(line, "quit"))
			return packed_is_same() ? 0 : TARGET_EXIT_BROKEN;
		if (!packed_run(line) && (strcmp(line, "same") != 0 || !packed_is_same()))
			target_broken("'%s', or the words are not the same", line);
		target_say("did");
	}
	return 0;
}
