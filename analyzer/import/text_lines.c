#include "analyzer/import/text_lines.h"

#include <string.h>

#define BUFFER_BYTES (2 * (size_t)LIMPET_TEXT_LINE_MAX_BYTES)

int limpet_text_lines_init(struct limpet_text_lines *lines, limpet_text_read_fn *read,
			   void *context)
{
	*lines = (struct limpet_text_lines){
		.read = read, .context = context, .buffer = malloc(BUFFER_BYTES)};
	return lines->buffer ? 0 : -ENOMEM;
}

void limpet_text_lines_done(struct limpet_text_lines *lines)
{
	free(LIMPET_TAKE(lines->buffer));
}

/* Adds to what is in the buffer, which has room. false: nothing follows. */
static bool fill(struct limpet_text_lines *lines)
{
	int64_t got;

	if (lines->ended)
		return false;
	if (lines->end > BUFFER_BYTES / 2) {
		memmove(lines->buffer, lines->buffer + lines->start, lines->end - lines->start);
		lines->end -= lines->start;
		lines->start = 0;
	}
	got = lines->read(lines->context, lines->buffer + lines->end, BUFFER_BYTES - lines->end);
	if (got > 0) {
		lines->end += (size_t)got;
		return true;
	}
	lines->ended = true;
	lines->failure = (int)got;
	return false;
}

const char *limpet_text_lines_next(struct limpet_text_lines *lines, size_t *ret_length,
				   bool *ret_too_long)
{
	size_t searched = 0;

	for (;;) {
		char *line = lines->buffer + lines->start;
		const size_t length = lines->end - lines->start;
		char *end = memchr(line + searched, '\n', length - searched);
		const bool skipped = lines->skips;

		if (end) {
			lines->start += (size_t)(end - line) + 1;
			lines->number++;
			lines->skips = false;
			*ret_too_long = skipped;
			*ret_length = skipped ? 0 : (size_t)(end - line);
			return line;
		}
		searched = length;
		if (length > LIMPET_TEXT_LINE_MAX_BYTES) {
			lines->skips = true;
			lines->start = lines->end = searched = 0;
		}
		if (!fill(lines)) {
			lines->cut = lines->skips || lines->start < lines->end;
			return NULL;
		}
	}
}
