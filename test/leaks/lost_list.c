/* A list whose head is lost: the first node is lost, the others are lost with it. */
#include "planted.h"

struct node {
	struct node *next;
	char value[48];
};

PLANTED_FRAME static struct node *add_node(struct node *next)
{
	struct node *node = block(sizeof(*node));

	node->next = next;
	return node;
}

void plant(void)
{
	struct node *head = NULL;

	for (int i = 0; i < 50; i++)
		head = add_node(head);
}
