/* setter PLUGIN: sets variables that began as malloc and free to functions of its own
 * (setter_calls.c). "work N" calls all of these N times, "load" loads the plugin, "plugin N" does
 * the same there. "back N" sets a variable that began as malloc to it again, and keeps N blocks
 * from there. */
#include <dlfcn.h>

#include "test/targets/setter_calls.h"
#include "test/targets/target.h"

static void call(void *plugin, const char *name, unsigned long count)
{
	void (*function)(unsigned long) = (void (*)(unsigned long))(uintptr_t)dlsym(plugin, name);

	if (!function)
		target_broken("no %s", name);
	function(count);
}

static void *(*volatile taker)(size_t) = malloc;

__attribute__((noinline)) static void setter_back(unsigned long count)
{
	void *libc = dlopen("libc.so.6", RTLD_LAZY | RTLD_NOLOAD);
	void *function = libc ? dlsym(libc, "malloc") : NULL;

	if (!function)
		target_broken("no malloc");
	taker = (void *(*)(size_t))(uintptr_t)function;
	for (unsigned long i = 0; i < count; i++)
		if (!taker(100))
			target_broken("no memory");
}

int main(int argc, char **argv)
{
	void *plugin = NULL;
	unsigned long n;
	char line[64];

	if (argc != 2)
		target_broken("usage: setter PLUGIN");
	target_say("ready %d", getpid());
	while (target_listen(line, sizeof(line))) {
		if (target_word(line, "work", &n)) {
			setter_free(n);
			setter_take(n);
			target_say("worked");
		} else if (target_word(line, "load", &n)) {
			plugin = dlopen(argv[1], RTLD_LAZY | RTLD_LOCAL);
			if (!plugin)
				target_broken("%s", dlerror());
			target_say("loaded");
		} else if (target_word(line, "plugin", &n)) {
			call(plugin, "setter_free", n);
			call(plugin, "setter_take", n);
			target_say("worked");
		} else if (target_word(line, "back", &n)) {
			setter_back(n);
			target_say("kept");
		} else if (target_word(line, "quit", &n)) {
			break;
		} else {
			target_broken("what is '%s'?", line);
		}
	}
	return 0;
}
