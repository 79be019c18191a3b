#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <fcntl.h>
#include <sys/mman.h>

/* A map server: each tile is decoded into a mapping of its own, which nobody unmaps. */
enum { TILE = 256 * 1024 };

static unsigned long mapped;

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

__attribute__((noinline)) unsigned char *tile_decode(unsigned id)
{
	unsigned char *tile =
		mmap(NULL, TILE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (tile == MAP_FAILED)
		exit(1);
	memset(tile, (int)id | 1, TILE);
	mapped++;
	return tile;
}

__attribute__((noinline)) unsigned long tile_serve(unsigned id)
{
	unsigned char *tile = tile_decode(id);
	char *volatile header = malloc(512);
	unsigned long sum = 0;

	memset(header, 'h', 512);
	for (int i = 0; i < TILE; i += 4096)
		sum += tile[i];
	free(header);
	return sum;
}

int main(void)
{
	unsigned long sum = 0;

	puts("ready");
	fflush(stdout);
	for (unsigned id = 0;; id++) {
		sum += tile_serve(id);
		if (id % 100 == 0)
			fprintf(stderr, "%lu tiles mapped, %lu bytes (%lu)\n", mapped,
				mapped * TILE, sum);
		pace(50);
	}
}
