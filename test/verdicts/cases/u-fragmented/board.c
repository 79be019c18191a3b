#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* A message board that kept 160,000 messages of 1 KB and has deleted 15 of 16. */
enum { MESSAGES = 160000, KEPT = 16 };

static char *messages[MESSAGES];

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

__attribute__((noinline)) void board_post(unsigned id)
{
	messages[id] = malloc(1000);
	memset(messages[id], 'm', 1000);
}

__attribute__((noinline)) void board_purge(void)
{
	for (unsigned i = 0; i < MESSAGES; i++)
		if (i % KEPT != 0) {
			free(messages[i]);
			messages[i] = NULL;
		}
}

__attribute__((noinline)) void board_show(unsigned id)
{
	char *page = malloc(400);

	memset(page, (int)id, 400);
	free(page);
}

int main(void)
{
	for (unsigned i = 0; i < MESSAGES; i++)
		board_post(i);
	board_purge();
	fprintf(stderr, "%d live messages, %d bytes\n", MESSAGES / KEPT, MESSAGES / KEPT * 1008);
	puts("ready");
	fflush(stdout);
	for (unsigned tick = 0;; tick++) {
		board_show(tick);
		pace(20);
	}
}
