/* What is said of resident memory that belongs to no allocator that limpet follows. */
#ifndef LIMPET_COMMON_UNFOLLOWED_H
#define LIMPET_COMMON_UNFOLLOWED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/resident_account.h"

/* Amounts below both limits of a pair are not reported. */
#define LIMPET_UNFOLLOWED_BYTES (4u << 20)
#define LIMPET_UNFOLLOWED_SHARE 0.05 /* of RSS */
#define LIMPET_UNFOLLOWED_GROWTH_BYTES (1u << 20)
#define LIMPET_UNFOLLOWED_GROWTH_SHARE 0.01

/* At one moment. */
struct limpet_unfollowed_part {
	bool known;
	uint64_t bytes, rss_bytes;
	uint64_t unknown_bytes; /* of `bytes`: of no known owner */
};
/* Where glibc's malloc is the only one that is followed: heaps of others, and what is of no known
 * owner. */
struct limpet_unfollowed_part limpet_unfollowed_of(const struct limpet_resident_account *account);

/* From the first and last known part. */
struct limpet_unfollowed {
	bool known;
	bool has_growth; /* both are known */
	bool is_large, grows;
	bool matters; /* one of these, or an allocator is known that is not followed */
	uint64_t bytes, rss_bytes;
	int64_t growth_bytes;
	const char *names;
};
/* `last` may be NULL. `mapped_bytes`: what came of no known owner may be as much that the capture
 * saw the program map. `names`: known allocators that are not followed, "" if none; the pointer is
 * kept. */
struct limpet_unfollowed limpet_unfollowed_judge(const struct limpet_unfollowed_part *first,
						 const struct limpet_unfollowed_part *last,
						 uint64_t mapped_bytes, const char *names);
/* "38.0 MiB of 84.0 MiB RSS belong to no allocator that limpet follows; they grew by 12.0 MiB
 * (mimalloc in bun)". Truncated if it does not fit. */
void limpet_unfollowed_format(const struct limpet_unfollowed *unfollowed, char *ret, size_t room);
/* The same as a sentence of its own, without the full stop: "The heap of V8 cannot be ...". */
void limpet_unfollowed_sentence(const struct limpet_unfollowed *unfollowed, char *ret, size_t room);

#endif
