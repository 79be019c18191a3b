/* The line of `limpet top` about resident memory. A pure function. */
#ifndef LIMPET_CLI_TOP_MEMORY_H
#define LIMPET_CLI_TOP_MEMORY_H

#include <stdint.h>

#include "analyzer/views/resident_parts.h"

#define LIMPET_TOP_MEMORY_TEXT 512

/* "RSS    812.3 MiB: glibc's heap 640.1 MiB (+20.1 MiB), mapped files 80.2 MiB": what the process
 * has without limpet's own part (0: unknown), and the largest parts, as many as the text has room
 * for in `columns` characters. While a capture runs they are of before it: "RSS    812.3 MiB;
 * before: ...". */
void limpet_top_memory_format(uint64_t rss_bytes, const struct limpet_parts *parts, int columns,
			      char ret[LIMPET_TOP_MEMORY_TEXT]);

#endif
