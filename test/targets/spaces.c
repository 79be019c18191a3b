/* spaces PLUGIN OTHER: has a module in a namespace of its own (dlmopen), with a libc of its own.
 *
 * Commands: "open", or "lazy" with slots that are bound later; "allocate N" in the module, by its
 * own libc, "free", "close"; "own N" allocates in spaces_own by the program's. "storm" starts two
 * threads: one opens and closes namespaces, the other OTHER in the program's own, and both call
 * what they have opened; "hold" ends them, and says how many blocks of 7777 bytes they got.
 * "quit". */
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>

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

static void open_module(const char *path, int mode)
{
	module = dlmopen(LM_ID_NEWLM, path, mode | RTLD_LOCAL);
	if (!module)
		target_broken("%s", dlerror());
	plugin_allocate = (void **(*)(unsigned, size_t))dlsym(module, "plugin_allocate");
	plugin_free = (void (*)(void **, unsigned))dlsym(module, "plugin_free");
	if (!plugin_allocate || !plugin_free)
		target_broken("%s", dlerror());
}

static struct weather {
	const char *path;
	bool apart; /* in a namespace of its own */
	pthread_t thread;
	unsigned long rounds, blocks;
} weathers[2];
static atomic_bool is_calm;

static void *storm(void *context)
{
	struct weather *weather = context;
	const unsigned count = 12;

	for (; !is_calm; weather->rounds++) {
		int mode = RTLD_LOCAL | (weather->rounds % 2 ? RTLD_NOW : RTLD_LAZY);
		void *handle = weather->apart ? dlmopen(LM_ID_NEWLM, weather->path, mode)
					      : dlopen(weather->path, mode);
		void **(*allocate)(unsigned, size_t);
		void (*release)(void **, unsigned);

		if (!handle)
			target_broken("%s", dlerror());
		allocate = (void **(*)(unsigned, size_t))dlsym(handle, "plugin_allocate");
		release = (void (*)(void **, unsigned))dlsym(handle, "plugin_free");
		if (!allocate || !release)
			target_broken("%s", dlerror());
		release(allocate(count, 7777), count);
		weather->blocks += count;
		if (dlclose(handle))
			target_broken("%s", dlerror());
		/* Nobody could attach while the linker's lock is always held. */
		usleep(weather->apart ? 5000 : 3000);
	}
	return NULL;
}

static void begin_storm(char **paths)
{
	is_calm = false;
	for (unsigned i = 0; i < 2; i++) {
		weathers[i] = (struct weather){.path = paths[i], .apart = !i};
		if (pthread_create(&weathers[i].thread, NULL, storm, &weathers[i]))
			target_broken("no thread");
	}
}

static unsigned long end_storm(void)
{
	unsigned long sum = 0;

	is_calm = true;
	for (unsigned i = 0; i < 2; i++) {
		pthread_join(weathers[i].thread, NULL);
		sum += weathers[i].blocks;
	}
	return sum;
}

int main(int argc, char **argv)
{
	char line[256];
	unsigned long n;

	if (argc != 3)
		target_broken("usage: spaces PLUGIN OTHER");
	target_say("ready %d", getpid());
	while (target_listen(line, sizeof(line))) {
		if (target_word(line, "open", &n)) {
			open_module(argv[1], RTLD_NOW);
			target_say("opened");
		} else if (target_word(line, "lazy", &n)) {
			open_module(argv[1], RTLD_LAZY);
			target_say("opened");
		} else if (target_word(line, "storm", &n)) {
			begin_storm(argv + 1);
			target_say("storming");
		} else if (target_word(line, "hold", &n)) {
			n = end_storm();
			target_say("held %lu %lu %lu", n, weathers[0].rounds, weathers[1].rounds);
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
