#define _GNU_SOURCE
#include "region.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* An interpreter that interns each name it meets in a region that lives as long as it does. */
struct symbol {
	struct symbol *next;
	unsigned hash;
	char name[];
};

static struct region symbols;
static struct symbol *table[65536];
static unsigned long interned;

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

__attribute__((noinline)) struct symbol *symbol_intern(const char *name)
{
	unsigned hash = 5381;
	struct symbol *symbol;

	for (const char *at = name; *at != '\0'; at++)
		hash = hash * 33 + (unsigned char)*at;
	for (symbol = table[hash % 65536]; symbol != NULL; symbol = symbol->next)
		if (symbol->hash == hash && strcmp(symbol->name, name) == 0)
			return symbol;
	symbol = region_alloc(&symbols, sizeof(*symbol) + strlen(name) + 1);
	symbol->hash = hash;
	strcpy(symbol->name, name);
	symbol->next = table[hash % 65536];
	table[hash % 65536] = symbol;
	interned++;
	return symbol;
}

__attribute__((noinline)) void script_run(unsigned id)
{
	char *source = malloc(4000);

	for (int i = 0; i < 50; i++) {
		snprintf(source, 4000, "tmp_%u_%d_%0*d", id, i, 900, i);
		symbol_intern(source);
	}
	free(source);
}

int main(void)
{
	puts("ready");
	fflush(stdout);
	for (unsigned id = 0;; id++) {
		script_run(id);
		if (id % 100 == 0)
			fprintf(stderr, "%u scripts, %lu symbols, %zu bytes of chunks\n", id,
				interned, region_bytes());
		pace(20);
	}
}
