#include "explain/glibc_regions.h"

#include <errno.h>
#include <stdlib.h>

#include "common/array.h"

#define PAGE ((uint64_t)4096)
#define ALIGNMENT ((uint64_t)16)
/* What looks like chunks for longer than this are chunks. The reader reads ahead. */
#define FAR_BYTES ((uint64_t)2 << 20)
#define TRIES_LIMIT ((uint64_t)1 << 20)

void limpet_glibc_regions_done(struct limpet_glibc_regions *regions)
{
	free(regions->list);
	*regions = (struct limpet_glibc_regions){0};
}

static int add(struct limpet_glibc_regions *regions, const struct limpet_glibc_span *span,
	       const struct limpet_glibc_figures *figures)
{
	if (limpet_reserve(&regions->list, &regions->capacity, regions->count + 1,
			   sizeof(*regions->list)) < 0 ||
	    !regions->list)
		return -ENOMEM;
	regions->list[regions->count] = *span;
	regions->list[regions->count++].end = figures->end;
	limpet_glibc_figures_add(&regions->figures, figures);
	return 0;
}

int limpet_glibc_regions_find(struct limpet_glibc_reader *reader,
			      const struct limpet_present *present,
			      const struct limpet_glibc_span *span,
			      const struct limpet_glibc_fast *fast,
			      struct limpet_glibc_regions *regions)
{
	const uint64_t step = span->is_brk ? ALIGNMENT : PAGE;
	struct limpet_glibc_span part = *span;
	uint64_t tries = 0;

	while (part.start < span->end && tries < TRIES_LIMIT) {
		struct limpet_glibc_figures figures;
		int error = 0;

		part.top = span->top >= part.start ? span->top : 0;
		if (limpet_glibc_walk(reader, present, &part, fast, &figures) == 0) {
			error = add(regions, &part, &figures);
			part.start = (figures.end + step - 1) & ~(step - 1);
		} else {
			if (limpet_glibc_reader_end(reader) > part.start + FAR_BYTES)
				error = -EBADMSG;
			if (limpet_glibc_reader_is_spent(reader))
				error = -ETIME;
			part.start = (part.start + step) & ~(step - 1);
			tries++;
		}
		if (error)
			return error;
		/* Every region begins with a head, on a page that is present. */
		part.start = limpet_present_next(present, part.start);
	}
	return 0;
}
