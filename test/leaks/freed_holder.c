/* The blocks' only pointers lie in blocks that are free: they hold nothing. */
#include "planted.h"

#include <stdlib.h>

struct holder {
	char name[160];
	void *payload;
	char room[400];
};

struct holder *holders[20];

PLANTED_FRAME static void *make_payload(void)
{
	return block(104);
}

void plant(void)
{
	for (int i = 0; i < 20; i++) {
		holders[i] = block(sizeof(*holders[i]));
		holders[i]->payload = make_payload();
	}
	for (int i = 0; i < 20; i++) {
		free(holders[i]);
		holders[i] = NULL;
	}
}
