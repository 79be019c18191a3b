#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* A dictionary of 150 MiB that is loaded once; then the program waits. */
#include <poll.h>

struct word {
	struct word *next;
	char text[1000];
};

static struct word *buckets[4096];

__attribute__((noinline)) void dictionary_add(unsigned id)
{
	struct word *word = malloc(sizeof(*word));

	snprintf(word->text, sizeof(word->text), "word-%0*u", 900, id);
	word->next = buckets[id % 4096];
	buckets[id % 4096] = word;
}

int main(void)
{
	for (unsigned i = 0; i < 150000; i++)
		dictionary_add(i);
	puts("ready");
	fflush(stdout);
	fprintf(stderr, "150000 words, %zu bytes\n", 150000 * sizeof(struct word));
	for (;;)
		poll(NULL, 0, 1000);
}
