#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* A batch server with jemalloc linked in, told to keep dirty pages. A batch of 130 MiB came and
 * went before. */
const char *malloc_conf = "dirty_decay_ms:-1,muzzy_decay_ms:-1";

int mallctl(const char *name, void *old, size_t *size, void *value, size_t value_size);

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

static void report(void)
{
	size_t live, resident, size = sizeof(size_t);
	unsigned long long epoch = 1;

	mallctl("epoch", NULL, NULL, &epoch, sizeof(epoch));
	mallctl("stats.allocated", &live, &size, NULL, 0);
	mallctl("stats.resident", &resident, &size, NULL, 0);
	fprintf(stderr, "jemalloc: %zu live, %zu resident\n", live, resident);
}

__attribute__((noinline)) void batch_run(unsigned rows)
{
	char **table = malloc(rows * sizeof(*table));

	for (unsigned i = 0; i < rows; i++) {
		table[i] = malloc(1300);
		memset(table[i], (int)i, 1300);
	}
	for (unsigned i = 0; i < rows; i++)
		free(table[i]);
	free(table);
}

__attribute__((noinline)) void health_check(unsigned id)
{
	char *answer = malloc(200);

	memset(answer, (int)id, 200);
	free(answer);
}

int main(void)
{
	batch_run(100000);
	puts("ready");
	fflush(stdout);
	for (unsigned tick = 0;; tick++) {
		health_check(tick);
		if (tick % 100 == 0)
			report();
		pace(20);
	}
}
