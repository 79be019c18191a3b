#include "explain/reach/leak_candidates.h"

#include <stdlib.h>

#include "explain/reach/large_array.h"

void limpet_leak_candidates_done(struct limpet_leak_candidates *candidates)
{
	free(candidates->list);
	*candidates = (struct limpet_leak_candidates){0};
}

static bool is_wanted(const struct limpet_reach_graph *graph, uint32_t block)
{
	return limpet_block_class(graph, block) != LIMPET_REACH_HELD;
}

int limpet_leak_candidates_take(const struct limpet_reach_graph *graph,
				struct limpet_leak_candidates *ret)
{
	const struct limpet_block_table *blocks = &graph->blocks;
	size_t count = 0;

	limpet_leak_candidates_done(ret);
	for (size_t i = 0; i < blocks->count; i++)
		count += is_wanted(graph, (uint32_t)i);
	ret->list = limpet_large_new(count + 1, sizeof(*ret->list));
	if (!ret->list)
		return -ENOMEM;
	for (size_t i = 0; i < blocks->count; i++)
		if (is_wanted(graph, (uint32_t)i))
			ret->list[ret->count++] = (struct limpet_leak_candidate){
				blocks->starts[i], blocks->words[i], graph->hashes[i]};
	return 0;
}

void limpet_leak_candidates_excuse(const struct limpet_leak_candidates *candidates,
				   struct limpet_reach_graph *graph)
{
	const struct limpet_block_table *blocks = &graph->blocks;
	size_t at = 0;

	for (size_t i = 0; i < blocks->count; i++) {
		const struct limpet_leak_candidate *it = candidates->list;

		while (at < candidates->count && it[at].start < blocks->starts[i])
			at++;
		if (at == candidates->count || it[at].start != blocks->starts[i] ||
		    it[at].words != blocks->words[i] || it[at].hash != graph->hashes[i])
			blocks->flags[i] |= LIMPET_BLOCK_SEEN;
	}
}
