#include "common/unfollowed.h"

#include <stdio.h>
#include <string.h>

#include "common/array.h"
#include "common/begins.h"
#include "common/units.h"

/* How the kinds of rows begin, see explain/accounts.h. */
static const char *const kinds[] = {"jemalloc-", "mimalloc-", "tcmalloc-", "v8-",  "python-",
				    "go-",       "java-",     "wasm-",     "nim-", "erlang-"};

static bool is_of_another(const char *kind)
{
	for (size_t i = 0; i < LIMPET_COUNT_OF(kinds); i++)
		if (limpet_begins(kind, kinds[i]))
			return true;
	return false;
}

struct limpet_unfollowed_part limpet_unfollowed_of(const struct limpet_resident_account *account)
{
	struct limpet_unfollowed_part part = {.known = account->known};

	for (size_t i = 0; i < account->count; i++) {
		const struct limpet_resident_row *row = &account->rows[i];
		const bool is_unknown = !strcmp(row->kind, "unknown");

		if (strcmp(row->kind, "limpet") != 0)
			part.rss_bytes += row->bytes;
		if (is_unknown || is_of_another(row->kind))
			part.bytes += row->bytes;
		if (is_unknown)
			part.unknown_bytes += row->bytes;
	}
	return part;
}

static bool is_large(uint64_t bytes, uint64_t rss_bytes)
{
	return bytes >= LIMPET_UNFOLLOWED_BYTES &&
	       (double)bytes >= LIMPET_UNFOLLOWED_SHARE * (double)rss_bytes;
}

struct limpet_unfollowed limpet_unfollowed_judge(const struct limpet_unfollowed_part *first,
						 const struct limpet_unfollowed_part *last,
						 uint64_t mapped_bytes, const char *names)
{
	const struct limpet_unfollowed_part *end = last && last->known ? last : first;
	struct limpet_unfollowed it = {.matters = names[0] != '\0', .names = names};
	uint64_t came;

	if (!end->known)
		return it;
	came = end->unknown_bytes > first->unknown_bytes ? end->unknown_bytes - first->unknown_bytes
							 : 0;
	it.known = true;
	it.bytes = end->bytes - (came < mapped_bytes ? came : mapped_bytes);
	it.rss_bytes = end->rss_bytes;
	it.is_large = is_large(it.bytes, it.rss_bytes);
	it.matters |= it.is_large;
	it.has_growth = first->known && end != first;
	if (!it.has_growth)
		return it;
	it.growth_bytes = (int64_t)(it.bytes - first->bytes);
	it.grows = it.growth_bytes >= (int64_t)LIMPET_UNFOLLOWED_GROWTH_BYTES &&
		   (double)it.growth_bytes >= LIMPET_UNFOLLOWED_GROWTH_SHARE * (double)it.rss_bytes;
	it.matters |= it.grows;
	return it;
}

void limpet_unfollowed_format(const struct limpet_unfollowed *unfollowed, char *ret, size_t room)
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
	limpet_unfollowed_format(unfollowed, ret, room);
	/* Names of programs stay as they are. */
	if (!strncmp(ret, "the ", 4))
		ret[0] = 'T';
}
