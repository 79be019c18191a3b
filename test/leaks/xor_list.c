/* A list by XOR of addresses, held at both ends. No word holds the address of a node inside: the
 * first two and the last two are reachable, what lies between is lost for everyone who looks at
 * words, as for LeakSanitizer and Valgrind. */
#include "planted.h"

#include <stdint.h>

struct node {
	uintptr_t both;
	char value[96];
};

struct node *list_head, *list_tail;

PLANTED_FRAME static struct node *append_node(void)
{
	struct node *node = block(sizeof(*node));

	node->both = (uintptr_t)list_tail;
	if (list_tail)
		list_tail->both ^= (uintptr_t)node;
	else
		list_head = node;
	list_tail = node;
	return node;
}

void plant(void)
{
	for (int i = 0; i < 10; i++)
		append_node();
}
