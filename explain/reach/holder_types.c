#include "explain/reach/holder_types.h"

#include <stdlib.h>

void limpet_holder_types_done(struct limpet_holder_types *types)
{
	limpet_vtables_done(&types->vtables);
	free(types->wanted);
	free(types->found_of);
	free(types->found);
	*types = (struct limpet_holder_types){.found_count = 0};
}

int limpet_holder_types_read(const struct limpet_modules *modules,
			     struct limpet_holder_types *types)
{
	return limpet_vtables_read(modules, &types->vtables);
}

const char *limpet_holder_types_at(const struct limpet_holder_types *types, uint64_t word)
{
	const int64_t type = types->vtables.count ? limpet_vtables_find(&types->vtables, word) : -1;

	return type < 0 ? NULL : limpet_vtables_name(&types->vtables, (size_t)type);
}

int limpet_holder_types_select(struct limpet_holder_types *types,
			       bool (*is_wanted)(void *context, const char *symbol), void *context)
{
	types->wanted = calloc(types->vtables.count + 1, sizeof(*types->wanted));
	types->found_of = calloc(types->vtables.count + 1, sizeof(*types->found_of));
	if (!types->wanted || !types->found_of)
		return -ENOMEM;
	for (size_t i = 0; i < types->vtables.count; i++)
		types->wanted[i] = is_wanted(context, limpet_vtables_name(&types->vtables, i));
	return 0;
}

struct counting {
	struct limpet_holder_types *types;
	struct limpet_holder_search *search;
};

static int count_in(void *context, const struct limpet_search_range *range, uint64_t address,
		    const uint64_t *words, size_t count)
{
	const struct counting *counting = context;
	const struct limpet_block_table *blocks = &counting->search->graph->blocks;
	const uint64_t end = address + 8 * count;

	(void)range;
	for (size_t i = limpet_block_table_from(blocks, address);
	     i < blocks->count && blocks->starts[i] < end; i++) {
		int64_t type;

		if (blocks->starts[i] < address)
			continue;
		type = limpet_vtables_find(&counting->types->vtables,
					   words[(blocks->starts[i] - address) / 8]);
		if (type < 0)
			continue;
		counting->types->found_of[type].blocks++;
		counting->types->found_of[type].bytes += limpet_block_bytes(blocks, (uint32_t)i);
		if (counting->types->wanted[type])
			limpet_holder_search_add(counting->search, (uint32_t)i);
	}
	return 0;
}

static int compare_types(const void *a, const void *b)
{
	const struct limpet_holder_type *left = a, *right = b;

	return left->amount.bytes > right->amount.bytes ? -1
							: left->amount.bytes < right->amount.bytes;
}

static int list_found(struct limpet_holder_types *types)
{
	size_t count = 0;

	for (size_t i = 0; i < types->vtables.count; i++)
		count += types->found_of[i].blocks != 0;
	types->found = calloc(count + 1, sizeof(*types->found));
	if (!types->found)
		return -ENOMEM;
	for (size_t i = 0; i < types->vtables.count; i++)
		if (types->found_of[i].blocks)
			types->found[types->found_count++] = (struct limpet_holder_type){
				limpet_vtables_name(&types->vtables, i), types->found_of[i]};
	qsort(types->found, count, sizeof(*types->found), compare_types);
	return 0;
}

int limpet_holder_types_count(struct limpet_holder_types *types,
			      const struct limpet_memory_reader *memory, struct limpet_pages *pages,
			      const struct limpet_search_ranges *ranges,
			      struct limpet_holder_search *search)
{
	struct counting counting = {types, search};
	struct limpet_reach_scan scan = {
		.memory = memory, .pages = pages, .visit = count_in, .context = &counting};
	int error = 0;

	if (types->vtables.count)
		error = limpet_reach_scan(&scan, ranges,
					  1u << LIMPET_SEARCHED_HEAP | 1u << LIMPET_SEARCHED_MIXED);
	if (!error && scan.is_spent)
		error = -ETIME;
	return error ? error : list_found(types);
}
