/* Each block's only pointer hops through a table of 16 MiB, from any place to any other. Nothing is
 * lost. */
#include "planted.h"

#include <stdint.h>
#include <sys/mman.h>

enum { PLACES = 2 << 20, BLOCKS = 500 };

static void **table;
static uint32_t place_of[BLOCKS];

PLANTED_FRAME static void *make_hopper(void)
{
	return block(104);
}

static void *hop(void *unused)
{
	uint32_t random = 1;

	(void)unused;
	moving();
	for (uint32_t i = 0;; i++) {
		random = random * 1664525u + 1013904223u;
		const uint32_t to = random >> 11;
		uint32_t *place = &place_of[i % BLOCKS];

		if (table[to])
			continue;
		table[to] = table[*place];
		table[*place] = NULL;
		*place = to;
	}
	return NULL;
}

void plant(void)
{
	table = mmap(NULL, PLACES * sizeof(*table), PROT_READ | PROT_WRITE,
		     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (table == MAP_FAILED)
		broken("mmap");
	for (uint32_t i = 0; i < BLOCKS; i++) {
		place_of[i] = i * 4096;
		table[place_of[i]] = make_hopper();
	}
	start_mover(hop);
}
