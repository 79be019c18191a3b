#include "explain/reach/leaks_sites.h"

#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "explain/vtables.h"
#include "injector/proc/target_process.h"

/* Each block that is not held, with what it is grouped by. */
struct entry {
	uint64_t key; /* the number of a type, + TYPE; else the size */
	uint32_t block;
	uint8_t state;
};
#define TYPE ((uint64_t)1 << 63)

struct grouping {
	const struct limpet_memory_reader *memory;
	const struct limpet_reach_graph *graph;
	struct limpet_vtables vtables;
	struct entry *list;
	size_t count;
};

enum limpet_leak_state limpet_leaks_state_of(const struct limpet_reach_graph *graph, uint32_t block,
					     bool is_exact)
{
	switch (limpet_block_class(graph, block)) {
	case LIMPET_REACH_DIRECTLY:
		return is_exact ? LIMPET_LEAK_DEFINITELY : LIMPET_LEAK_PROBABLY;
	case LIMPET_REACH_INDIRECTLY:
		return is_exact ? LIMPET_LEAK_INDIRECTLY : LIMPET_LEAK_PROBABLY;
	case LIMPET_REACH_POSSIBLY:
		return LIMPET_LEAK_POSSIBLY;
	case LIMPET_REACH_STACK:
		return LIMPET_LEAK_STACK_ONLY;
	case LIMPET_REACH_NONE:
	case LIMPET_REACH_HELD:
		break;
	}
	return LIMPET_LEAK_REACHABLE;
}

static uint64_t key_of(const struct grouping *grouping, uint32_t block)
{
	uint64_t word;
	int64_t type = -1;

	if (grouping->vtables.count &&
	    limpet_memory_reader_read_word(grouping->memory, grouping->graph->blocks.starts[block],
					   &word))
		type = limpet_vtables_find(&grouping->vtables, word);
	return type >= 0 ? TYPE | (uint64_t)type
			 : limpet_block_bytes(&grouping->graph->blocks, block);
}

static int list_entries(struct grouping *grouping, bool is_exact, struct limpet_leaks *leaks)
{
	const struct limpet_block_table *blocks = &grouping->graph->blocks;

	for (size_t i = 0; i < blocks->count; i++) {
		const enum limpet_leak_state state =
			limpet_leaks_state_of(grouping->graph, (uint32_t)i, is_exact);

		leaks->amounts.of[state].blocks++;
		leaks->amounts.of[state].bytes += limpet_block_bytes(blocks, (uint32_t)i);
		grouping->count += state != LIMPET_LEAK_REACHABLE;
	}
	grouping->list = reallocarray(NULL, grouping->count + 1, sizeof(*grouping->list));
	if (!grouping->list)
		return -ENOMEM;
	grouping->count = 0;
	for (size_t i = 0; i < blocks->count; i++) {
		const enum limpet_leak_state state =
			limpet_leaks_state_of(grouping->graph, (uint32_t)i, is_exact);

		if (state != LIMPET_LEAK_REACHABLE)
			grouping->list[grouping->count++] = (struct entry){
				key_of(grouping, (uint32_t)i), (uint32_t)i, (uint8_t)state};
	}
	return 0;
}

static int compare_entries(const void *a, const void *b)
{
	const struct entry *left = a, *right = b;

	if (left->state != right->state)
		return left->state < right->state ? -1 : 1;
	return left->key < right->key ? -1 : left->key > right->key;
}

static int compare_sites(const void *a, const void *b)
{
	const struct limpet_leak_site *left = a, *right = b;

	if (left->state != right->state)
		return left->state < right->state ? -1 : 1;
	return left->amount.bytes > right->amount.bytes ? -1
							: left->amount.bytes < right->amount.bytes;
}

static int begin_site(const struct grouping *grouping, const struct entry *entry,
		      struct limpet_leaks *leaks)
{
	struct limpet_leak_site *site;

	if (limpet_reserve(&leaks->sites, &leaks->site_capacity, leaks->site_count + 1,
			   sizeof(*leaks->sites)) < 0 ||
	    !leaks->sites)
		return -ENOMEM;
	site = &leaks->sites[leaks->site_count++];
	*site = (struct limpet_leak_site){.state = (enum limpet_leak_state)entry->state,
					  .example = grouping->graph->blocks.starts[entry->block]};
	if (!(entry->key & TYPE)) {
		site->block_bytes = entry->key;
		return 0;
	}
	site->type = strdup(limpet_vtables_name(&grouping->vtables, (size_t)(entry->key & ~TYPE)));
	return site->type ? 0 : -ENOMEM;
}

static int add_sites(const struct grouping *grouping, struct limpet_leaks *leaks)
{
	const struct entry *last = NULL;
	int error = 0;

	for (size_t i = 0; i < grouping->count && !error; i++) {
		const struct entry *entry = &grouping->list[i];

		if (!last || last->state != entry->state || last->key != entry->key)
			error = begin_site(grouping, entry, leaks);
		if (!error) {
			struct limpet_leak_amount *amount =
				&leaks->sites[leaks->site_count - 1].amount;

			amount->blocks++;
			amount->bytes += limpet_block_bytes(&grouping->graph->blocks, entry->block);
		}
		last = entry;
	}
	return error;
}

int limpet_leaks_sites_add(const struct limpet_target *target,
			   const struct limpet_memory_reader *memory,
			   const struct limpet_reach_graph *graph, bool is_exact,
			   struct limpet_leaks *leaks)
{
	struct grouping grouping = {.memory = memory, .graph = graph};
	struct limpet_modules modules = {.target = target};
	int error = limpet_modules_of_files(target, &modules);

	if (!error)
		error = limpet_vtables_read(&modules, &grouping.vtables);
	if (!error)
		error = list_entries(&grouping, is_exact, leaks);
	if (!error && grouping.count)
		qsort(grouping.list, grouping.count, sizeof(*grouping.list), compare_entries);
	if (!error)
		error = add_sites(&grouping, leaks);
	if (!error && leaks->site_count)
		qsort(leaks->sites, leaks->site_count, sizeof(*leaks->sites), compare_sites);
	free(grouping.list);
	limpet_vtables_done(&grouping.vtables);
	limpet_modules_done(&modules);
	return error;
}
