/* A relay in small. Since release 2 it keeps a copy of each block that arrives late. */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#ifndef RELEASE
#define RELEASE 1
#endif
#define FRAME __attribute__((noinline, used)) static

struct block {
	struct block *next;
	char bytes[2000];
};
static struct block *held;
static char *peers[64];

FRAME void keep_late(void)
{
	struct block *block = malloc(sizeof(*block));

	memset(block->bytes, 1, sizeof(block->bytes));
	block->next = held;
	held = block;
}

FRAME void greet_peer(unsigned number)
{
	char **peer = &peers[number % 64];

	free(*peer);
	*peer = calloc(1, 500);
}

FRAME void handle_block(unsigned number, unsigned late)
{
	char *block = malloc(sizeof(struct block));

	memset(block, 0, sizeof(struct block));
	greet_peer(number);
	if (RELEASE >= 2 && late && number % late == 0)
		keep_late();
	free(block);
}

/* relay LATE: every so manyth block is late; 0: none. */
int main(int argc, char **argv)
{
	const struct timespec tick = {.tv_nsec = 5000000};
	unsigned late = argc > 1 ? (unsigned)atoi(argv[1]) : 0;

	for (unsigned number = 0;; number++) {
		handle_block(number, late);
		if (number % 20 == 0)
			nanosleep(&tick, NULL);
	}
}
