#include "collector/record/rollup.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"

struct limpet_rollup {
	struct limpet_site *sites;
	size_t count, capacity;
	uint32_t *site_of_node; /* index + 1 */
	size_t node_capacity;
	bool sorted;
	struct limpet_accounting_size sizes[LIMPET_TRACE_SIZE_BUCKETS];
	struct limpet_accounting_peak peak;
	bool any;
};

struct limpet_rollup *limpet_rollup_new(void)
{
	return calloc(1, sizeof(struct limpet_rollup));
}

void limpet_rollup_free(struct limpet_rollup *rollup)
{
	if (!rollup)
		return;
	free(rollup->sites);
	free(rollup->site_of_node);
	free(rollup);
}

static bool want_site(struct limpet_rollup *rollup)
{
	size_t capacity = rollup->capacity ? rollup->capacity * 2 : 256;
	struct limpet_site *sites;

	if (rollup->count < rollup->capacity)
		return true;
	sites = aligned_alloc(_Alignof(struct limpet_site), capacity * sizeof(*sites));
	if (!sites)
		return false;
	if (rollup->count)
		memcpy(sites, rollup->sites, rollup->count * sizeof(*sites));
	free(rollup->sites);
	rollup->sites = sites;
	rollup->capacity = capacity;
	return true;
}

static struct limpet_site *find(struct limpet_rollup *rollup, uint32_t node)
{
	if (limpet_reserve_zeroed(&rollup->site_of_node, &rollup->node_capacity, (size_t)node + 1,
				  sizeof(*rollup->site_of_node)) < 0)
		return NULL;
	if (!rollup->site_of_node[node]) {
		if (!want_site(rollup))
			return NULL;
		rollup->sites[rollup->count] = (struct limpet_site){.node = node};
		rollup->site_of_node[node] = (uint32_t)++rollup->count;
		rollup->sorted = false;
	}
	return &rollup->sites[rollup->site_of_node[node] - 1];
}

static void add_site(struct limpet_site *to, const struct limpet_site *from)
{
	to->allocations += from->allocations;
	to->allocated_bytes += from->allocated_bytes;
	to->frees += from->frees;
	to->freed_bytes += from->freed_bytes;
	to->temporary += from->temporary;
	to->reallocations += from->reallocations;
	to->untracked += from->untracked;
	to->untracked_bytes += from->untracked_bytes;
	to->mmaps += from->mmaps;
	to->mmap_bytes += from->mmap_bytes;
	to->unmapped_parts += from->unmapped_parts;
	to->unmapped_bytes += from->unmapped_bytes;
}

int limpet_rollup_add(struct limpet_rollup *rollup, struct limpet_accounting *accounting)
{
	const struct limpet_accounting_size *sizes = limpet_accounting_period_sizes(accounting);
	struct limpet_accounting_peak peak = limpet_accounting_peak(accounting);
	size_t count = limpet_accounting_period_sites(accounting);
	int code = 0;

	for (size_t i = 0; i < count; i++) {
		const struct limpet_site *from = limpet_accounting_site_at(accounting, i);
		struct limpet_site *to = find(rollup, from->node);

		if (to)
			add_site(to, from);
		else
			code = -ENOMEM;
	}
	for (unsigned i = 0; i < LIMPET_TRACE_SIZE_BUCKETS; i++) {
		rollup->sizes[i].allocations += sizes[i].allocations;
		rollup->sizes[i].bytes += sizes[i].bytes;
	}
	peak.rows = 0;
	if (!rollup->any || peak.bytes > rollup->peak.bytes) {
		rollup->peak = peak;
	} else {
		rollup->peak.capture_bytes = peak.capture_bytes;
		rollup->peak.capture_ns = peak.capture_ns;
	}
	rollup->any = true;
	return code;
}

void limpet_rollup_clear(struct limpet_rollup *rollup)
{
	for (size_t i = 0; i < rollup->count; i++)
		rollup->site_of_node[rollup->sites[i].node] = 0;
	rollup->count = 0;
	rollup->any = false;
	memset(rollup->sizes, 0, sizeof(rollup->sizes));
}

static int compare(const void *a, const void *b)
{
	const struct limpet_site *left = a, *right = b;

	return left->node < right->node ? -1 : left->node > right->node;
}

size_t limpet_rollup_sort(struct limpet_rollup *rollup)
{
	if (rollup->sorted || !rollup->count)
		return rollup->count;
	qsort(rollup->sites, rollup->count, sizeof(*rollup->sites), compare);
	for (size_t i = 0; i < rollup->count; i++)
		rollup->site_of_node[rollup->sites[i].node] = (uint32_t)i + 1;
	rollup->sorted = true;
	return rollup->count;
}

const struct limpet_site *limpet_rollup_at(const struct limpet_rollup *rollup, size_t index)
{
	return &rollup->sites[index];
}

const struct limpet_accounting_size *limpet_rollup_sizes(const struct limpet_rollup *rollup)
{
	return rollup->sizes;
}

struct limpet_accounting_peak limpet_rollup_peak(const struct limpet_rollup *rollup)
{
	return rollup->peak;
}
