/* Sites of different kinds, the same calls in every run: what a sample is held against.
 *
 * One thread makes the calls, another frees what the first hands over. No arguments, no dialogue.
 */
#include <pthread.h>

#include "test/targets/target.h"

enum { CHURN = 60000, SMALL = 20000, LARGE = 40, VECTORS = 300, SPREAD = 20000, ZEROED = 5000 };

static void *blocks[SMALL];

/* A call of its own: what it returns is used, so that the frame stays. */
#define SITE(name, call)                                          \
	TARGET_FRAME static void *name(void *block, size_t bytes) \
	{                                                         \
		void *answer = call;                              \
                                                                  \
		(void)block;                                      \
		TARGET_KEEP_FRAME();                              \
		return answer;                                    \
	}
SITE(kinds_churn, malloc(bytes))
SITE(kinds_small, malloc(bytes))
SITE(kinds_large, malloc(bytes))
SITE(kinds_vector, realloc(block, bytes))
SITE(kinds_spread, malloc(bytes))
SITE(kinds_zeroed, calloc(4, bytes))
SITE(kinds_aligned, aligned_alloc(64, bytes))

static void *free_blocks(void *data)
{
	(void)data;
	for (size_t i = 0; i < SMALL; i += 2)
		free(blocks[i]);
	return NULL;
}

static void *have(void *block)
{
	if (!block)
		target_broken("no memory");
	return block;
}

int main(void)
{
	pthread_t other;
	uint64_t random = 1;

	for (unsigned i = 0; i < CHURN; i++)
		free(have(kinds_churn(NULL, 120)));
	for (unsigned i = 0; i < SMALL; i++)
		blocks[i] = have(kinds_small(NULL, 64));
	if (pthread_create(&other, NULL, free_blocks, NULL) || pthread_join(other, NULL))
		target_broken("no thread");
	for (unsigned i = 0; i < LARGE; i++) {
		void *block = have(kinds_large(NULL, 100000));

		if (i % 4)
			free(block);
	}
	for (unsigned i = 0; i < VECTORS; i++) {
		void *vector = NULL;

		for (size_t bytes = 256; bytes <= 65536; bytes *= 2)
			vector = have(kinds_vector(vector, bytes));
		if (i % 8)
			free(vector);
	}
	for (unsigned i = 0; i < SPREAD; i++) {
		random = random * 6364136223846793005u + 1442695040888963407u;
		blocks[0] = have(kinds_spread(NULL, 100 + (random >> 33) % 2000));
		if (i % 3)
			free(blocks[0]);
	}
	for (unsigned i = 0; i < ZEROED; i++)
		if (i % 2)
			free(have(kinds_zeroed(NULL, 100)));
		else
			free(have(kinds_aligned(NULL, 4096)));
	return 0;
}
