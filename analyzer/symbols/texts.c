#include "analyzer/symbols/texts.h"

#include <search.h>
#include <stdlib.h>
#include <string.h>

/* Overhead of a string: a node of the tree, and malloc's overhead, twice. */
#define KEEPING_BYTES 64u

static int compare(const void *a, const void *b)
{
	return strcmp(a, b);
}

/* A balanced tree, not a hash table: strings can be chosen to have the same hash. */
const char *limpet_texts_keep(struct limpet_texts *texts, const char *string)
{
	char *const *found = tfind(string, &texts->tree, compare);
	char *copy;

	if (found)
		return *found;
	copy = strdup(string);
	if (!copy)
		return NULL;
	if (!tsearch(copy, &texts->tree, compare)) {
		free(copy);
		return NULL;
	}
	texts->bytes += strlen(string) + KEEPING_BYTES;
	return copy;
}

void limpet_texts_done(struct limpet_texts *texts)
{
	tdestroy(texts->tree, free);
	*texts = (struct limpet_texts){.tree = NULL};
}
