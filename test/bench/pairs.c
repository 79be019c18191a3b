/* pairs THREADS DEPTH STACKS: malloc and free, as fast as it goes, DEPTH frames down, by STACKS
 * different paths (0: by another one at random each time). Each command on stdin ("run SECONDS") is
 * answered by one line of JSON: pairs made, processor time and wall time per pair, in nanoseconds.
 * Ends with the input. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MAX_THREADS 64
#define FRAME __attribute__((noinline, noclone))

static int depth = 20, stacks = 1, threads = 1;
static atomic_int running;

/* Each has cache lines of its own. */
struct worker {
	uint64_t pairs, cpu_ns;
	uint64_t path;
} __attribute__((aligned(128)));

static uint64_t clock_ns(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static uint64_t mix(uint64_t value)
{
	value *= 0x9e3779b97f4a7c15u;
	return value ^ value >> 31;
}

FRAME static void pair(struct worker *worker)
{
	char *block = malloc(64 + worker->pairs % 64);

	*(volatile char *)block = 1;
	free(block);
	worker->pairs++;
	__asm__ volatile("" ::: "memory");
}

static void down_left(struct worker *worker, int level);

FRAME static void down_right(struct worker *worker, int level)
{
	if (level <= 1)
		pair(worker);
	else if (worker->path >> (level % 20) & 1)
		down_right(worker, level - 1);
	else
		down_left(worker, level - 1);
	__asm__ volatile("" ::: "memory");
}

FRAME static void down_left(struct worker *worker, int level)
{
	if (level <= 1)
		pair(worker);
	else if (worker->path >> (level % 20) & 1)
		down_right(worker, level - 1);
	else
		down_left(worker, level - 1);
	__asm__ volatile("" ::: "memory");
}

static void *work(void *argument)
{
	struct worker *worker = argument;
	uint64_t begun = clock_ns(CLOCK_THREAD_CPUTIME_ID);

	while (atomic_load_explicit(&running, memory_order_relaxed))
		for (int i = 0; i < 256; i++) {
			worker->path =
				stacks ? worker->pairs % (uint64_t)stacks : mix(worker->pairs);
			down_left(worker, depth - 3);
		}
	worker->cpu_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID) - begun;
	return NULL;
}

static void run(double seconds)
{
	struct worker workers[MAX_THREADS];
	pthread_t ids[MAX_THREADS];
	struct timespec length = {(time_t)seconds,
				  (long)((seconds - (double)(time_t)seconds) * 1e9)};
	uint64_t begun = clock_ns(CLOCK_MONOTONIC), pairs = 0, cpu_ns = 0;

	memset(workers, 0, sizeof(workers));
	atomic_store(&running, 1);
	for (int i = 0; i < threads; i++)
		pthread_create(&ids[i], NULL, work, &workers[i]);
	nanosleep(&length, NULL);
	atomic_store(&running, 0);
	for (int i = 0; i < threads; i++) {
		pthread_join(ids[i], NULL);
		pairs += workers[i].pairs;
		cpu_ns += workers[i].cpu_ns;
	}
	printf("{\"pairs\":%lu,\"cpu_ns\":%.2f,\"wall_ns\":%.2f}\n", (unsigned long)pairs,
	       (double)cpu_ns / (double)pairs,
	       (double)(clock_ns(CLOCK_MONOTONIC) - begun) / (double)pairs);
	fflush(stdout);
}

int main(int argc, char **argv)
{
	char line[64];
	double seconds;

	if (argc > 1)
		threads = atoi(argv[1]);
	if (argc > 2)
		depth = atoi(argv[2]);
	if (argc > 3)
		stacks = atoi(argv[3]);
	if (threads < 1 || threads > MAX_THREADS || depth < 4 || stacks < 0)
		return 2;
	while (fgets(line, sizeof(line), stdin))
		if (sscanf(line, "run %lf", &seconds) == 1)
			run(seconds);
	return 0;
}
