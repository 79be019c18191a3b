/* The line of `limpet top` about resident memory. A pure function. */
#ifndef LIMPET_CLI_TOP_MEMORY_H
#define LIMPET_CLI_TOP_MEMORY_H

#include <stdint.h>

#include "common/memory_accounts.h"

#define LIMPET_TOP_MEMORY_TEXT 256

/* "RSS    812.3 MiB: heap 640.1 MiB, files 80.2 MiB": what the process has without limpet's own
 * part (0: unknown), and the largest parts of it of which the text has at most `columns`
 * characters. `memory`: as last measured. It is measured less often than RSS, of a large process
 * much less: parts that add up to a very different figure are left out. */
void limpet_top_memory_say(uint64_t rss_bytes, const struct limpet_memory *memory, int columns,
			   char ret[LIMPET_TOP_MEMORY_TEXT]);

#endif
