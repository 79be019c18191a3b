/* scattered: sizes, stacks and lifetimes at random, as fast as it goes, with 20,000 live blocks:
 * the events that a trace can compress least. Says "ready"; ends with its input. */
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define LIVE 20000u
#define ROUNDS 1000
#define FRAME __attribute__((noinline, noclone))
#define KEEP_FRAME() __asm__ volatile("" : : : "memory")

static void *blocks[LIVE];
static uint64_t state = 88172645463325252u;

static uint64_t draw(void)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return state;
}

static FRAME void replace(void)
{
	const uint64_t random = draw();
	void **block = &blocks[random % LIVE];

	free(*block);
	*block = malloc((random >> 32) % 1024 + 1);
	if (!*block)
		abort();
	KEEP_FRAME();
}

/* Each bit of the path is one of two callers: 1,000 paths, ten frames deep. */
static void left(unsigned depth, uint64_t path);
static FRAME void right(unsigned depth, uint64_t path)
{
	if (!depth)
		replace();
	else if (path & 1)
		right(depth - 1, path >> 1);
	else
		left(depth - 1, path >> 1);
	KEEP_FRAME();
}
static FRAME void left(unsigned depth, uint64_t path)
{
	if (!depth)
		replace();
	else if (path & 1)
		right(depth - 1, path >> 1);
	else
		left(depth - 1, path >> 1);
	KEEP_FRAME();
}

int main(void)
{
	struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};

	puts("ready");
	fflush(stdout);
	while (poll(&input, 1, 0) == 0)
		for (int i = 0; i < ROUNDS; i++)
			left(10, draw() % 1000);
	return 0;
}
