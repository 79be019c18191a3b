#include "explain/glibc_lists.h"

#include <errno.h>
#include <stdlib.h>

#include "common/array.h"

#define ALIGNMENT 16u
#define CHUNK_BITS ((uint64_t)7)
#define HEAD_BYTES 16u /* a chunk's address to its block's */
/* The caches, struct tcache_perthread_struct: a counter for each size, then a list for each. */
#define CACHE_SIZES 64u
#define CACHE_BYTES_WIDE 0x290u   /* counters of two bytes, since 2.30 */
#define CACHE_BYTES_NARROW 0x250u /* of one byte, 2.26 to 2.29 */
#define CACHE_BYTES_SLOTS 0x300u  /* since 2.42: see judge_slots() */
#define CACHE_LARGE_LISTS 12u
#define CACHE_SMALL_BYTES 1040u /* of the last list with chunks of one size */
#define CACHE_LARGE_LIMIT_BYTES ((uint64_t)8 << 20)
/* MAX_TCACHE_COUNT: glibc.malloc.tcache_count is 7 by default, and 16 since 2.43. */
#define CACHE_COUNT_LIMIT 65535u
/* Of a cache that its thread was just changing: lists that do not agree with their counters. */
#define CACHE_CHANGING_LIMIT 2u
#define SPENT_STEPS 1024u /* between two questions whether there is time left */

void limpet_glibc_fast_done(struct limpet_glibc_fast *fast)
{
	free(fast->list);
	*fast = (struct limpet_glibc_fast){0};
}

static bool is_chunk_of(struct limpet_glibc_reader *reader, uint64_t chunk, uint64_t bytes)
{
	uint64_t head;

	return chunk && chunk % ALIGNMENT == 0 &&
	       limpet_glibc_reader_any(reader, chunk + 8, &head) == 0 &&
	       (head & ~CHUNK_BITS) == bytes;
}

/* Since 2.32 a link is stored exclusive-or the page number of its own address. Either is accepted
 * if it leads to a chunk of the right size. `head`: links lead so far behind a chunk's start. */
static int follow(struct limpet_glibc_reader *reader, uint64_t chunk, uint64_t bytes, uint64_t head,
		  uint64_t *ret_next)
{
	const uint64_t at = chunk + HEAD_BYTES;
	uint64_t link, plain;
	int error = limpet_glibc_reader_any(reader, at, &link);

	if (error)
		return error;
	plain = link ^ (at >> 12);
	if (!plain || is_chunk_of(reader, plain - head, bytes))
		*ret_next = plain ? plain - head : 0;
	else if (!link || is_chunk_of(reader, link - head, bytes))
		*ret_next = link ? link - head : 0;
	else
		return -EBADMSG;
	return 0;
}

static int read_list(struct limpet_glibc_reader *reader, uint64_t chunk, uint64_t bytes,
		     struct limpet_glibc_fast *fast)
{
	/* A circular list would be noticed only at the limit: Brent's search for circles. */
	uint64_t mark = 0;
	size_t steps = 0, wait = 64;

	if (chunk && !is_chunk_of(reader, chunk, bytes)) {
		fast->is_whole = false;
		return 0;
	}
	while (chunk) {
		if (chunk == mark || fast->count >= LIMPET_GLIBC_FAST_LIMIT ||
		    (steps % SPENT_STEPS == 0 && limpet_glibc_reader_is_spent(reader))) {
			fast->is_whole = false;
			return 0;
		}
		if (++steps == wait) {
			mark = chunk;
			wait *= 2;
		}
		if (limpet_reserve(&fast->list, &fast->capacity, fast->count + 1,
				   sizeof(*fast->list)) < 0)
			return -ENOMEM;
		fast->list[fast->count++] = chunk;
		if (follow(reader, chunk, bytes, 0, &chunk) < 0) {
			fast->is_whole = false;
			return 0;
		}
	}
	return 0;
}

static int compare(const void *a, const void *b)
{
	uint64_t left = *(const uint64_t *)a, right = *(const uint64_t *)b;

	return left < right ? -1 : left > right;
}

int limpet_glibc_fast_read(struct limpet_glibc_reader *reader,
			   const struct limpet_glibc_state *state,
			   struct limpet_glibc_fast *ret_fast)
{
	ret_fast->count = 0;
	ret_fast->is_whole = true;
	for (unsigned i = 0; i < LIMPET_GLIBC_FASTBINS; i++) {
		int error = read_list(reader, state->fastbins[i], (uint64_t)ALIGNMENT * (i + 2),
				      ret_fast);

		if (error)
			return error;
	}
	if (ret_fast->count)
		qsort(ret_fast->list, ret_fast->count, sizeof(*ret_fast->list), compare);
	return 0;
}

/* ------------------------------------------------------------------ caches of threads */

/* Since 2.42 counters say how many more chunks a list takes, and there are lists of larger chunks,
 * for several sizes each. */
struct cache {
	struct limpet_glibc_reader *reader;
	uint64_t counters, lists; /* addresses */
	unsigned width, count;    /* bytes of a counter; how many */
	uint64_t sum;
};

bool limpet_glibc_may_be_cache(uint64_t chunk_bytes)
{
	return chunk_bytes == CACHE_BYTES_WIDE || chunk_bytes == CACHE_BYTES_NARROW ||
	       chunk_bytes == CACHE_BYTES_SLOTS;
}

static struct cache cache_in(struct limpet_glibc_reader *reader, uint64_t chunk,
			     uint64_t chunk_bytes)
{
	struct cache cache = {.reader = reader,
			      .counters = chunk + HEAD_BYTES,
			      .width = chunk_bytes == CACHE_BYTES_NARROW ? 1 : 2,
			      .count = CACHE_SIZES +
				       (chunk_bytes == CACHE_BYTES_SLOTS ? CACHE_LARGE_LISTS : 0)};

	cache.lists = cache.counters + (uint64_t)cache.width * cache.count;
	return cache;
}

/* The counter, and the first chunk of the list or 0. */
static int read_entry(const struct cache *cache, unsigned i, uint64_t *ret_counter,
		      uint64_t *ret_first)
{
	const uint64_t at = cache->counters + (uint64_t)cache->width * i;
	uint64_t word, first;
	int error = limpet_glibc_reader_any(cache->reader, at - at % 8, &word);

	if (!error)
		error = limpet_glibc_reader_any(cache->reader, cache->lists + 8 * (uint64_t)i,
						&first);
	if (error)
		return error;
	*ret_counter = word >> at % 8 * 8 & (cache->width == 2 ? UINT16_MAX : UINT8_MAX);
	*ret_first = first ? first - HEAD_BYTES : 0;
	return 0;
}

static enum limpet_glibc_cache judge_counts(struct cache *cache)
{
	unsigned wrong = 0, right = 0;

	for (unsigned i = 0; i < cache->count; i++) {
		const uint64_t bytes = (uint64_t)ALIGNMENT * (i + 2);
		uint64_t count, first;

		if (read_entry(cache, i, &count, &first))
			return LIMPET_GLIBC_CACHE_UNREAD;
		if (!count != !first || (count && !is_chunk_of(cache->reader, first, bytes)))
			wrong++;
		else
			right += count > 0;
		cache->sum += count * bytes;
	}
	if (!wrong)
		return LIMPET_GLIBC_CACHE;
	return right && wrong <= CACHE_CHANGING_LIMIT ? LIMPET_GLIBC_CACHE_UNREAD
						      : LIMPET_GLIBC_NO_CACHE;
}

/* The chunks of one list, of this size; 0: of any that is larger than those of the lists with one
 * size. -EBADMSG: there is something else in it, or more than `limit`. */
static int count_chunks(struct cache *cache, uint64_t chunk, uint64_t bytes, uint64_t limit,
			uint64_t *ret_count)
{
	uint64_t count = 0;

	while (chunk) {
		uint64_t head, link;

		if (chunk % ALIGNMENT || count++ == limit ||
		    (count % SPENT_STEPS == 0 && limpet_glibc_reader_is_spent(cache->reader)) ||
		    limpet_glibc_reader_any(cache->reader, chunk + 8, &head) < 0 ||
		    limpet_glibc_reader_any(cache->reader, chunk + HEAD_BYTES, &link) < 0)
			return -EBADMSG;
		head &= ~CHUNK_BITS;
		if (bytes ? head != bytes
			  : head <= CACHE_SMALL_BYTES || head > CACHE_LARGE_LIMIT_BYTES)
			return -EBADMSG;
		cache->sum += head;
		link ^= (chunk + HEAD_BYTES) >> 12;
		chunk = link ? link - HEAD_BYTES : 0;
	}
	*ret_count = count;
	return 0;
}

/* What a list holds and what it takes yet are as many in all lists, but for those that take none.
 */
static enum limpet_glibc_cache judge_slots(struct cache *cache)
{
	unsigned wrong = 0, right = 0;
	uint64_t most = 0;

	for (unsigned i = 0; i < cache->count; i++) {
		uint64_t slots, first, count;

		if (read_entry(cache, i, &slots, &first))
			return LIMPET_GLIBC_CACHE_UNREAD;
		if (count_chunks(cache, first, i < CACHE_SIZES ? (uint64_t)ALIGNMENT * (i + 2) : 0,
				 CACHE_COUNT_LIMIT, &count)) {
			wrong++;
			continue;
		}
		right += count > 0;
		count += slots;
		if (!count)
			continue;
		wrong += most && count != most;
		if (!most)
			most = count;
	}
	if (!wrong && most)
		return LIMPET_GLIBC_CACHE;
	return right && wrong && wrong <= CACHE_CHANGING_LIMIT ? LIMPET_GLIBC_CACHE_UNREAD
							       : LIMPET_GLIBC_NO_CACHE;
}

/* Any block of that size may have been taken for a cache: its counters and lists have to agree in
 * all sizes. */
enum limpet_glibc_cache limpet_glibc_cache_read(struct limpet_glibc_reader *reader, uint64_t chunk,
						uint64_t chunk_bytes, uint64_t *ret_bytes)
{
	struct cache cache = cache_in(reader, chunk, chunk_bytes);
	enum limpet_glibc_cache what =
		chunk_bytes == CACHE_BYTES_SLOTS ? judge_slots(&cache) : judge_counts(&cache);

	if (what == LIMPET_GLIBC_CACHE)
		*ret_bytes = cache.sum;
	return what;
}

static int add_cached(struct limpet_glibc_reader *reader, uint64_t chunk, uint64_t bytes,
		      uint64_t count, struct limpet_glibc_fast *list)
{
	for (uint64_t n = 0; n < count; n++) {
		if (!is_chunk_of(reader, chunk, bytes) || list->count >= LIMPET_GLIBC_FAST_LIMIT ||
		    (n % SPENT_STEPS == SPENT_STEPS - 1 && limpet_glibc_reader_is_spent(reader))) {
			list->is_whole = false;
			return 0;
		}
		if (limpet_reserve(&list->list, &list->capacity, list->count + 1,
				   sizeof(*list->list)) < 0)
			return -ENOMEM;
		list->list[list->count++] = chunk;
		if (follow(reader, chunk, bytes, HEAD_BYTES, &chunk) < 0) {
			list->is_whole = false;
			return 0;
		}
	}
	/* The counter and the list have to end together. */
	list->is_whole &= !chunk;
	return 0;
}

int limpet_glibc_cache_list(struct limpet_glibc_reader *reader, uint64_t chunk,
			    uint64_t chunk_bytes, struct limpet_glibc_fast *list)
{
	const struct cache cache = cache_in(reader, chunk, chunk_bytes);
	int error = 0;

	if (chunk_bytes == CACHE_BYTES_SLOTS) {
		list->is_whole = false;
		return 0;
	}
	for (unsigned i = 0; i < cache.count && !error; i++) {
		uint64_t count, first;

		if (read_entry(&cache, i, &count, &first)) {
			list->is_whole = false;
			return 0;
		}
		if (count)
			error = add_cached(reader, first, (uint64_t)ALIGNMENT * (i + 2), count,
					   list);
	}
	return error;
}
