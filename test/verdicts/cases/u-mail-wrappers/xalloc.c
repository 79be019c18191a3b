/* Allocation that cannot fail. */
#include "xalloc.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *checked(void *block)
{
	if (block == NULL) {
		perror("out of memory");
		exit(1);
	}
	return block;
}

void *xmalloc(size_t size)
{
	return checked(malloc(size));
}

void *xrealloc(void *old, size_t size)
{
	return checked(realloc(old, size));
}

char *xstrndup(const char *text, size_t size)
{
	char *copy = xmalloc(size + 1);

	memcpy(copy, text, size);
	copy[size] = '\0';
	return copy;
}

char *xstrdup(const char *text)
{
	return xstrndup(text, strlen(text));
}
