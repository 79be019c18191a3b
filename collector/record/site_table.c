#include "collector/record/site_table.h"

#include <assert.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"

struct limpet_site_table *limpet_site_table_new(void)
{
	struct limpet_site_table *table = calloc(1, sizeof(*table));

	if (!table)
		return NULL;
	table->period = 1;
	table->site_count = 1;
	table->site_capacity = 256;
	table->node_capacity = 1024;
	table->sites = aligned_alloc(_Alignof(struct limpet_site),
				     table->site_capacity * sizeof(*table->sites));
	table->touched_nodes = calloc(table->node_capacity / 64, sizeof(*table->touched_nodes));
	table->touched = calloc(table->site_capacity, sizeof(*table->touched));
	table->site_of_node = calloc(table->node_capacity, sizeof(*table->site_of_node));
	if (!table->sites || !table->touched || !table->site_of_node || !table->touched_nodes) {
		limpet_site_table_free(table);
		return NULL;
	}
	table->sites[0] = (struct limpet_site){0};
	return table;
}

void limpet_site_table_free(struct limpet_site_table *table)
{
	if (!table)
		return;
	free(table->sites);
	free(table->touched);
	free(table->touched_nodes);
	free(table->site_of_node);
	free(table);
}

static bool grow_nodes(struct limpet_site_table *table, uint32_t node)
{
	size_t words = table->node_capacity / 64;

	/* Both arrays double at the same time. */
	return limpet_reserve_zeroed(&table->touched_nodes, &words, node / 64 + 1,
				     sizeof(*table->touched_nodes)) == 0 &&
	       limpet_reserve_zeroed(&table->site_of_node, &table->node_capacity, (size_t)node + 1,
				     sizeof(*table->site_of_node)) == 0;
}

static bool grow_sites(struct limpet_site_table *table)
{
	size_t capacity = table->site_capacity * 2;
	struct limpet_site *sites =
		aligned_alloc(_Alignof(struct limpet_site), capacity * sizeof(*sites));
	uint32_t *touched;

	if (!sites)
		return false;
	memcpy(sites, table->sites, table->site_count * sizeof(*sites));
	free(table->sites);
	table->sites = sites;
	touched = reallocarray(table->touched, capacity, sizeof(*touched));
	if (!touched)
		return false;
	table->touched = touched;
	table->site_capacity = capacity;
	return true;
}

uint32_t limpet_site_table_enter(struct limpet_site_table *table, uint32_t node)
{
	uint32_t at;

	if (node >= table->node_capacity && !grow_nodes(table, node))
		return 0;
	at = table->site_of_node[node];
	if (at)
		return at;
	if (table->site_count == table->site_capacity && !grow_sites(table))
		return 0;
	at = (uint32_t)table->site_count++;
	table->site_of_node[node] = at;
	table->sites[at] = (struct limpet_site){.node = node};
	return at;
}

void limpet_site_table_begin(struct limpet_site_table *table, uint32_t number)
{
	struct limpet_site *site = &table->sites[number];

	site->period = table->period;
	site->counts = (struct limpet_counts){0};
	site->maps = (struct limpet_map_counts){0};
	table->touched_nodes[site->node / 64] |= 1ull << (site->node % 64);
	table->touched[table->touched_count++] = number;
}

size_t limpet_site_table_touched(const struct limpet_site_table *table)
{
	return table->touched_count;
}

size_t limpet_site_table_sort(struct limpet_site_table *table)
{
	size_t count = 0;

	for (size_t word = 0; count < table->touched_count; word++)
		for (uint64_t bits = table->touched_nodes[word]; bits; bits &= bits - 1)
			table->touched[count++] =
				table->site_of_node[word * 64 + (unsigned)__builtin_ctzll(bits)];
	return count;
}

const struct limpet_site *limpet_site_table_at(const struct limpet_site_table *table, size_t index)
{
	assert(index < table->touched_count);
	return &table->sites[table->touched[index]];
}

const struct limpet_site *limpet_site_table_next(const struct limpet_site_table *table,
						 uint32_t *node)
{
	for (uint32_t at = *node; at < table->node_capacity; at++)
		if (table->site_of_node[at]) {
			*node = at + 1;
			return &table->sites[table->site_of_node[at]];
		}
	return NULL;
}

static void update_growing(struct limpet_site_table *table)
{
	uint32_t best = table->growing;
	/* If the leader has shrunk, a site that was not touched may lead now. */
	bool all = table->sites[best].live_bytes < table->growing_bytes;
	size_t count = all ? table->site_count : table->touched_count;

	for (size_t i = 0; i < count; i++) {
		uint32_t at = all ? (uint32_t)i : table->touched[i];

		if (table->sites[at].live_bytes > table->sites[best].live_bytes)
			best = at;
	}
	table->growing = best;
	table->growing_bytes = table->sites[best].live_bytes;
}

void limpet_site_table_next_period(struct limpet_site_table *table)
{
	update_growing(table);
	for (size_t i = 0; i < table->touched_count; i++)
		table->touched_nodes[table->sites[table->touched[i]].node / 64] = 0;
	table->touched_count = 0;
	table->period++;
}

uint32_t limpet_site_table_growing(const struct limpet_site_table *table, uint64_t *ret_bytes)
{
	const struct limpet_site *site = &table->sites[table->growing];

	if (!site->live_bytes)
		return 0;
	*ret_bytes = site->live_bytes;
	return site->node;
}
