/* A table that grows and shrinks for ever: the only pointers to its entries go to a new array each
 * time, and the old one is freed. Nothing is lost. */
#include "planted.h"

#include <stdlib.h>

enum { ENTRIES = 3000 };

static void **volatile table;
static size_t room;

PLANTED_FRAME static void *make_entry(void)
{
	return block(104);
}

static void *rehash(void *unused)
{
	(void)unused;
	moving();
	for (unsigned turn = 1;; turn++) {
		const size_t new_room = (ENTRIES + 8) << (turn % 4), shift = turn * 7919u;
		void **old = table, **larger = block(new_room * sizeof(*larger));

		for (size_t i = 0, to = 0; i < room; i++) {
			if (!old[i])
				continue;
			larger[(to++ + shift) % new_room] = old[i];
			old[i] = NULL;
		}
		table = larger;
		room = new_room;
		free(old);
	}
	return NULL;
}

void plant(void)
{
	room = ENTRIES + 8;
	table = block(room * sizeof(*table));
	for (int i = 0; i < ENTRIES; i++)
		table[i] = make_entry();
	start_mover(rehash);
}
