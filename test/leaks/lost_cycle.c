/* Rings that nothing points to: each node is pointed to, all are lost. One of each ring stands for
 * it. */
#include "planted.h"

struct node {
	char value[64];
	struct node *next;
};

PLANTED_FRAME static void make_ring(void)
{
	struct node *first = block(sizeof(*first)), *last = first;

	for (int i = 1; i < 10; i++) {
		last->next = block(sizeof(*last));
		last = last->next;
	}
	last->next = first;
}

void plant(void)
{
	for (int i = 0; i < 3; i++)
		make_ring();
}
