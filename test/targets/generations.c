/* generations: blocks that are made and released when a test says so, to be told apart by when they
 * were made.
 *
 * Commands: "make N": N blocks of 100 bytes are made and held; "drop N": the N newest of these are
 * released; "map": 16 pages are mapped and touched; "quit". */
#include <sys/mman.h>

#include "test/targets/target.h"

enum { MOST = 100000, BLOCK_BYTES = 100, MAP_BYTES = 16 * 4096 };

static void *blocks[MOST];
static unsigned long held;

TARGET_FRAME static void generations_make(unsigned long n)
{
	if (n > MOST - held)
		target_broken("no room for %lu blocks", n);
	while (n--) {
		blocks[held] = malloc(BLOCK_BYTES);
		if (!blocks[held++])
			target_broken("no memory");
	}
	TARGET_KEEP_FRAME();
}

static void drop(unsigned long n)
{
	if (n > held)
		target_broken("%lu blocks are not held", n);
	while (n--)
		free(blocks[--held]);
}

TARGET_FRAME static void generations_map(void)
{
	void *memory =
		mmap(NULL, MAP_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (memory == MAP_FAILED)
		target_broken("no memory");
	memset(memory, 1, MAP_BYTES);
	TARGET_KEEP_FRAME();
}

int main(void)
{
	char line[64];
	unsigned long n;

	target_say("ready %d", getpid());
	while (target_listen(line, sizeof(line))) {
		if (target_word(line, "make", &n)) {
			generations_make(n);
			target_say("made");
		} else if (target_word(line, "drop", &n)) {
			drop(n);
			target_say("dropped");
		} else if (target_word(line, "map", &n)) {
			generations_map();
			target_say("mapped");
		} else {
			break;
		}
	}
	return 0;
}
