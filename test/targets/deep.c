/* deep: a program whose plugin (deep_plugin.c) looks for functions in its own libraries first, and
 * is bound to each at the first call.
 *
 * "ready PID", when the plugin has called malloc; "grow" has it call realloc, "drop" free, each for
 * a block of its own, and the program malloc, realloc and free: "did". "quit".
 */
#include <dlfcn.h>

#include "test/targets/target.h"

typedef void *make_fn(size_t bytes);
typedef void *grow_fn(void *block, size_t bytes);
typedef void drop_fn(void *block);

static void *plugin;

static void *function(const char *name)
{
	void *found = dlsym(plugin, name);

	if (!found)
		target_broken("%s", dlerror());
	return found;
}

/* By the program's own allocator. */
TARGET_FRAME static void own(void)
{
	void *block = realloc(malloc(10), 1000);

	if (!block)
		target_broken("no memory");
	free(block);
}

int main(void)
{
	char line[64];
	char *block;

	plugin = dlopen("deep-plugin.so", RTLD_LAZY | RTLD_LOCAL | RTLD_DEEPBIND);
	if (!plugin)
		target_broken("%s", dlerror());
	block = ((make_fn *)function("deep_make"))(100);
	memset(block, 0x55, 100);
	target_say("ready %d", getpid());
	while (target_listen(line, sizeof(line))) {
		if (!strcmp(line, "quit"))
			return 0;
		if (!strcmp(line, "grow"))
			block = ((grow_fn *)function("deep_grow"))(block, 1000);
		else if (!strcmp(line, "drop"))
			((drop_fn *)function("deep_drop"))(((make_fn *)function("deep_make"))(50));
		else
			target_broken("unknown command '%s'", line);
		if (!block || block[0] != 0x55 || block[99] != 0x55)
			target_broken("the block is another");
		own();
		target_say("did");
	}
	return 0;
}
