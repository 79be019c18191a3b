/* The lines of a script that V8 runs: positions in its text are numbers of characters. */
#ifndef LIMPET_EXPLAIN_RUNTIMES_V8_LINES_H
#define LIMPET_EXPLAIN_RUNTIMES_V8_LINES_H

#include <stddef.h>
#include <stdint.h>

#include "common/err.h"
#include "explain/runtimes/v8_objects.h"

/* Where each line ends. */
struct limpet_v8_lines {
	int32_t *ends; /* ascending */
	size_t count, capacity;
};
#define LIMPET_V8_LINES_MAX ((size_t)1 << 20)
#define LIMPET_V8_SOURCE_MAX ((uint32_t)64 << 20) /* characters */
/* Of a script at that address. -EBADMSG: V8 does not hold its text; -EFBIG: more than limpet reads.
 */
int limpet_v8_lines_read(const struct limpet_v8 *v8, uint64_t script,
			 struct limpet_v8_lines *ret) LIMPET_MUST_CHECK;
void limpet_v8_lines_done(struct limpet_v8_lines *lines);
/* From 1; 0: it has no such line. */
uint32_t limpet_v8_line_of(const struct limpet_v8_lines *lines, int32_t position);
/* Its place in that line, in characters. */
uint32_t limpet_v8_column_of(const struct limpet_v8_lines *lines, int32_t position);

#endif
