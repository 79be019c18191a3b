#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "pool.h"
#include <stdatomic.h>

/* A photo service: tasks for a pool of threads. Faces that are found are never freed. */
struct photo {
	unsigned id;
	size_t size;
	unsigned char *pixels;
};

struct face {
	struct face *next;
	float embedding[256];
};

static atomic_ulong faces;

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

__attribute__((noinline)) struct face *face_detect(const struct photo *photo, struct face *next)
{
	struct face *face = malloc(sizeof(*face));

	for (int i = 0; i < 256; i++)
		face->embedding[i] = photo->pixels[i];
	face->next = next;
	faces++;
	return face;
}

void thumbnail_task(void *argument)
{
	struct photo *photo = argument;
	unsigned char *small = malloc(photo->size / 4);

	for (size_t i = 0; i < photo->size / 4; i++)
		small[i] = photo->pixels[i * 4];
	free(small);
	free(photo->pixels);
	free(photo);
}

void faces_task(void *argument)
{
	struct photo *photo = argument;
	struct face *found = NULL;

	for (unsigned i = 0; i < 2 + photo->id % 3; i++)
		found = face_detect(photo, found);
	pool_submit(thumbnail_task, photo);
}

static void upload(unsigned id)
{
	struct photo *photo = malloc(sizeof(*photo));

	photo->id = id;
	photo->size = 40000;
	photo->pixels = malloc(photo->size);
	memset(photo->pixels, (int)id, photo->size);
	pool_submit(faces_task, photo);
}

int main(void)
{
	pool_start(4);
	puts("ready");
	fflush(stdout);
	for (unsigned id = 0;; id++) {
		upload(id);
		if (id % 200 == 0)
			fprintf(stderr, "%u photos, %lu faces, %lu bytes\n", id, faces,
				faces * sizeof(struct face));
		pace(20);
	}
}
