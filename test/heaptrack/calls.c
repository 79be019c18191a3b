/* What heaptrack records of a program in C: see README.md. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FUNCTION __attribute__((noinline, noclone))

static void *kept[40];

static inline __attribute__((always_inline)) void *take(size_t bytes)
{
	return malloc(bytes);
}

FUNCTION static void keep(int i)
{
	kept[i] = memset(take((size_t)i * 100), 1, (size_t)i * 100);
}

FUNCTION static void grow(int i)
{
	kept[i] = realloc(kept[i], (size_t)i * 150);
}

FUNCTION static void pass(int depth)
{
	if (depth)
		pass(depth - 1);
	else
		free(memset(calloc(1, 64), 1, 64));
}

static void *work(void *argument)
{
	for (int i = 0; i < 20; i++)
		free(take(1000 + (size_t)i));
	return argument;
}

int main(void)
{
	pthread_t threads[2];

	for (int i = 0; i < 40; i++) {
		keep(i);
		pass(i % 3);
		if (i % 8 == 7)
			usleep(12000);
	}
	for (int i = 0; i < 40; i += 4)
		grow(i);
	for (int i = 0; i < 2; i++)
		pthread_create(&threads[i], NULL, work, NULL);
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	for (int i = 0; i < 40; i += 2)
		free(kept[i]);
	return 0;
}
