/* A library that has its functions for memory in variables, as libxml2 has: see copied.c. */
#include <stdlib.h>

#define EXPORTED __attribute__((noinline, visibility("default")))

extern void (*copied_free)(void *);
char *copied_allocate(void);

__attribute__((visibility("default"))) void (*copied_free)(void *) = free;

EXPORTED char *copied_allocate(void)
{
	char *block = malloc(2000);

	if (!block)
		abort();
	block[1] = 1;
	return block;
}
