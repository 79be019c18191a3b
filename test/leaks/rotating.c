/* A list that rotates for ever: each node's only pointer moves with each turn, through registers.
 * Nothing is lost. */
#include "planted.h"

struct node {
	struct node *next;
	char value[96];
};

struct node *volatile rotating_head, *volatile rotating_tail;

PLANTED_FRAME static struct node *make_node(void)
{
	return block(sizeof(struct node));
}

static void *rotate(void *unused)
{
	(void)unused;
	moving();
	for (;;) {
		struct node *first = rotating_head;

		rotating_head = first->next;
		first->next = NULL;
		rotating_tail->next = first;
		rotating_tail = first;
	}
	return NULL;
}

void plant(void)
{
	rotating_head = rotating_tail = make_node();
	for (int i = 1; i < 1000; i++) {
		rotating_tail->next = make_node();
		rotating_tail = rotating_tail->next;
	}
	start_mover(rotate);
}
