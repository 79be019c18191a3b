/* Nothing is lost: thousands of blocks are free, in caches of two threads, in bins and in the
 * middle of the heap. */
#include "planted.h"

#include <stdlib.h>

enum { BLOCKS = 4000 };

void *kept_few[BLOCKS];

/* Every third block stays, so that free ones do not become one. */
static void work(void)
{
	static void *blocks[BLOCKS];

	for (int i = 0; i < BLOCKS; i++)
		blocks[i] = block(24u + 16u * (size_t)(i % 70));
	for (int i = 0; i < BLOCKS; i++) {
		if (i % 3 == 0)
			kept_few[i] = blocks[i];
		else
			free(blocks[i]);
		blocks[i] = NULL;
	}
}

void plant(void)
{
	static void *first[BLOCKS];

	work();
	for (int i = 0; i < BLOCKS; i++)
		first[i] = kept_few[i];
	start_wiped_thread(work);
	for (int i = 0; i < BLOCKS; i += 2) {
		free(first[i]);
		first[i] = NULL;
	}
	/* The others of the first round stay in `first`. */
	__asm__ volatile("" : : "r"(first) : "memory");
}
