#include "explain/glibc_walk.h"

#include <errno.h>
#include <stdlib.h>

#include "common/array.h"

#define PAGE ((uint64_t)4096)
#define ALIGNMENT 16u
#define CHUNK_BITS ((uint64_t)7)
#define CHUNK_PREVIOUS_IN_USE ((uint64_t)1)
#define CHUNK_IS_MMAPPED ((uint64_t)2)
#define CHUNK_NOT_MAIN ((uint64_t)4)
#define CHUNK_LEAST_BYTES ((uint64_t)32)
#define MARK_BYTES ((uint64_t)16) /* chunks of this size close a region */
/* sizeof(struct malloc_chunk): malloc_trim keeps that much at the head of a free chunk. */
#define KEPT_HEAD_BYTES ((uint64_t)48)
#define KEPT_TOP_BYTES ((uint64_t)33) /* MINSIZE and one more byte */

struct walk {
	struct limpet_glibc_reader *reader;
	const struct limpet_present *present;
	const struct limpet_glibc_region *region;
	const struct limpet_glibc_fast *fast;
	size_t fast_at;
	struct limpet_glibc_figures figures;
	/* The chunk before, which is judged once the next one's head is read. */
	uint64_t chunk, bytes;
	/* Where the free chunks begin that end here; malloc_consolidate() makes them one. 0: the
	 * last chunk is in use. */
	uint64_t run;
	uint64_t head; /* that was read last */
	int error;     /* -ENOMEM */
};

void limpet_glibc_chunks_done(struct limpet_glibc_chunks *chunks)
{
	free(chunks->list);
	*chunks = (struct limpet_glibc_chunks){0};
}

void limpet_glibc_returns_done(struct limpet_glibc_returns *returns)
{
	free(returns->list);
	*returns = (struct limpet_glibc_returns){0};
}

void limpet_glibc_figures_add(struct limpet_glibc_figures *sum,
			      const struct limpet_glibc_figures *figures)
{
	sum->region_bytes += figures->region_bytes;
	sum->resident_bytes += figures->resident_bytes;
	sum->free_bytes += figures->free_bytes;
	sum->free_resident_bytes += figures->free_resident_bytes;
	sum->top_bytes += figures->top_bytes;
	sum->top_resident_bytes += figures->top_resident_bytes;
	sum->fast_bytes += figures->fast_bytes;
	sum->cache_bytes += figures->cache_bytes;
	sum->caches += figures->caches;
	sum->returned_bytes += figures->returned_bytes;
	sum->brk_returned_bytes += figures->brk_returned_bytes;
	sum->chunks += figures->chunks;
	sum->free_chunks += figures->free_chunks;
}

static uint64_t resident(const struct walk *walk, uint64_t start, uint64_t end)
{
	return limpet_present_bytes(walk->present, start, end);
}

static void list_return(struct walk *walk, const struct limpet_glibc_return *returned)
{
	struct limpet_glibc_returns *returns = walk->region->returns;

	if (!returns || !returned->resident_bytes)
		return;
	if (returns->count == LIMPET_GLIBC_RETURNS_LIMIT) {
		returns->is_cut = true;
		return;
	}
	if (limpet_reserve(&returns->list, &returns->capacity, returns->count + 1,
			   sizeof(*returns->list)) < 0 ||
	    !returns->list) {
		walk->error = -ENOMEM;
		return;
	}
	returns->list[returns->count++] = *returned;
}

/* mtrim() in malloc/malloc.c: whole pages of a free chunk, but for its head. */
static void close_run(struct walk *walk, uint64_t end)
{
	struct limpet_glibc_return returned = {.start = (walk->run + KEPT_HEAD_BYTES + PAGE - 1) &
							~(PAGE - 1),
					       .end = end & ~(PAGE - 1)};

	if (walk->run && returned.end > returned.start) {
		returned.resident_bytes = resident(walk, returned.start, returned.end);
		walk->figures.returned_bytes += returned.resident_bytes;
		list_return(walk, &returned);
	}
	walk->run = 0;
}

static bool is_fast(struct walk *walk, uint64_t chunk)
{
	const struct limpet_glibc_fast *fast = walk->fast;

	while (walk->fast_at < fast->count && fast->list[walk->fast_at] < chunk)
		walk->fast_at++;
	return walk->fast_at < fast->count && fast->list[walk->fast_at] == chunk;
}

static void list_chunk(struct walk *walk)
{
	struct limpet_glibc_chunks *used = walk->region->used;

	if (!used)
		return;
	if (used->count == LIMPET_GLIBC_CHUNKS_LIMIT) {
		used->is_cut = true;
		return;
	}
	if (limpet_reserve(&used->list, &used->capacity, used->count + 1, sizeof(*used->list)) <
		    0 ||
	    !used->list) {
		walk->error = -ENOMEM;
		return;
	}
	used->list[used->count++] = (struct limpet_glibc_chunk){walk->chunk, walk->bytes};
}

/* A thread takes its cache before anything else, so the first one of a heap is there. Another block
 * that holds only zeros is hardly one. */
static void note_cache(struct walk *walk)
{
	uint64_t bytes;

	if (!limpet_glibc_may_be_cache(walk->bytes) ||
	    limpet_glibc_cache_read(walk->reader, walk->chunk, walk->bytes, &bytes) !=
		    LIMPET_GLIBC_CACHE ||
	    (!bytes && walk->chunk != walk->region->start))
		return;
	walk->figures.cache_bytes += bytes;
	walk->figures.caches++;
}

/* Counts the chunk before, now that it is known whether it is in a bin. */
static void settle(struct walk *walk, bool in_bin)
{
	struct limpet_glibc_figures *figures = &walk->figures;
	uint64_t end = walk->chunk + walk->bytes;
	bool fast;

	if (!walk->bytes)
		return;
	figures->chunks++;
	fast = !in_bin && is_fast(walk, walk->chunk);
	if (!in_bin && !fast) {
		close_run(walk, walk->chunk);
		note_cache(walk);
		list_chunk(walk);
		return;
	}
	figures->free_chunks++;
	figures->free_bytes += walk->bytes;
	figures->free_resident_bytes += resident(walk, walk->chunk, end);
	if (fast)
		figures->fast_bytes += walk->bytes;
	if (!walk->run)
		walk->run = walk->chunk;
}

/* systrim(): the top shrinks by whole pages, or whole huge ones. */
static int note_top(struct walk *walk, uint64_t bytes)
{
	struct limpet_glibc_figures *figures = &walk->figures;
	uint64_t top = walk->region->top, end = top + bytes;
	uint64_t start = walk->run ? walk->run : top;

	if (bytes < ALIGNMENT || bytes > walk->region->end - top)
		return -EBADMSG;
	/* Others may have called sbrk(2) since: what is behind the top is not the arena's. */
	figures->end = walk->region->in_parts || walk->region->is_brk ? end : walk->region->end;
	figures->top_bytes = bytes;
	figures->top_resident_bytes = resident(walk, top, end);
	figures->free_bytes += bytes;
	figures->free_resident_bytes += figures->top_resident_bytes;
	if (walk->region->shrinks && end == walk->region->end && end - start > KEPT_TOP_BYTES) {
		const uint64_t whole = walk->region->top_step ? walk->region->top_step : PAGE;
		uint64_t extra = (end - start - KEPT_TOP_BYTES) & ~(whole - 1);

		figures->brk_returned_bytes = resident(walk, end - extra, end);
		figures->returned_bytes += figures->brk_returned_bytes;
	}
	return 0;
}

/* A main arena closes a region with two marks, other ones with one or two at the end of the heap.
 */
static int note_end(struct walk *walk, uint64_t chunk, uint64_t bytes)
{
	uint64_t second;

	close_run(walk, chunk);
	walk->figures.end = walk->region->end;
	if (!walk->region->in_parts)
		return walk->region->end - chunk <= 4 * MARK_BYTES ? 0 : -EBADMSG;
	if (bytes != MARK_BYTES || walk->region->end - chunk < 2 * MARK_BYTES ||
	    limpet_glibc_reader_next(walk->reader, chunk + MARK_BYTES + 8, &second) < 0 ||
	    second != (MARK_BYTES | CHUNK_PREVIOUS_IN_USE))
		return -EBADMSG;
	walk->figures.end = chunk + 2 * MARK_BYTES;
	return 0;
}

static bool is_plausible(const struct walk *walk, uint64_t chunk, uint64_t head)
{
	uint64_t bytes = head & ~CHUNK_BITS;

	if (bytes % ALIGNMENT || bytes > walk->region->end - chunk || head & CHUNK_IS_MMAPPED ||
	    (walk->region->is_main && head & CHUNK_NOT_MAIN))
		return false;
	return bytes >= CHUNK_LEAST_BYTES || chunk == walk->region->top || !walk->region->top ||
	       walk->region->in_parts;
}

/* A top whose head was not written yet ends where the memory does. */
static int head_at(const struct walk *walk, uint64_t chunk, uint64_t *ret_head)
{
	const struct limpet_glibc_region *region = walk->region;

	if (chunk != region->top)
		return limpet_glibc_reader_next(walk->reader, chunk + 8, ret_head);
	if (!region->top_head && region->in_parts)
		return -EBADMSG;
	*ret_head = region->top_head ?: (region->end - chunk) | CHUNK_PREVIOUS_IN_USE;
	return 0;
}

static int step(struct walk *walk, uint64_t *chunk)
{
	uint64_t head = 0, bytes;
	int error = head_at(walk, *chunk, &head);

	walk->head = error ? 0 : head;
	if (error)
		return error;
	bytes = head & ~CHUNK_BITS;
	if (!is_plausible(walk, *chunk, head))
		return -EBADMSG;
	settle(walk, !(head & CHUNK_PREVIOUS_IN_USE));
	walk->bytes = 0;
	if (*chunk == walk->region->top) {
		error = note_top(walk, bytes);
		return error ? error : 1;
	}
	if (bytes < CHUNK_LEAST_BYTES) {
		error = note_end(walk, *chunk, bytes);
		return error ? error : 1;
	}
	walk->chunk = *chunk;
	walk->bytes = bytes;
	*chunk += bytes;
	return 0;
}

int limpet_glibc_walk(struct limpet_glibc_reader *reader, const struct limpet_present *present,
		      const struct limpet_glibc_region *region,
		      const struct limpet_glibc_fast *fast,
		      struct limpet_glibc_figures *ret_figures)
{
	struct walk walk = {.reader = reader, .present = present, .region = region, .fast = fast};
	uint64_t chunk = region->start, last = region->top ? region->top : region->end - MARK_BYTES;
	const size_t listed = region->used ? region->used->count : 0;
	const size_t returns = region->returns ? region->returns->count : 0;
	int done = 0;

	if (region->start % ALIGNMENT || region->end <= region->start ||
	    region->end - region->start < MARK_BYTES || last < region->start || last > region->end)
		return -EBADMSG;
	while (!done)
		done = chunk > last ? -EBADMSG : step(&walk, &chunk);
	if (walk.error)
		done = walk.error;
	if (done < 0) {
		if (region->used)
			region->used->count = listed;
		if (region->returns)
			region->returns->count = returns;
		if (region->stop)
			*region->stop = (struct limpet_glibc_stop){
				.chunk = chunk, .head = walk.head, .error = done};
		return done;
	}
	walk.figures.region_bytes = walk.figures.end - region->start;
	walk.figures.resident_bytes = resident(&walk, region->start, walk.figures.end);
	*ret_figures = walk.figures;
	return 0;
}
