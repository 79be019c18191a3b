#include "explain/present.h"

#include <errno.h>
#include <stdlib.h>

#include "common/array.h"

void limpet_present_done(struct limpet_present *present)
{
	free(present->list);
	*present = (struct limpet_present){0};
}

int limpet_present_add(struct limpet_present *present, uint64_t start, uint64_t end)
{
	struct limpet_present_range *last;

	if (end <= start)
		return -EINVAL;
	last = present->count ? &present->list[present->count - 1] : NULL;
	if (last && start < last->end)
		return -EINVAL;
	if (last && start == last->end) {
		last->end = end;
		return 0;
	}
	if (limpet_reserve(&present->list, &present->capacity, present->count + 1,
			   sizeof(*present->list)) < 0 ||
	    !present->list)
		return -ENOMEM;
	last = present->count ? &present->list[present->count - 1] : NULL;
	present->list[present->count++] = (struct limpet_present_range){
		start, end, last ? last->before + (last->end - last->start) : 0};
	return 0;
}

int limpet_present_read(struct limpet_present *present, struct limpet_pages *pages, uint64_t start,
			uint64_t end)
{
	struct limpet_page_range ranges[LIMPET_PAGES_RANGES];

	while (start < end) {
		int found = limpet_pages_next(pages, start, end, false, ranges, &start);

		for (int i = 0; i < found; i++) {
			int error = limpet_present_add(present, ranges[i].start, ranges[i].end);

			if (error)
				return error;
		}
		if (found < 0)
			return found;
	}
	return 0;
}

/* Bytes that are present below this address. */
static uint64_t bytes_below(const struct limpet_present *present, uint64_t address)
{
	const struct limpet_present_range *list = present->list, *range;
	/* cppcheck-suppress constStatement */
	size_t above = LIMPET_PARTITION_POINT(i, present->count, list[i].start < address);

	if (!above)
		return 0;
	range = &list[above - 1];
	return range->before + (address < range->end ? address : range->end) - range->start;
}

uint64_t limpet_present_bytes(const struct limpet_present *present, uint64_t start, uint64_t end)
{
	return end > start ? bytes_below(present, end) - bytes_below(present, start) : 0;
}

uint64_t limpet_present_end(const struct limpet_present *present, uint64_t address)
{
	const struct limpet_present_range *list = present->list;
	/* cppcheck-suppress constStatement */
	size_t above = LIMPET_PARTITION_POINT(i, present->count, list[i].start <= address);

	return above && address < list[above - 1].end ? list[above - 1].end : 0;
}

uint64_t limpet_present_next(const struct limpet_present *present, uint64_t address)
{
	const struct limpet_present_range *list = present->list;
	/* cppcheck-suppress constStatement */
	size_t at = LIMPET_PARTITION_POINT(i, present->count, list[i].end <= address);

	if (at == present->count)
		return UINT64_MAX;
	return list[at].start > address ? list[at].start : address;
}
