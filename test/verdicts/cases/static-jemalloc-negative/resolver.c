/* A resolver with jemalloc linked into it. Answers are cached in a table of fixed size; negative
   ones in a list that nobody prunes. */
#include <jemalloc/jemalloc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { POSITIVE = 20000 };

struct answer {
	struct answer *next;
	unsigned hash;
	char name[200];
};

static struct answer *positive[POSITIVE];
static struct answer *negative;
static size_t negatives;
static volatile sig_atomic_t ended;

static void end(int signal_number)
{
	(void)signal_number;
	ended = 1;
}

static __attribute__((noinline)) void cache_answer(const char *name, unsigned hash)
{
	struct answer *answer = malloc(sizeof(*answer));

	snprintf(answer->name, sizeof(answer->name), "%s", name);
	answer->hash = hash;
	free(positive[hash % POSITIVE]);
	positive[hash % POSITIVE] = answer;
}

static __attribute__((noinline)) void cache_negative_answer(const char *name, unsigned hash)
{
	struct answer *answer = malloc(sizeof(*answer));

	snprintf(answer->name, sizeof(answer->name), "%s", name);
	answer->hash = hash;
	answer->next = negative;
	negative = answer;
	negatives++;
}

static __attribute__((noinline)) void resolve(unsigned number)
{
	char *packet = malloc(1232), name[200];
	unsigned hash = number * 2654435761u;

	memset(packet, (int)number, 1232);
	snprintf(name, sizeof(name), "host-%u.example.net", number);
	if (number % 3)
		cache_answer(name, hash);
	else
		cache_negative_answer(name, hash);
	free(packet);
}

int main(void)
{
	struct timespec next;
	size_t allocated, size = sizeof(allocated);

	signal(SIGTERM, end);
	for (unsigned number = 1; number < 200000; number += 1 + number % 3 / 2)
		resolve(number);
	puts("ready");
	fflush(stdout);
	clock_gettime(CLOCK_MONOTONIC, &next);
	for (unsigned number = 200000; !ended;) {
		for (int i = 0; i < 15; i++)
			resolve(number++);
		next.tv_nsec += 5000000;
		if (next.tv_nsec >= 1000000000) {
			next.tv_nsec -= 1000000000;
			next.tv_sec++;
		}
		clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &next, NULL);
	}
	mallctl("stats.allocated", &allocated, &size, NULL, 0);
	fprintf(stderr, "%zu negative answers of %zu bytes; jemalloc has %zu bytes allocated\n",
		negatives, sizeof(struct answer), allocated);
	return 0;
}
