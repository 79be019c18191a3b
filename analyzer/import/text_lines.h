/* The lines of a text. */
#ifndef LIMPET_ANALYZER_IMPORT_TEXT_LINES_H
#define LIMPET_ANALYZER_IMPORT_TEXT_LINES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"

/* A longer line counts as one that makes no sense. */
#define LIMPET_TEXT_LINE_MAX_BYTES (1u << 20)

/* Reads up to `room` bytes: their number, 0 at the end, or -errno. */
typedef int64_t limpet_text_read_fn(void *context, void *ret, size_t room);

struct limpet_text_lines {
	limpet_text_read_fn *read;
	void *context;
	char *buffer;
	size_t start, end; /* of what was read and not yet returned */
	uint64_t number;   /* of the line that was returned last, from 1 */
	bool ended;
	bool skips;  /* the rest of a line that is too long */
	int failure; /* -errno: what follows cannot be read */
	bool cut;    /* the text ends within a line */
};

/* -ENOMEM. */
int limpet_text_lines_init(struct limpet_text_lines *lines, limpet_text_read_fn *read,
			   void *context) LIMPET_MUST_CHECK;
void limpet_text_lines_done(struct limpet_text_lines *lines);

/* The next line, without its end; valid until the next call. Any byte may be in it. NULL: there is
 * none, or it cannot be read (then `failure` or `cut` is set). A line that is too long is empty,
 * and *ret_too_long is set. */
const char *limpet_text_lines_next(struct limpet_text_lines *lines, size_t *ret_length,
				   bool *ret_too_long);

#endif
