#include "cli/top_memory.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "common/units.h"

/* The part of RSS by which the parts may miss it. */
#define STALE_SHARE 8u

/* limpet's own part is not in the RSS that is shown. */
static bool is_recent(uint64_t rss_bytes, const struct limpet_memory *memory)
{
	const uint64_t all = memory->bytes[LIMPET_MEMORY_RSS];
	const uint64_t own = memory->bytes[LIMPET_MEMORY_OWN];
	const uint64_t theirs = all > own ? all - own : 0;
	const uint64_t between = theirs > rss_bytes ? theirs - rss_bytes : rss_bytes - theirs;

	return between <= rss_bytes / STALE_SHARE;
}

/* The largest part that was not said yet; LIMPET_MEMORY_RSS: there is none. */
static unsigned next_part(const struct limpet_memory *memory, const bool *said)
{
	unsigned largest = LIMPET_MEMORY_RSS;

	for (unsigned i = LIMPET_MEMORY_RSS + 1; i < LIMPET_MEMORY_OWN; i++)
		if (!said[i] && memory->bytes[i] &&
		    (largest == LIMPET_MEMORY_RSS || memory->bytes[i] > memory->bytes[largest]))
			largest = i;
	return largest;
}

void limpet_top_memory_say(uint64_t rss_bytes, const struct limpet_memory *memory, int columns,
			   char ret[LIMPET_TOP_MEMORY_TEXT])
{
	bool said[LIMPET_MEMORY_ACCOUNTS] = {false};
	char text[LIMPET_UNITS_TEXT] = "-", part[64];
	const char *between = ": ";
	unsigned account;

	if (rss_bytes)
		limpet_units_format_bytes(text, rss_bytes);
	snprintf(ret, LIMPET_TOP_MEMORY_TEXT, "RSS   %*s", LIMPET_UNITS_BYTES_MAX, text);
	if (!rss_bytes || !memory->known || !is_recent(rss_bytes, memory))
		return;
	while ((account = next_part(memory, said)) != LIMPET_MEMORY_RSS) {
		const size_t used = strlen(ret);
		const int length = snprintf(
			part, sizeof(part), "%s%s %s", between, limpet_memory_words[account],
			limpet_units_format_bytes(text, memory->bytes[account]));

		if ((int)used + length > columns || used + sizeof(part) > LIMPET_TOP_MEMORY_TEXT)
			return;
		memcpy(ret + used, part, (size_t)length + 1);
		said[account] = true;
		between = ", ";
	}
}
