/* bare: a program whose library (bare_plugin.c) has no unwind information.
 *
 * "ready PID", with the library loaded if there is a second argument. "load" loads it: "loaded".
 * "run N": N blocks on each of its eight paths, which stay: "ran". "quit".
 */
#include <dlfcn.h>

#include "test/targets/target.h"

typedef void *outer_fn(unsigned path, size_t bytes);

static outer_fn *outer;

static void load(const char *path)
{
	void *plugin = dlopen(path, RTLD_NOW);
	void *found = plugin ? dlsym(plugin, "bare_outer") : NULL;

	if (!found)
		target_broken("%s", dlerror());
	memcpy(&outer, &found, sizeof(found));
}

TARGET_FRAME static void run(unsigned count)
{
	for (unsigned i = 0; i < count * 8; i++) {
		if (!outer(i % 8, 100 + i % 8))
			target_broken("no memory");
		TARGET_KEEP_FRAME();
	}
}

int main(int argc, char **argv)
{
	char line[64];

	if (argc < 2)
		target_broken("usage: bare LIBRARY [now]");
	if (argc > 2)
		load(argv[1]);
	target_say("ready %d", getpid());
	while (target_listen(line, sizeof(line))) {
		unsigned long count;

		if (!strcmp(line, "quit"))
			return 0;
		if (!strcmp(line, "load")) {
			load(argv[1]);
			target_say("loaded");
		} else if (target_word(line, "run", &count)) {
			run((unsigned)count);
			target_say("ran");
		} else {
			target_broken("unknown command '%s'", line);
		}
	}
	return 0;
}
