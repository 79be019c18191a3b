/* The lists of free chunks that look as if they were in use: fastbins, and the caches of threads.
 * The process changes them meanwhile; a list that leads astray ends there. */
#ifndef LIMPET_EXPLAIN_GLIBC_LISTS_H
#define LIMPET_EXPLAIN_GLIBC_LISTS_H

#include "explain/glibc_reader.h"

/* Chunks that are followed in all fastbins of an arena, at most. */
#define LIMPET_GLIBC_FAST_LIMIT ((size_t)16 << 20)

struct limpet_glibc_fast {
	uint64_t *list; /* chunks, sorted */
	size_t count, capacity;
	bool is_whole; /* every list was followed to its end */
};
void limpet_glibc_fast_done(struct limpet_glibc_fast *fast);
/* *ret_fast begins as all zeros. 0 or -ENOMEM. */
int limpet_glibc_fast_read(struct limpet_glibc_reader *reader,
			   const struct limpet_glibc_state *state,
			   struct limpet_glibc_fast *ret_fast) LIMPET_MUST_CHECK;

/* Whether a chunk of this size, with its head, may hold a thread's cache. */
bool limpet_glibc_may_be_cache(uint64_t chunk_bytes);
enum limpet_glibc_cache {
	LIMPET_GLIBC_NO_CACHE,
	LIMPET_GLIBC_CACHE,
	LIMPET_GLIBC_CACHE_UNREAD /* it looks like one, but was changing, or could not be read */
};
/* What this chunk is. *ret_bytes, of a cache: of the chunks that it holds; if that is 0, a block of
 * zeros may look the same. */
enum limpet_glibc_cache limpet_glibc_cache_read(struct limpet_glibc_reader *reader, uint64_t chunk,
						uint64_t chunk_bytes, uint64_t *ret_bytes);
/* Adds the chunks that this cache holds; `list->is_whole` becomes false if a list leads astray, or
 * if it is a cache of glibc 2.42. Not sorted. 0 or -ENOMEM. */
int limpet_glibc_cache_list(struct limpet_glibc_reader *reader, uint64_t chunk,
			    uint64_t chunk_bytes, struct limpet_glibc_fast *list) LIMPET_MUST_CHECK;

#endif
