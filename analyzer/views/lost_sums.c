#include "analyzer/views/lost_sums.h"

#include <stdlib.h>

const struct limpet_leak_counts *limpet_lost_counts(const struct limpet_model *model, bool filtered)
{
	const struct limpet_leak_counts *counts = &model->end->leaks;

	return counts->known && !filtered && !model->born && model->to_ns >= model->duration_ns
		       ? counts
		       : NULL;
}

static int compare(const void *key, const void *item)
{
	const uint32_t node = *(const uint32_t *)key;
	const struct limpet_leak_site_counts *site = item;

	return node < site->node ? -1 : node > site->node;
}

const struct limpet_leak_site_counts *limpet_lost_of(const struct limpet_leak_counts *counts,
						     uint32_t node)
{
	return counts->count ? bsearch(&node, counts->sites, counts->count, sizeof(*counts->sites),
				       compare)
			     : NULL;
}

static void add(struct limpet_lost *to, const struct limpet_leak_amounts *amounts, bool is_certain)
{
	const struct limpet_leak_amount lost = limpet_leak_amounts_lost(amounts);

	to->known = true;
	to->is_probable |= lost.blocks && (!is_certain || amounts->of[LIMPET_LEAK_PROBABLY].blocks);
	to->lost.blocks += lost.blocks;
	to->lost.bytes += lost.bytes;
	to->reachable_bytes += amounts->of[LIMPET_LEAK_REACHABLE].bytes;
	for (unsigned i = 0; i < LIMPET_LEAK_STATES; i++) {
		to->judged.blocks += amounts->of[i].blocks;
		to->judged.bytes += amounts->of[i].bytes;
	}
}

void limpet_lost_add(struct limpet_lost *lost, const struct limpet_leak_counts *counts,
		     uint32_t node)
{
	const struct limpet_leak_site_counts *site = counts ? limpet_lost_of(counts, node) : NULL;
	uint64_t bytes;

	if (!site)
		return;
	add(lost, &site->amounts, counts->is_certain);
	bytes = site->amounts.of[LIMPET_LEAK_REACHABLE].bytes;
	if (bytes && site->holder[0] &&
	    (!lost->held || bytes > lost->held->amounts.of[LIMPET_LEAK_REACHABLE].bytes))
		lost->held = site;
}

struct limpet_lost limpet_lost_total(const struct limpet_leak_counts *counts)
{
	struct limpet_lost lost = {0};

	add(&lost, &counts->amounts, counts->is_certain);
	return lost;
}
