/* packed: a program whose library (packed_plugin.c) calls malloc and free by unusual pointers.
 *
 * "ready PID"; "packed N", "page N", "code N" allocate N blocks by these and free them, "kept N"
 * calls free by the structure and malloc as usual; "table N" opens a library of data alone
 * (packed_table.c), and calls by what it holds. "same": all words are as the dynamic linker left
 * them. "quit".
 */
#include <dlfcn.h>

#include "test/targets/packed.h"

static void run_table(unsigned long count)
{
	void *library = dlopen("packed-table.so", RTLD_NOW);
	const struct packed_table *table = library ? dlsym(library, "packed_table") : NULL;

	if (!table)
		target_broken("%s", dlerror());
	packed_calls(count, table->allocate, table->release);
}

int main(void)
{
	unsigned long n;
	char line[256];

	target_say("ready %d", getpid());
	while (target_listen(line, sizeof(line))) {
		if (!strcmp(line, "quit"))
			return packed_is_same() ? 0 : TARGET_EXIT_BROKEN;
		if (target_word(line, "table", &n))
			run_table(n);
		else if (!packed_run(line) && (strcmp(line, "same") != 0 || !packed_is_same()))
			target_broken("'%s', or the words are not the same", line);
		target_say("did");
	}
	return 0;
}
