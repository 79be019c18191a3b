/* Keeps one copy of each string. Strings are hostile input: they may be chosen to make look-ups
 * slow. For one thread. */
#ifndef LIMPET_ANALYZER_SYMBOLS_TEXTS_H
#define LIMPET_ANALYZER_SYMBOLS_TEXTS_H

#include <stddef.h>

struct limpet_texts {
	void *tree;   /* of tsearch(3) */
	size_t bytes; /* memory of the strings, with overhead */
};

/* The copy of `string`, which lives as long as `texts` (all zeroes: none yet); NULL: out of
 * memory. */
const char *limpet_texts_keep(struct limpet_texts *texts, const char *string);
void limpet_texts_done(struct limpet_texts *texts);

#endif
