#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* A renderer: each scene takes 100 MiB of tiles and gives all back. The names that it resolves
 * stay. */
enum { TILES = 1600, TILE = 64 * 1024 };

static void *tiles[TILES];
static unsigned long resolved, scenes;

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

__attribute__((noinline)) void *tile_new(int color)
{
	void *tile = malloc(TILE);

	memset(tile, color, TILE);
	return tile;
}

__attribute__((noinline)) void scene_load(int from, int count)
{
	for (int i = from; i < from + count; i++)
		tiles[i] = tile_new(i);
}

__attribute__((noinline)) void scene_drop(void)
{
	for (int i = 0; i < TILES; i++) {
		free(tiles[i]);
		tiles[i] = NULL;
	}
	scenes++;
}

struct asset {
	struct asset *next;
	char path[1000];
};

static struct asset *assets;

__attribute__((noinline)) struct asset *asset_resolve(const char *name)
{
	struct asset *asset = malloc(sizeof(*asset));

	snprintf(asset->path, sizeof(asset->path), "/srv/assets/%s", name);
	asset->next = assets; /* the list is read by nobody */
	assets = asset;
	resolved++;
	return asset;
}

int main(void)
{
	char name[40];

	for (unsigned tick = 0;; tick++) {
		int phase = tick % 60; /* three seconds */

		if (phase < 32)
			scene_load(phase * 50, 50);
		if (phase == 50)
			scene_drop();
		for (int i = 0; i < 2; i++) {
			snprintf(name, sizeof(name), "texture-%u-%d.png", tick, i);
			asset_resolve(name);
		}
		if (tick == 60) {
			puts("ready");
			fflush(stdout);
		}
		if (tick % 40 == 0)
			fprintf(stderr, "%lu scenes, %lu assets, %lu bytes\n", scenes, resolved,
				resolved * sizeof(struct asset));
		pace(50);
	}
}
