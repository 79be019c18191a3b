#include "explain/memory_ranges.h"

#include <stdlib.h>

#include "common/array.h"
#include "injector/elf/memory_owners.h"

void limpet_memory_ranges_done(struct limpet_memory_ranges *ranges)
{
	free(ranges->list);
	limpet_thread_stacks_done(&ranges->stacks);
	*ranges = (struct limpet_memory_ranges){0};
}

void limpet_memory_ranges_add(struct limpet_memory_ranges *ranges,
			      const struct limpet_memory_range *range)
{
	struct limpet_memory_range *last = ranges->count ? &ranges->list[ranges->count - 1] : NULL;

	if (last && last->end == range->start && last->account == range->account &&
	    last->kind == range->kind && last->owner == range->owner) {
		last->end = range->end;
		return;
	}
	if (!ranges->error)
		ranges->error = limpet_reserve(&ranges->list, &ranges->capacity, ranges->count + 1,
					       sizeof(*ranges->list));
	if (!ranges->error && ranges->list)
		ranges->list[ranges->count++] = *range;
}

static int compare(const void *a, const void *b)
{
	const struct limpet_memory_range *left = a, *right = b;

	return left->start < right->start ? -1 : left->start > right->start;
}

static void sort(struct limpet_memory_ranges *ranges)
{
	if (ranges->count)
		qsort(ranges->list, ranges->count, sizeof(*ranges->list), compare);
}

size_t limpet_memory_ranges_from(const struct limpet_memory_ranges *ranges, uint64_t address)
{
	/* cppcheck-suppress constStatement */
	return LIMPET_PARTITION_POINT(i, ranges->count, ranges->list[i].end <= address);
}

static void visit(void *context, enum limpet_memory_account account, uint64_t start, uint64_t end)
{
	limpet_memory_ranges_add(context, &(struct limpet_memory_range){
						  .start = start, .end = end, .account = account});
}

int limpet_memory_ranges_read(const struct limpet_target *target,
			      const struct limpet_modules *modules,
			      const struct limpet_glibc_heaps *heaps,
			      struct limpet_memory_ranges *ret_ranges)
{
	struct limpet_memory_ranges ranges = {0};
	struct limpet_memory_owners_options options = {.modules = modules,
						       .has_glibc = heaps->count > 0,
						       .judge_none = !heaps->count,
						       .blocks_known = heaps->mmapped_known,
						       .blocks_bytes = heaps->mmapped_bytes,
						       .visit = visit,
						       .context = &ranges,
						       .ret_stacks = &ranges.stacks};
	struct limpet_memory memory;
	int error = limpet_memory_owners_read(target, &options, &memory);

	if (!error)
		error = ranges.error;
	if (error) {
		limpet_memory_ranges_done(&ranges);
		return error;
	}
	sort(&ranges);
	*ret_ranges = ranges;
	return 0;
}
