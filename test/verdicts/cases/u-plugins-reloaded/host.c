#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <dlfcn.h>

/* A host that loads a filter for each job and unloads it after. The filter forgets its tables. */

static void pace(long ms)
{
	static struct timespec next;

	if (next.tv_sec == 0)
		clock_gettime(CLOCK_MONOTONIC, &next);
	next.tv_nsec += ms * 1000000;
	while (next.tv_nsec >= 1000000000) {
		next.tv_nsec -= 1000000000;
		next.tv_sec++;
	}
	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &next, NULL) != 0)
		continue;
}

__attribute__((noinline)) unsigned plugin_run(const char *path, unsigned id)
{
	void *plugin = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	unsigned (*filter)(const char *text);
	char *text = malloc(2000);
	unsigned result;

	if (plugin == NULL)
		exit(1);
	*(void **)&filter = dlsym(plugin, "spam_filter");
	memset(text, 'a' + (int)(id % 26), 1999);
	text[1999] = '\0';
	result = filter(text);
	free(text);
	dlclose(plugin);
	return result;
}

int main(int argc, char **argv)
{
	unsigned sum = 0;

	puts("ready");
	fflush(stdout);
	for (unsigned id = 0;; id++) {
		sum += plugin_run(argv[argc - 1], id);
		if (id % 20 == 0)
			fprintf(stderr, "%u jobs, %u bytes lost (%u)\n", id + 1, (id + 1) * 40000,
				sum);
		pace(200);
	}
}
