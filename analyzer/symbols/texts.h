/* Strings kept once, however often they come, and whatever they are: they may be somebody's who
 * wants that to take long. One thread. */
#ifndef LIMPET_ANALYZER_SYMBOLS_TEXTS_H
#define LIMPET_ANALYZER_SYMBOLS_TEXTS_H

#include <stddef.h>

struct limpet_texts {
	void *tree;   /* of tsearch(3) */
	size_t bytes; /* that they take, with what keeps them */
};

/* The copy of `string`, which lives as long as `texts` (all zeroes: none yet); NULL when memory is
 * out. */
const char *limpet_texts_keep(struct limpet_texts *texts, const char *string);
void limpet_texts_done(struct limpet_texts *texts);

#endif
