/* loader: opens a module late, lets it allocate, and closes it again.
 *
 *	loader PATH_OF_PLUGIN
 *
 * Commands: "lock" locks all memory; "open", "allocate N", "free", "close"; "storm N" does all four
 *N times; "miss N" asks the module N times for a function that it does not have, by the name of one
 * that allocates; "quit". */
#include <dlfcn.h>
#include <sys/mman.h>

#include "test/targets/target.h"

static void *module;
static void **(*plugin_allocate)(unsigned, size_t);
static void (*plugin_free)(void **, unsigned);
static void **blocks;
static unsigned block_count;

static void *symbol(const char *name)
{
	void *address = dlsym(module, name);

	if (!address)
		target_broken("%s", dlerror());
	return address;
}

static void open_module(const char *path)
{
	module = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!module)
		target_broken("%s", dlerror());
	plugin_allocate = (void **(*)(unsigned, size_t))symbol("plugin_allocate");
	plugin_free = (void (*)(void **, unsigned))symbol("plugin_free");
}

static void allocate(unsigned count)
{
	blocks = plugin_allocate(count, 700);
	block_count = count;
	for (unsigned i = 0; i < count; i++)
		if (!blocks || !blocks[i] || *(unsigned char *)blocks[i] != 0x33)
			target_broken("the module gave no block");
}

/* Each message replaces the one before. */
TARGET_FRAME static void miss(unsigned long count)
{
	while (count--) {
		if (dlsym(module, "__libc_cfree"))
			target_broken("there is one");
		TARGET_KEEP_FRAME();
	}
}

int main(int argc, char **argv)
{
	char line[256];
	unsigned long n;

	if (argc != 2)
		target_broken("usage: loader PATH_OF_PLUGIN");
	target_say("ready %d", getpid());
	while (target_listen(line, sizeof(line))) {
		if (target_word(line, "open", &n)) {
			open_module(argv[1]);
			target_say("opened");
		} else if (!strcmp(line, "lock")) {
			if (mlockall(MCL_CURRENT))
				target_broken("mlockall: %m");
			target_say("locked");
		} else if (target_word(line, "allocate", &n)) {
			allocate((unsigned)n);
			target_say("allocated");
		} else if (target_word(line, "free", &n)) {
			plugin_free(blocks, block_count);
			target_say("freed");
		} else if (target_word(line, "close", &n)) {
			if (dlclose(module))
				target_broken("%s", dlerror());
			target_say("closed");
		} else if (target_word(line, "storm", &n)) {
			for (unsigned long i = 0; i < n; i++) {
				open_module(argv[1]);
				allocate(10);
				plugin_free(blocks, block_count);
				if (dlclose(module))
					target_broken("%s", dlerror());
			}
			target_say("stormed");
		} else if (target_word(line, "miss", &n)) {
			miss(n);
			target_say("missed");
		} else if (target_word(line, "quit", &n)) {
			return 0;
		} else {
			target_broken("unknown command '%s'", line);
		}
	}
	return 0;
}
