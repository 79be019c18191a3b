#include "common/memory_accounts.h"

#include <stdio.h>
#include <string.h>

#include "common/units.h"

const char *const limpet_memory_words[LIMPET_MEMORY_ACCOUNTS] = {
	"rss", "unknown", "heap", "mapped", "stacks", "files", "shared", "code", "named", "limpet"};

static bool is_large(uint64_t bytes, uint64_t rss_bytes)
{
	return bytes >= LIMPET_UNFOLLOWED_BYTES &&
	       (double)bytes >= LIMPET_UNFOLLOWED_SHARE * (double)rss_bytes;
}

struct limpet_unfollowed limpet_unfollowed_judge(const struct limpet_memory *first,
						 const struct limpet_memory *last,
						 const char *names)
{
	const struct limpet_memory *end = last && last->known ? last : first;
	struct limpet_unfollowed it = {.matters = names[0] != '\0', .names = names};

	if (!end || !end->known)
		return it;
	it.known = true;
	it.bytes = end->bytes[LIMPET_MEMORY_UNKNOWN];
	it.rss_bytes = end->bytes[LIMPET_MEMORY_RSS];
	it.is_large = is_large(it.bytes, it.rss_bytes);
	it.matters |= it.is_large;
	it.has_growth = first && first->known && end != first;
	if (!it.has_growth)
		return it;
	it.growth_bytes = (int64_t)(it.bytes - first->bytes[LIMPET_MEMORY_UNKNOWN]);
	it.grows = it.growth_bytes >= (int64_t)LIMPET_UNFOLLOWED_GROWTH_BYTES &&
		   (double)it.growth_bytes >= LIMPET_UNFOLLOWED_GROWTH_SHARE * (double)it.rss_bytes;
	it.matters |= it.grows;
	return it;
}

bool limpet_unfollowed_is_to_be_named(const struct limpet_memory *first,
				      const struct limpet_memory *last)
{
	const struct limpet_unfollowed it = limpet_unfollowed_judge(first, last, "");
	const struct limpet_memory *end = last->known ? last : first;

	return it.matters || (it.known && is_large(end->bytes[LIMPET_MEMORY_MAPPED], it.rss_bytes));
}

void limpet_unfollowed_say(const struct limpet_unfollowed *unfollowed, char *ret, size_t room)
{
	const char *names = unfollowed->names;
	char bytes[LIMPET_UNITS_TEXT], rss[LIMPET_UNITS_TEXT], growth[LIMPET_UNITS_TEXT];

	if (!unfollowed->is_large && !unfollowed->grows) {
		snprintf(ret, room,
			 "%s cannot be followed: what is allocated there is not in the "
			 "trace",
			 names);
		return;
	}
	limpet_units_format_bytes(bytes, unfollowed->bytes);
	limpet_units_format_bytes(rss, unfollowed->rss_bytes);
	limpet_units_format_bytes(growth,
				  unfollowed->grows ? (uint64_t)unfollowed->growth_bytes : 0);
	snprintf(ret, room, "%s of %s RSS belong to no allocator that limpet follows%s%s%s%s%s",
		 bytes, rss, unfollowed->grows ? "; they grew by " : "",
		 unfollowed->grows ? growth : "", *names ? " (" : "", names, *names ? ")" : "");
}

void limpet_unfollowed_sentence(const struct limpet_unfollowed *unfollowed, char *ret, size_t room)
{
	limpet_unfollowed_say(unfollowed, ret, room);
	/* Names of programs stay as they are. */
	if (!strncmp(ret, "the ", 4))
		ret[0] = 'T';
}
