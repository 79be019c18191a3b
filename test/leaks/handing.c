/* Blocks that two threads hand to each other, are freed, and come anew: a ring of four places holds
 * them for moments. Nothing is lost, and what is reachable differs each time. */
#include "planted.h"

#include <stdatomic.h>
#include <stdlib.h>

enum { PLACES = 4 };

static _Atomic(void *) places[PLACES];

PLANTED_FRAME static void *make_message(void)
{
	return block(104);
}

static void *receive(void *unused)
{
	(void)unused;
	moving();
	for (unsigned i = 0;;) {
		free(atomic_exchange(&places[i++ % PLACES], NULL));
	}
	return NULL;
}

static void *send(void *unused)
{
	(void)unused;
	moving();
	for (unsigned i = 0;;) {
		void *nothing = NULL, *message = make_message();

		if (!atomic_compare_exchange_strong(&places[i++ % PLACES], &nothing, message))
			free(message);
	}
	return NULL;
}

void plant(void)
{
	start_mover(receive);
	start_mover(send);
}
