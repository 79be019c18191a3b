/* paths: allocates by very many stacks that have next to nothing in common.
 *
 *	paths DEPTH
 *
 * Commands: "run N": N blocks are allocated and released, each by a stack of its own; "keep N":
 * likewise, and they stay. The stacks have DEPTH frames below main's. */
#include "test/targets/target.h"

enum { BITS = 20, KEPT = 1 << BITS };

static unsigned long path;
static int deepest;
static void *kept[KEPT];
static bool keeps;

static void paths_left(int level);

TARGET_FRAME static void paths_end(void)
{
	void *block = malloc(16);

	if (!block)
		target_broken("no memory");
	*(volatile char *)block = 1;
	if (keeps)
		kept[path] = block;
	else
		free(block);
	TARGET_KEEP_FRAME();
}

/* The outermost frames already are another way for each number. */
static bool goes_right(int level)
{
	const int below_main = deepest - level;

	return below_main < BITS && path >> below_main & 1;
}

TARGET_FRAME static void paths_right(int level)
{
	if (level <= 1)
		paths_end();
	else if (goes_right(level))
		paths_right(level - 1);
	else
		paths_left(level - 1);
	TARGET_KEEP_FRAME();
}

TARGET_FRAME static void paths_left(int level)
{
	if (level <= 1)
		paths_end();
	else if (goes_right(level))
		paths_right(level - 1);
	else
		paths_left(level - 1);
	TARGET_KEEP_FRAME();
}

static void go(unsigned long n)
{
	for (path = 0; path < n; path++)
		paths_left(deepest);
}

int main(int argc, char **argv)
{
	char line[64];
	unsigned long n;

	deepest = argc > 1 ? atoi(argv[1]) - 1 : 0;
	if (deepest < BITS)
		target_broken("usage: paths DEPTH, which is more than %d", BITS);
	target_say("ready %d", getpid());
	while (target_listen(line, sizeof(line))) {
		keeps = target_word(line, "keep", &n);
		if (!keeps && !target_word(line, "run", &n))
			break;
		if (n > KEPT)
			target_broken("no more than %d", KEPT);
		go(n);
		target_say(keeps ? "kept" : "ran");
	}
	return 0;
}
