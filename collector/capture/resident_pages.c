#include "collector/capture/resident_pages.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>

#include "common/array.h"
#include "common/clock.h"
#include "injector/proc/pages.h"
#include "injector/proc/proc.h"
#include "injector/proc/target_process.h"

#define PAGE 4096u
/* Pages between two blocks up to this distance are asked for, too: that costs less than another
 * call. */
#define GAP_BYTES (64u * PAGE)
/* 16 MiB. */
#define RUNS_MAX (1u << 20)

struct walk {
	struct limpet_resident_pages *pages;
	struct limpet_pages *source;
	uint64_t start, end; /* not looked at yet */
	uint64_t from, to;   /* looked at */
	int error;
};

static int add_run(struct limpet_resident_pages *pages, const struct limpet_page_range *range)
{
	struct limpet_recorder_run *last = pages->count ? &pages->runs[pages->count - 1] : NULL;

	if (last && last->end == range->start) {
		last->end = range->end;
		return 0;
	}
	if (pages->count == RUNS_MAX)
		return -ENOSPC;
	if (limpet_reserve(&pages->runs, &pages->capacity, pages->count + 1, sizeof(*pages->runs)) <
		    0 ||
	    !pages->runs)
		return -ENOMEM;
	pages->runs[pages->count++] = (struct limpet_recorder_run){range->start, range->end};
	return 0;
}

/* Looks at [walk->start, walk->end). */
static int scan(struct walk *walk)
{
	struct limpet_page_range ranges[LIMPET_PAGES_RANGES];

	while (walk->start < walk->end) {
		uint64_t at;
		int found;

		if (limpet_monotonic_ns() >= walk->pages->deadline_ns)
			return -ETIME;
		found = limpet_pages_next(walk->source, walk->start, walk->end, false, ranges, &at);
		if (found < 0)
			return found;
		for (int i = 0; i < found; i++) {
			int error = add_run(walk->pages, &ranges[i]);

			/* The runs so far are whole. */
			if (error) {
				walk->to = ranges[i].start;
				return error;
			}
		}
		walk->start = walk->to = at;
	}
	return 0;
}

static bool add_block(void *context, uint64_t address, uint64_t size)
{
	struct walk *walk = context;
	const uint64_t start = address & ~(uint64_t)(PAGE - 1);
	const uint64_t last = address + (size ? size - 1 : 0);
	const uint64_t end = (last | (PAGE - 1)) + 1;

	/* Up to the end of the address space: no process has such a block. */
	if (end <= start)
		return false;
	if (walk->end && start <= walk->end + GAP_BYTES) {
		if (end > walk->end)
			walk->end = end;
		return true;
	}
	walk->error = scan(walk);
	if (walk->error)
		return false;
	if (!walk->end)
		walk->from = walk->to = start;
	walk->start = start;
	walk->end = end;
	return true;
}

int limpet_resident_pages_read(struct limpet_resident_pages *pages,
			       struct limpet_recorder *recorder,
			       struct limpet_recorder_resident *ret_resident)
{
	struct walk walk = {.pages = pages};
	int error = limpet_pages_new(pages->target, LIMPET_PAGES_SCAN, &walk.source);

	if (error)
		return error;
	limpet_pages_leave_out_swapped(walk.source);
	limpet_recorder_walk_blocks(recorder, add_block, &walk);
	if (!walk.error)
		walk.error = scan(&walk);
	limpet_pages_free(walk.source);
	/* The memory of a process that is gone looks like memory that is not resident. */
	if (limpet_target_check(pages->target))
		return -ESRCH;
	if (walk.from == walk.to)
		return -ENODATA;
	*ret_resident = (struct limpet_recorder_resident){.from = walk.from,
							  .to = walk.to,
							  .page_bytes = PAGE,
							  .runs = pages->runs,
							  .count = pages->count};
	return 0;
}

void limpet_resident_pages_done(struct limpet_resident_pages *pages)
{
	free(pages->runs);
	pages->runs = NULL;
	pages->count = pages->capacity = 0;
}
