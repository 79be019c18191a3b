#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* A broker whose journal is one buffer that grows by realloc and is never cut. */
struct journal {
	char *data;
	size_t used, size;
};

static struct journal journal;
static char *queue[256];

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

__attribute__((noinline)) void journal_append(struct journal *to, const void *record, size_t size)
{
	if (to->used + size > to->size) {
		to->size += 256 * 1024;
		to->data = realloc(to->data, to->size);
	}
	memcpy(to->data + to->used, record, size);
	to->used += size;
}

__attribute__((noinline)) void queue_message(unsigned id)
{
	char **slot = &queue[id % 256];

	free(*slot);
	*slot = malloc(200 + id % 7 * 100);
	memset(*slot, 'q', 200);
}

static void publish(unsigned id)
{
	char record[8192];

	memset(record, 'a' + id % 26, sizeof(record));
	queue_message(id);
	journal_append(&journal, record, sizeof(record));
}

int main(void)
{
	for (unsigned i = 0; i < 2000; i++)
		publish(i);
	puts("ready");
	fflush(stdout);
	for (unsigned i = 0;; i++) {
		for (int j = 0; j < 5; j++)
			publish(i * 5 + j);
		pace(20);
		if (i % 100 == 0)
			fprintf(stderr, "journal %zu of %zu bytes\n", journal.used, journal.size);
	}
}
