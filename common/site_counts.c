#include "common/site_counts.h"

#include <stdlib.h>

#include "common/array.h"

void limpet_site_counts_done(struct limpet_site_counts *sites)
{
	free(sites->list);
	free(sites->place_of_node);
	*sites = (struct limpet_site_counts){0};
}

struct limpet_site_count *limpet_site_counts_at(struct limpet_site_counts *sites, uint32_t node)
{
	if (limpet_reserve_zeroed(&sites->place_of_node, &sites->node_capacity, (size_t)node + 1,
				  sizeof(*sites->place_of_node)) < 0)
		return NULL;
	if (!sites->place_of_node[node]) {
		if (limpet_reserve(&sites->list, &sites->capacity, sites->count + 1,
				   sizeof(*sites->list)) < 0)
			return NULL;
		sites->list[sites->count] = (struct limpet_site_count){.node = node};
		sites->place_of_node[node] = (uint32_t)++sites->count;
	}
	return &sites->list[sites->place_of_node[node] - 1];
}

const struct limpet_site_count *limpet_site_counts_find(const struct limpet_site_counts *sites,
							uint32_t node)
{
	return node < sites->node_capacity && sites->place_of_node[node]
		       ? &sites->list[sites->place_of_node[node] - 1]
		       : NULL;
}

void limpet_site_counts_clear(struct limpet_site_counts *sites)
{
	for (size_t i = 0; i < sites->count; i++)
		sites->place_of_node[sites->list[i].node] = 0;
	sites->count = 0;
}

static int compare(const void *a, const void *b)
{
	const struct limpet_site_count *left = a, *right = b;

	return left->node < right->node ? -1 : left->node > right->node;
}

void limpet_site_counts_sort(struct limpet_site_counts *sites)
{
	size_t sorted = 1;

	while (sorted < sites->count && sites->list[sorted - 1].node < sites->list[sorted].node)
		sorted++;
	if (sorted >= sites->count)
		return;
	qsort(sites->list, sites->count, sizeof(*sites->list), compare);
	for (size_t i = 0; i < sites->count; i++)
		sites->place_of_node[sites->list[i].node] = (uint32_t)i + 1;
}
