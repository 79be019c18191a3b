#include "explain/reach/reach_scan.h"

#include <stdlib.h>

#include "common/array.h"

#define PAGE ((uint64_t)4096)
#define PIECE_BYTES ((uint64_t)256 << 10)

static int show(struct limpet_reach_scan *scan, const struct limpet_search_range *range,
		uint64_t start, uint64_t end)
{
	scan->bytes += end - start;
	return scan->visit(scan->context, range, start, scan->buffer, (size_t)(end - start) / 8);
}

/* A page that is gone by now held nothing that the process still needs. */
static int scan_pages(struct limpet_reach_scan *scan, const struct limpet_search_range *range,
		      uint64_t start, uint64_t end)
{
	int error = 0;

	for (uint64_t at = start, next; at < end && !error; at = next) {
		next = (at & ~(PAGE - 1)) + PAGE;
		next = next < end ? next : end;
		error = limpet_memory_reader_read(scan->memory, at, scan->buffer,
						  (size_t)(next - at));
		if (!error) {
			error = show(scan, range, at, next);
		} else {
			scan->is_spent |= error == -ETIME;
			scan->missed += error == -ENODATA ? 0 : next - at;
			error = 0;
		}
	}
	return error;
}

static int scan_run(struct limpet_reach_scan *scan, const struct limpet_search_range *range,
		    uint64_t start, uint64_t end)
{
	int error = 0;

	for (uint64_t at = start, next; at < end && !error && !scan->is_spent; at = next) {
		next = end - at < PIECE_BYTES ? end : at + PIECE_BYTES;
		if (limpet_memory_reader_read(scan->memory, at, scan->buffer,
					      (size_t)(next - at)) == 0)
			error = show(scan, range, at, next);
		else
			error = scan_pages(scan, range, at, next);
	}
	return error;
}

static int scan_range(struct limpet_reach_scan *scan, const struct limpet_search_range *range)
{
	const uint64_t start = (range->start + 7) & ~(uint64_t)7, end = range->end & ~(uint64_t)7;
	struct limpet_page_range present[LIMPET_PAGES_RANGES];
	const uint64_t before = scan->bytes + scan->missed;
	int error = 0;

	for (uint64_t at = start; at < end && !error && !scan->is_spent;) {
		const int found = limpet_pages_next(scan->pages, at, end, range->own, present, &at);

		if (found < 0) {
			scan->missed += end - at;
			return 0;
		}
		for (int i = 0; i < found && !error; i++)
			error = scan_run(scan, range,
					 present[i].start > start ? present[i].start : start,
					 present[i].end < end ? present[i].end : end);
	}
	if (range->shared && start < end && scan->bytes + scan->missed - before < end - start)
		scan->missed += end - start - (scan->bytes + scan->missed - before);
	return error;
}

int limpet_reach_scan(struct limpet_reach_scan *scan, const struct limpet_search_ranges *ranges,
		      unsigned kinds)
{
	int error = 0;

	scan->buffer = malloc(PIECE_BYTES);
	if (!scan->buffer)
		return -ENOMEM;
	for (size_t i = 0; i < ranges->count && !error && !scan->is_spent; i++)
		if (kinds & 1u << ranges->list[i].kind)
			error = scan_range(scan, &ranges->list[i]);
	free(scan->buffer);
	scan->buffer = NULL;
	return error;
}
