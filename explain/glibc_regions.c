#include "explain/glibc_regions.h"

#include <errno.h>
#include <stdlib.h>

#include "common/array.h"

#define PAGE ((uint64_t)4096)
#define ALIGNMENT ((uint64_t)16)
/* What looks like chunks for longer than this are chunks. The reader reads ahead. */
#define FAR_BYTES ((uint64_t)2 << 20)
#define TRIES_LIMIT ((uint64_t)1 << 20)
/* Of others' memory, of which every word that may be a head is looked at. */
#define SEARCH_LIMIT_BYTES ((uint64_t)2 << 30)
#define CHUNK_BITS ((uint64_t)7)
#define CHUNK_PREVIOUS_IN_USE ((uint64_t)1)
#define CHUNK_LEAST_BYTES ((uint64_t)32)

void limpet_glibc_regions_done(struct limpet_glibc_regions *regions)
{
	free(regions->list);
	*regions = (struct limpet_glibc_regions){0};
}

static int add(struct limpet_glibc_regions *regions, const struct limpet_glibc_region *region,
	       const struct limpet_glibc_figures *figures)
{
	if (limpet_reserve(&regions->list, &regions->capacity, regions->count + 1,
			   sizeof(*regions->list)) < 0 ||
	    !regions->list)
		return -ENOMEM;
	regions->list[regions->count] = *region;
	regions->list[regions->count++].end = figures->end;
	limpet_glibc_figures_add(&regions->figures, figures);
	return 0;
}

/* The first chunk of a region says that the one before it, which does not exist, is in use. */
static bool may_begin(uint64_t head, uint64_t room)
{
	const uint64_t bytes = head & ~CHUNK_BITS;

	return (head & CHUNK_BITS) == CHUNK_PREVIOUS_IN_USE && bytes % ALIGNMENT == 0 &&
	       bytes >= CHUNK_LEAST_BYTES && bytes <= room;
}

/* Where a region may begin, at `at` or above, on a page that is present; `end`: nowhere. -ETIME:
 * that takes too long. */
static int next_start(struct limpet_glibc_reader *reader, const struct limpet_present *present,
		      uint64_t at, uint64_t end, uint64_t step, uint64_t *ret_start)
{
	uint64_t head;

	while ((at = limpet_present_next(present, at)) < end) {
		const uint64_t page_end = (at & ~(PAGE - 1)) + PAGE;

		if (limpet_glibc_reader_is_spent(reader))
			return -ETIME;
		for (at = (at + step - 1) & ~(step - 1); at < page_end && at < end; at += step)
			if (limpet_glibc_reader_next(reader, at + 8, &head) == 0 &&
			    may_begin(head, end - at)) {
				*ret_start = at;
				return 0;
			}
	}
	*ret_start = end;
	return 0;
}

int limpet_glibc_regions_find(struct limpet_glibc_reader *reader,
			      const struct limpet_present *present,
			      const struct limpet_glibc_region *region,
			      const struct limpet_glibc_fast *fast,
			      struct limpet_glibc_regions *regions)
{
	const uint64_t step = region->is_brk ? ALIGNMENT : PAGE;
	struct limpet_glibc_region part = *region;
	uint64_t tries = 0, searched = 0, from = region->start;

	for (;;) {
		struct limpet_glibc_figures figures;
		int error = next_start(reader, present, from, region->end, step, &part.start);

		if (error || part.start == region->end)
			return error;
		searched += part.start - from;
		part.top = region->top >= part.start ? region->top : 0;
		if (limpet_glibc_walk(reader, present, &part, fast, &figures) == 0) {
			error = add(regions, &part, &figures);
			from = figures.end;
		} else {
			if (limpet_glibc_reader_end(reader) > part.start + FAR_BYTES)
				error = -EBADMSG;
			if (++tries == TRIES_LIMIT || searched > SEARCH_LIMIT_BYTES)
				error = -ETIME;
			from = part.start + step;
		}
		if (error)
			return error;
	}
}
