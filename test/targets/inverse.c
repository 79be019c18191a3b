/* inverse PATH_OF_PLUGIN: a lock of its own, taken in a callback of dl_iterate_phdr, and held
 * around calls of the loader. That is legal: none of these waits for dl_iterate_phdr.
 *
 * Commands: "load": opens the plugin; "cross": each call once, all while another thread waits for
 * the lock in its callback; "allocate N": by the plugin; "quit". */
#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <semaphore.h>

#include "test/targets/target.h"

static void *module;
static void **(*plugin_allocate)(unsigned, size_t);
static void (*plugin_free)(void **, unsigned);
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static sem_t inside;

static void *symbol(const char *name)
{
	void *address = dlsym(module, name);

	if (!address)
		target_broken("%s", dlerror());
	return address;
}

/* Opens what is there already: nothing is loaded. */
static void open_again(void)
{
	void *again = dlopen(NULL, RTLD_NOW);

	if (!again || dlclose(again))
		target_broken("%s", dlerror());
}

static int call_back(struct dl_phdr_info *info, size_t size, void *context)
{
	(void)info;
	(void)size;
	(void)context;
	sem_post(&inside);
	pthread_mutex_lock(&lock);
	open_again();
	pthread_mutex_unlock(&lock);
	return 1;
}

static void *look_through(void *context)
{
	dl_iterate_phdr(call_back, NULL);
	return context;
}

static void cross(void)
{
	pthread_t other;
	Dl_info found;

	pthread_mutex_lock(&lock);
	if (pthread_create(&other, NULL, look_through, NULL))
		target_broken("no thread");
	while (sem_wait(&inside))
		;
	dlerror();
	if (module) {
		plugin_allocate = (void **(*)(unsigned, size_t))symbol("plugin_allocate");
		plugin_free = (void (*)(void **, unsigned))symbol("plugin_free");
	}
	if (dlsym(RTLD_DEFAULT, "no_such_function") || !dlerror())
		target_broken("found what is not there");
	open_again();
	if (!dladdr(&lock, &found))
		target_broken("the program is nowhere");
	pthread_mutex_unlock(&lock);
	pthread_join(other, NULL);
}

static void allocate(unsigned count)
{
	void **blocks = plugin_allocate(count, 700);

	if (!blocks)
		target_broken("the module gave no block");
	plugin_free(blocks, count);
}

int main(int argc, char **argv)
{
	char line[256];
	unsigned long n;

	if (argc != 2)
		target_broken("usage: inverse PATH_OF_PLUGIN");
	sem_init(&inside, 0, 0);
	target_say("ready %d", getpid());
	while (target_listen(line, sizeof(line))) {
		if (target_word(line, "load", &n)) {
			module = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
			if (!module)
				target_broken("%s", dlerror());
			target_say("loaded");
		} else if (target_word(line, "cross", &n)) {
			/* Two that wait for each other do so for good. */
			alarm(10 * target_patience());
			cross();
			alarm(0);
			target_say("crossed");
		} else if (target_word(line, "allocate", &n)) {
			allocate((unsigned)n);
			target_say("allocated");
		} else if (target_word(line, "quit", &n)) {
			return 0;
		} else {
			target_broken("unknown command '%s'", line);
		}
	}
	return 0;
}
