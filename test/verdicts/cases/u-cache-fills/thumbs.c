#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* A thumbnail server. Its cache takes 2,000 pictures; it is empty at the capture's begin and full
 * at six seconds. */
enum { CACHE = 2000, THUMB = 20000 };

static struct {
	unsigned id;
	unsigned char *pixels;
} cache[CACHE];
static unsigned at, made, evicted;

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

__attribute__((noinline)) unsigned char *thumb_scale(unsigned id)
{
	unsigned char *source = malloc(200000), *pixels = malloc(THUMB);

	memset(source, (int)id, 200000);
	memcpy(pixels, source, THUMB);
	free(source);
	made++;
	return pixels;
}

__attribute__((noinline)) void cache_put(unsigned id)
{
	if (cache[at].pixels != NULL) {
		free(cache[at].pixels);
		evicted++;
	}
	cache[at].pixels = thumb_scale(id);
	cache[at].id = id;
	at = (at + 1) % CACHE;
}

int main(void)
{
	puts("ready");
	fflush(stdout);
	wait_for_line();
	for (unsigned tick = 0;; tick++) {
		for (int i = 0; i < 7; i++)
			cache_put(tick * 7 + i);
		if (tick % 100 == 0)
			fprintf(stderr, "tick %u: %u made, %u evicted, %u bytes live\n", tick, made,
				evicted, (made - evicted) * THUMB);
		pace(20);
	}
}
