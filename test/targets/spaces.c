/* spaces PLUGIN: has a module in a namespace of its own (dlmopen), with a libc of its own.
 *
 * Commands: "open", "allocate N" in the module, by its own libc, "free", "close"; "own N" allocates
 * in spaces_own by the program's; "quit". */
#include <dlfcn.h>

#include "test/targets/target.h"

static void *module;
static void **(*plugin_allocate)(unsigned, size_t);
static void (*plugin_free)(void **, unsigned);
static void **blocks;
static unsigned block_count;

TARGET_FRAME static void spaces_own(unsigned long count)
{
	while (count--) {
		void *block = malloc(50);

		if (!block)
			target_broken("no memory");
		__asm__ volatile("" : "+r"(block) : : "memory");
		free(block);
	}
}

static void open_module(const char *path)
{
	module = dlmopen(LM_ID_NEWLM, path, RTLD_NOW | RTLD_LOCAL);
	if (!module)
		target_broken("%s", dlerror());
	plugin_allocate = (void **(*)(unsigned, size_t))dlsym(module, "plugin_allocate");
	plugin_free = (void (*)(void **, unsigned))dlsym(module, "plugin_free");
	if (!plugin_allocate || !plugin_free)
		target_broken("%s", dlerror());
}

int main(int argc, char **argv)
{
	char line[256];
	unsigned long n;

	if (argc != 2)
		target_broken("usage: spaces PLUGIN");
	target_say("ready %d", getpid());
	while (target_listen(line, sizeof(line))) {
		if (target_word(line, "open", &n)) {
			open_module(argv[1]);
			target_say("opened");
		} else if (target_word(line, "allocate", &n)) {
			block_count = (unsigned)n;
			blocks = plugin_allocate(block_count, 700);
			for (unsigned i = 0; i < block_count; i++)
				if (!blocks || !blocks[i] || *(unsigned char *)blocks[i] != 0x33)
					target_broken("the module gave no block");
			target_say("allocated");
		} else if (target_word(line, "free", &n)) {
			plugin_free(blocks, block_count);
			target_say("freed");
		} else if (target_word(line, "close", &n)) {
			if (dlclose(module))
				target_broken("%s", dlerror());
			target_say("closed");
		} else if (target_word(line, "own", &n)) {
			spaces_own(n);
			target_say("owned");
		} else if (target_word(line, "quit", &n)) {
			return 0;
		} else {
			target_broken("unknown command '%s'", line);
		}
	}
	return 0;
}
