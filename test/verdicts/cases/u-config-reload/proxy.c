#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* A proxy with 20 MiB of routes, which reloads all of them five seconds into the capture. */
enum { ROUTES = 20000 };

struct route {
	char *prefix;
	unsigned char table[900];
};

struct config {
	struct route *routes[ROUTES];
};

static struct config *config;
static unsigned long live;

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

static void wait_for_line(void)
{
	char byte;

	while (read(STDIN_FILENO, &byte, 1) == 1 && byte != '\n')
		continue;
}

__attribute__((noinline)) struct config *config_load(unsigned generation)
{
	struct config *loaded = calloc(1, sizeof(*loaded));

	for (int i = 0; i < ROUTES; i++) {
		struct route *route = malloc(sizeof(*route));

		memset(route, i, sizeof(*route));
		route->prefix = malloc(48);
		snprintf(route->prefix, 48, "/service/%u/%d", generation, i);
		loaded->routes[i] = route;
		live += sizeof(*route) + 48;
	}
	return loaded;
}

__attribute__((noinline)) void config_free(struct config *old)
{
	for (int i = 0; i < ROUTES; i++) {
		free(old->routes[i]->prefix);
		free(old->routes[i]);
		live -= sizeof(struct route) + 48;
	}
	free(old);
}

__attribute__((noinline)) void forward(unsigned id)
{
	char *volatile buffer = malloc(4096);

	memset(buffer, (int)id, 4096);
	free(buffer);
}

int main(void)
{
	config = config_load(1);
	puts("ready");
	fflush(stdout);
	wait_for_line();
	for (unsigned tick = 0;; tick++) {
		forward(tick);
		if (tick == 250) {
			struct config *old = config;

			config = config_load(2);
			config_free(old);
		}
		if (tick % 100 == 0)
			fprintf(stderr, "tick %u: %lu bytes of routes\n", tick, live);
		pace(20);
	}
}
