#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* A game server. A match of 120 MiB is loaded, played and dropped in the capture; one block in 40
 * belongs to the ranking and stays. */
enum { OBJECTS = 60000, OBJECT = 2000, RANKING = 40 };

static char *objects[OBJECTS];
static unsigned long live;

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

static void wait_for_line(void)
{
	char byte;

	while (read(STDIN_FILENO, &byte, 1) == 1 && byte != '\n')
		continue;
}

__attribute__((noinline)) void match_spawn(unsigned from, unsigned count)
{
	for (unsigned i = from; i < from + count; i++) {
		objects[i] = malloc(OBJECT);
		memset(objects[i], (int)i, OBJECT);
		live += OBJECT;
	}
}

__attribute__((noinline)) void match_end(void)
{
	for (unsigned i = 0; i < OBJECTS; i++)
		if (i % RANKING != 0) {
			free(objects[i]);
			live -= OBJECT;
		}
}

__attribute__((noinline)) void tick_players(unsigned tick)
{
	char *volatile packet = malloc(1400);

	memset(packet, (int)tick, 1400);
	free(packet);
}

int main(void)
{
	puts("ready");
	fflush(stdout);
	wait_for_line();
	for (unsigned tick = 0;; tick++) {
		if (tick >= 100 && tick < 200)
			match_spawn((tick - 100) * 600, 600);
		if (tick == 300)
			match_end();
		tick_players(tick);
		if (tick % 50 == 0)
			fprintf(stderr, "tick %u: %lu bytes live\n", tick, live);
		pace(20);
	}
}
