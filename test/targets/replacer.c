/* replacer MODULE...: has one of the modules loaded at a time, all at the same address, and
 * allocates under a frame of that one, which differ in size.
 *
 * Commands: "use N" puts module N (from 0) in the place of what was there; "quit" ends with 0 if
 * every module came to lie where the first one had. */
#include <dlfcn.h>
#include <pthread.h>

#include "test/targets/target.h"

typedef void *plugin_frame(void *(*function)(uint64_t), uint64_t argument);

static volatile bool over;
static const char *volatile wanted, *volatile used;
static plugin_frame *place; /* where the first one had its function */

static TARGET_FRAME void *take(uint64_t bytes)
{
	void *block = malloc(bytes);

	if (!block)
		target_broken("no memory");
	free(block);
	TARGET_KEEP_FRAME();
	return NULL;
}

static void *load(const char *path, plugin_frame **ret_function)
{
	void *module = dlopen(path, RTLD_NOW);
	void *symbol = module ? dlsym(module, "plugin_frame") : NULL;

	if (!symbol)
		target_broken("%s: %s", path, dlerror());
	*ret_function = (plugin_frame *)symbol;
	if (!place)
		place = *ret_function;
	if (*ret_function != place)
		target_broken("%s lies elsewhere", path);
	return module;
}

static void *work(void *unused)
{
	const struct timespec pause = {.tv_nsec = 100000};
	plugin_frame *function = NULL;
	void *module = NULL;

	(void)unused;
	while (!over) {
		const char *path = wanted;

		nanosleep(&pause, NULL);
		if (path != used) {
			if (module)
				dlclose(module);
			module = load(path, &function);
			used = path;
		}
		for (unsigned i = 1; function && i < 40; i++)
			function(take, i);
	}
	return NULL;
}

int main(int argc, char *argv[])
{
	pthread_t thread;
	char line[128];
	unsigned long number;

	const struct timespec pause = {.tv_nsec = 100000};

	if (argc < 2)
		target_broken("usage: replacer MODULE...");
	if (pthread_create(&thread, NULL, work, NULL) != 0)
		target_broken("pthread_create");
	target_say("ready %d", (int)getpid());
	while (target_listen(line, sizeof(line))) {
		if (target_word(line, "use", &number) && number + 1 < (unsigned long)argc) {
			wanted = argv[number + 1];
			while (used != wanted)
				nanosleep(&pause, NULL);
			target_say("used");
		} else if (target_word(line, "quit", &number)) {
			break;
		} else {
			target_broken("unknown command '%s'", line);
		}
	}
	over = true;
	pthread_join(thread, NULL);
	return 0;
}
