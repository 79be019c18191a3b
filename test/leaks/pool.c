/* A pool that gives out parts of one block, of which only pointers to its inside are kept; its
 * parts hold blocks. */
#include "planted.h"

struct part {
	void *payload;
	char room[56];
};

char *pool_next;
struct part *parts[10];

PLANTED_FRAME static struct part *take_part(void)
{
	struct part *part = (struct part *)pool_next;

	pool_next += sizeof(*part);
	return part;
}

PLANTED_FRAME static void *make_payload(void)
{
	return block(200);
}

void plant(void)
{
	pool_next = block(65528);
	/* The first part is given out and forgotten, and with it the block's start. */
	take_part();
	for (int i = 0; i < 10; i++) {
		parts[i] = take_part();
		parts[i]->payload = make_payload();
	}
}
