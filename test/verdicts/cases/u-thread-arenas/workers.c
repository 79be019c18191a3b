#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <pthread.h>

/* Eight workers that each unpacked an archive once, in their own arenas of glibc: all was freed but
 * one small entry in 60. */
enum { WORKERS = 8, BLOCKS = 6000, SIZE = 2000, KEPT = 60 };

static char *kept[WORKERS][BLOCKS / KEPT + 1];
static pthread_barrier_t unpacked;

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

__attribute__((noinline)) void archive_unpack(int worker)
{
	char **entries = calloc(BLOCKS, sizeof(*entries));
	int survivors = 0;

	for (int i = 0; i < BLOCKS; i++) {
		entries[i] = malloc(SIZE);
		memset(entries[i], i, SIZE);
	}
	for (int i = 0; i < BLOCKS; i++)
		if (i % KEPT == KEPT - 1)
			kept[worker][survivors++] = entries[i];
		else
			free(entries[i]);
	free(entries);
}

static void *work(void *argument)
{
	int worker = (int)(long)argument;

	archive_unpack(worker);
	pthread_barrier_wait(&unpacked);
	for (;;) {
		char *volatile job = malloc(500);

		memset(job, worker, 500);
		free(job);
		usleep(100000);
	}
	return NULL;
}

int main(void)
{
	pthread_barrier_init(&unpacked, NULL, WORKERS + 1);
	for (long i = 0; i < WORKERS; i++) {
		pthread_t thread;

		pthread_create(&thread, NULL, work, (void *)i);
	}
	pthread_barrier_wait(&unpacked);
	fprintf(stderr, "%d of %d entries live, %d bytes\n", WORKERS * BLOCKS / KEPT,
		WORKERS * BLOCKS, WORKERS * BLOCKS / KEPT * SIZE);
	puts("ready");
	fflush(stdout);
	for (;;)
		pace(100);
}
