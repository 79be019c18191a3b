/* turns MODULE...: has one of the modules loaded at a time, all at the same address.
 *
 * Commands: "put N": module N (from 0) in the place of what was there; "take N": N allocations
 * under its function; "quick N": module 0, N allocations, module 1, twice as many, without a pause;
 * "quit". */
#include <dlfcn.h>

#include "test/targets/target.h"

typedef void *turn_function(void *(*function)(uint64_t), uint64_t argument);

static void *module;
static turn_function *entry, *first_entry;

TARGET_FRAME static void *take(uint64_t bytes)
{
	void *block = malloc(bytes);

	if (!block)
		target_broken("no memory");
	free(block);
	TARGET_KEEP_FRAME();
	return NULL;
}

static void put(const char *path)
{
	if (module && dlclose(module))
		target_broken("%s", dlerror());
	module = dlopen(path, RTLD_NOW);
	entry = module ? (turn_function *)dlsym(module, "turn_entry") : NULL;
	if (!entry)
		target_broken("%s: %s", path, dlerror());
	if (!first_entry)
		first_entry = entry;
	if (entry != first_entry)
		target_broken("%s lies elsewhere", path);
}

TARGET_FRAME static void take_many(unsigned long count)
{
	while (count--)
		entry(take, 100);
}

int main(int argc, char *argv[])
{
	char line[128];
	unsigned long n;

	if (argc < 3)
		target_broken("usage: turns MODULE...");
	/* What is made once only is made before, and does not come between. */
	for (int i = 0; i < 3; i++)
		put(argv[1 + i % 2]);
	target_say("ready %d", (int)getpid());
	while (target_listen(line, sizeof(line))) {
		if (target_word(line, "put", &n) && n + 1 < (unsigned long)argc) {
			put(argv[n + 1]);
			target_say("there");
		} else if (target_word(line, "take", &n)) {
			take_many(n);
			target_say("taken");
		} else if (target_word(line, "quick", &n)) {
			put(argv[1]);
			take_many(n);
			put(argv[2]);
			take_many(2 * n);
			target_say("taken");
		} else if (target_word(line, "quit", &n)) {
			return 0;
		} else {
			target_broken("unknown command '%s'", line);
		}
	}
	return 0;
}
