#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* A gateway that translates requests: much that is temporary, nothing that stays. */
static unsigned long requests;

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

__attribute__((noinline)) char *json_decode(const char *text)
{
	char *copy = strdup(text), *value = strdup(copy + 2);

	free(copy);
	return value;
}

__attribute__((noinline)) char *template_render(const char *value, size_t size)
{
	char *out = malloc(64);
	size_t room = 64, used = 0;

	while (used < size) {
		if (used + strlen(value) + 1 > room)
			out = realloc(out, room *= 2);
		used += (size_t)sprintf(out + used, "%s", value);
	}
	return out;
}

__attribute__((noinline)) void handle(unsigned long id)
{
	char text[100], *value, *page;

	snprintf(text, sizeof(text), "{ \"id\": %lu, \"name\": \"gateway\" }", id);
	value = json_decode(text);
	page = template_render(value, 500 + id * 37 % 30000);
	free(value);
	free(page);
	requests++;
}

int main(void)
{
	char *table = malloc(6 << 20);

	memset(table, 1, 6 << 20);
	puts("ready");
	fflush(stdout);
	for (unsigned tick = 0;; tick++) {
		for (int i = 0; i < 30; i++)
			handle(requests);
		if (tick % 100 == 0)
			fprintf(stderr, "%lu requests (%d)\n", requests, table[tick]);
		pace(10);
	}
}
