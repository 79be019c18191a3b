#include "cli/top_memory.h"

#include <stdio.h>
#include <string.h>

#include "common/units.h"

void limpet_top_memory_format(uint64_t rss_bytes, const struct limpet_parts *parts, int columns,
			      char ret[LIMPET_TOP_MEMORY_TEXT])
{
	const char *between = parts->is_before ? "; before: " : ": ";
	char text[LIMPET_UNITS_TEXT] = "-", part[LIMPET_PART_TEXT];
	int used;

	if (rss_bytes)
		limpet_units_format_bytes(text, rss_bytes);
	used = snprintf(ret, LIMPET_TOP_MEMORY_TEXT, "RSS   %*s", LIMPET_UNITS_BYTES_MAX, text);
	for (size_t i = 0; rss_bytes && i < parts->count; i++) {
		const int length = (int)strlen(between);

		limpet_part_format(parts, &parts->list[i], part);
		if (used + length + (int)strlen(part) > columns ||
		    used + length + LIMPET_PART_TEXT > LIMPET_TOP_MEMORY_TEXT)
			return;
		used += sprintf(ret + used, "%s%s", between, part);
		between = "; ";
	}
}
