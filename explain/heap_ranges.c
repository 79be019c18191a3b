#include "explain/heap_ranges.h"

#include <errno.h>
#include <stdlib.h>

#include "common/array.h"

void limpet_heap_ranges_done(struct limpet_heap_ranges *ranges)
{
	free(ranges->list);
	*ranges = (struct limpet_heap_ranges){0};
}

int limpet_heap_ranges_add(struct limpet_heap_ranges *ranges, uint64_t start, uint64_t end,
			   bool is_table)
{
	if (limpet_reserve(&ranges->list, &ranges->capacity, ranges->count + 1,
			   sizeof(*ranges->list)) < 0 ||
	    !ranges->list)
		return -ENOMEM;
	ranges->list[ranges->count++] = (struct limpet_heap_range){start, end, is_table};
	return 0;
}

static int compare(const void *a, const void *b)
{
	const struct limpet_heap_range *left = a, *right = b;

	return left->start < right->start ? -1 : left->start > right->start;
}

void limpet_heap_ranges_sort(struct limpet_heap_ranges *ranges)
{
	if (ranges->count)
		qsort(ranges->list, ranges->count, sizeof(*ranges->list), compare);
}

const struct limpet_heap_range *limpet_heap_ranges_find(const struct limpet_heap_ranges *ranges,
							uint64_t address)
{
	const struct limpet_heap_range *list = ranges->list;
	/* cppcheck-suppress constStatement */
	size_t above = LIMPET_PARTITION_POINT(i, ranges->count, list[i].start <= address);

	return above && address < list[above - 1].end ? &list[above - 1] : NULL;
}
