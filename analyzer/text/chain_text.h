/* A stack in one line: "innermost < caller < caller". */
#ifndef LIMPET_ANALYZER_TEXT_CHAIN_TEXT_H
#define LIMPET_ANALYZER_TEXT_CHAIN_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct limpet_chain {
	const uint32_t *functions; /* innermost first; equal numbers are the same function */
	size_t count;
	/* The name of one, malloc'ed; NULL: out of memory. */
	char *(*name)(const void *context, uint32_t function);
	const void *context;
	bool full;    /* each call of a recursion */
	size_t width; /* of the line; 0: without limit */
	size_t used;  /* columns before the text */
};

/* As much as fits, malloc'ed; NULL: out of memory. The first name is cut at its start, since its
 * end says more; the end of the text may be longer than the line. */
char *limpet_chain_text(const struct limpet_chain *chain);

#endif
