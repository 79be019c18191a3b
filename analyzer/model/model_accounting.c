#include "analyzer/model/model_accounting.h"

#include <errno.h>
#include <string.h>

#include "common/array.h"

int limpet_model_accounting_init(struct limpet_model_accounting *accounting, uint32_t node_count,
				 uint64_t sample_bytes, bool overloads_only)
{
	*accounting = (struct limpet_model_accounting){
		.sample_bytes = sample_bytes,
		.overloads_only = overloads_only,
		.site_of_node = calloc(node_count, sizeof(*accounting->site_of_node)),
		.map_of_node = calloc(node_count, sizeof(*accounting->map_of_node)),
	};
	if (accounting->site_of_node && accounting->map_of_node)
		return 0;
	limpet_model_accounting_done(accounting);
	return -ENOMEM;
}

void limpet_model_accounting_done(struct limpet_model_accounting *accounting)
{
	free(accounting->sites);
	free(accounting->estimates);
	free(accounting->maps);
	free(accounting->site_of_node);
	free(accounting->map_of_node);
	*accounting = (struct limpet_model_accounting){0};
}

struct limpet_model_sum_site *limpet_model_accounting_site(
	struct limpet_model_accounting *accounting, uint32_t node)
{
	if (!accounting->site_of_node[node]) {
		if (limpet_reserve(&accounting->sites, &accounting->site_capacity,
				   accounting->site_count + 1, sizeof(*accounting->sites)) < 0)
			return NULL;
		if (accounting->sample_bytes) {
			if (limpet_reserve(&accounting->estimates, &accounting->estimate_capacity,
					   accounting->site_count + 1,
					   sizeof(*accounting->estimates)) < 0)
				return NULL;
			accounting->estimates[accounting->site_count] =
				(struct limpet_model_estimates){0};
		}
		accounting->sites[accounting->site_count] =
			(struct limpet_model_sum_site){.node = node};
		accounting->site_of_node[node] = (uint32_t)++accounting->site_count;
	}
	return &accounting->sites[accounting->site_of_node[node] - 1];
}

static struct limpet_model_map_site *find_map(struct limpet_model_accounting *accounting,
					      uint32_t node)
{
	if (!accounting->map_of_node[node]) {
		if (limpet_reserve(&accounting->maps, &accounting->map_capacity,
				   accounting->map_count + 1, sizeof(*accounting->maps)) < 0)
			return NULL;
		accounting->maps[accounting->map_count] =
			(struct limpet_model_map_site){.node = node};
		accounting->map_of_node[node] = (uint32_t)++accounting->map_count;
	}
	return &accounting->maps[accounting->map_of_node[node] - 1];
}

uint64_t limpet_model_accounting_live_bytes(const uint64_t totals[LIMPET_TOTAL_COUNT])
{
	return limpet_model_clamp(totals[LIMPET_TOTAL_ALLOCATED_BYTES],
				  totals[LIMPET_TOTAL_FREED_BYTES] +
					  totals[LIMPET_TOTAL_UNTRACKED_BYTES]);
}

void limpet_model_accounting_count(struct limpet_model_accounting *accounting)
{
	accounting->counting = true;
	memcpy(accounting->start_totals, accounting->totals, sizeof(accounting->totals));
	for (size_t i = 0; i < accounting->site_count; i++) {
		accounting->sites[i].start_live = accounting->sites[i].live;
		accounting->sites[i].start_bytes = accounting->sites[i].live_bytes;
	}
}

/* ------------------------------------------------------------------ single rows */

static void add_row_totals(struct limpet_model_accounting *accounting,
			   const struct limpet_trace_event *row)
{
	uint64_t *totals = accounting->totals;

	totals[LIMPET_TOTAL_EVENTS] += row->counted;
	switch (row->kind) {
	case LIMPET_ROW_UNTRACKED:
		totals[LIMPET_TOTAL_UNTRACKED]++;
		totals[LIMPET_TOTAL_UNTRACKED_BYTES] += row->size;
		__attribute__((fallthrough));
	case LIMPET_ROW_ALLOC:
		totals[LIMPET_TOTAL_ALLOCATIONS]++;
		totals[LIMPET_TOTAL_ALLOCATED_BYTES] += row->size;
		break;
	case LIMPET_ROW_INFERRED_FREE:
		totals[LIMPET_TOTAL_INFERRED_FREES]++;
		__attribute__((fallthrough));
	case LIMPET_ROW_FREE:
		totals[LIMPET_TOTAL_FREES]++;
		totals[LIMPET_TOTAL_FREED_BYTES] += row->size;
		totals[LIMPET_TOTAL_TEMPORARY] += row->temporary;
		totals[LIMPET_TOTAL_REALLOCATIONS] += row->realloc;
		break;
	case LIMPET_ROW_FOREIGN_FREE:
		totals[LIMPET_TOTAL_FOREIGN_FREES]++;
		totals[LIMPET_TOTAL_FOREIGN_FREED_BYTES] += row->size;
		break;
	case LIMPET_ROW_MMAP:
		totals[LIMPET_TOTAL_MMAPS]++;
		totals[LIMPET_TOTAL_MMAP_BYTES] += row->size;
		accounting->parts = 0;
		break;
	case LIMPET_ROW_UNMAPPED:
		totals[LIMPET_TOTAL_UNMAPPED_BYTES] += row->size;
		accounting->parts += row->size;
		break;
	case LIMPET_ROW_MUNMAP:
		totals[LIMPET_TOTAL_MUNMAPS]++;
		totals[LIMPET_TOTAL_FOREIGN_UNMAPPED_BYTES] +=
			limpet_model_clamp(row->size, accounting->parts);
		accounting->parts = 0;
		break;
	default:
		break;
	}
}

static int add_row_heap(struct limpet_model_accounting *accounting,
			const struct limpet_trace_event *row)
{
	struct limpet_model_sum_site *site = limpet_model_accounting_site(accounting, row->node);
	unsigned bucket = limpet_trace_size_bucket(row->size);

	if (!site)
		return -ENOMEM;
	if (row->kind == LIMPET_ROW_FREE || row->kind == LIMPET_ROW_INFERRED_FREE) {
		site->live--;
		site->live_bytes -= row->size;
		if (accounting->counting) {
			site->counts.frees++;
			site->counts.freed_bytes += row->size;
			site->counts.temporary += row->temporary;
			site->counts.reallocations += row->realloc;
		}
		return 0;
	}
	if (row->kind == LIMPET_ROW_ALLOC) {
		site->live++;
		site->live_bytes += row->size;
	}
	if (accounting->counting) {
		site->counts.allocations++;
		site->counts.allocated_bytes += row->size;
		accounting->sizes[bucket].allocations++;
		accounting->sizes[bucket].allocated_bytes += row->size;
	}
	return 0;
}

/* ------------------------------------------------------------------ sampled rows */

#define FINE 256.0

static void add_fine(struct limpet_model_accounting *accounting, enum limpet_trace_total total,
		     double value)
{
	accounting->fine_totals[total] += limpet_rounded(value * FINE);
	accounting->totals[total] = limpet_rounded((double)accounting->fine_totals[total] / FINE);
}

/* A sample counts with its weight; certain figures are unchanged. */
static void add_sampled_totals(struct limpet_model_accounting *accounting,
			       const struct limpet_trace_event *row,
			       const struct limpet_weight *weight)
{
	double bytes = weight->weight * (double)row->size;

	accounting->totals[LIMPET_TOTAL_EVENTS] += row->counted;
	if (row->kind == LIMPET_ROW_FREE || row->kind == LIMPET_ROW_INFERRED_FREE) {
		accounting->totals[LIMPET_TOTAL_INFERRED_FREES] += row->kind != LIMPET_ROW_FREE;
		add_fine(accounting, LIMPET_TOTAL_FREES, weight->weight);
		add_fine(accounting, LIMPET_TOTAL_FREED_BYTES, bytes);
		add_fine(accounting, LIMPET_TOTAL_REALLOCATIONS, row->realloc ? weight->weight : 0);
		return;
	}
	add_fine(accounting, LIMPET_TOTAL_ALLOCATIONS, weight->weight);
	add_fine(accounting, LIMPET_TOTAL_ALLOCATED_BYTES, bytes);
	if (row->kind == LIMPET_ROW_UNTRACKED) {
		add_fine(accounting, LIMPET_TOTAL_UNTRACKED, weight->weight);
		add_fine(accounting, LIMPET_TOTAL_UNTRACKED_BYTES, bytes);
	}
}

static void add_sampled_size(struct limpet_model_accounting *accounting, uint64_t size,
			     const struct limpet_weight *weight)
{
	unsigned bucket = limpet_trace_size_bucket(size);
	double *fine = accounting->fine_sizes[bucket];

	fine[0] += weight->weight;
	fine[1] += weight->weight * (double)size;
	accounting->sizes[bucket].allocations = limpet_rounded(fine[0]);
	accounting->sizes[bucket].allocated_bytes = limpet_rounded(fine[1]);
}

static int add_sampled_row(struct limpet_model_accounting *accounting,
			   const struct limpet_trace_event *row)
{
	bool certain = accounting->overloads_only && !row->sampled;
	struct limpet_weight weight =
		limpet_weight_of(row->size, certain ? 0 : accounting->sample_bytes);
	struct limpet_model_sum_site *site = limpet_model_accounting_site(accounting, row->node);
	struct limpet_model_estimates *estimates;

	if (!site)
		return -ENOMEM;
	estimates = &accounting->estimates[site - accounting->sites];
	add_sampled_totals(accounting, row, &weight);
	if (row->kind == LIMPET_ROW_FREE || row->kind == LIMPET_ROW_INFERRED_FREE) {
		limpet_model_estimates_free(estimates, &weight, row->size, accounting->counting);
		limpet_model_estimates_free(&accounting->all, &weight, row->size,
					    accounting->counting);
		if (row->realloc && accounting->counting)
			estimates->reallocations += weight.weight;
	} else {
		bool live = row->kind == LIMPET_ROW_ALLOC;

		limpet_model_estimates_alloc(estimates, &weight, row->size, accounting->counting,
					     live);
		limpet_model_estimates_alloc(&accounting->all, &weight, row->size,
					     accounting->counting, live);
		if (accounting->counting)
			add_sampled_size(accounting, row->size, &weight);
	}
	site->counts.allocations = limpet_estimate_value(&estimates->allocations);
	site->counts.allocated_bytes = limpet_estimate_value(&estimates->allocated_bytes);
	site->counts.frees = limpet_rounded(estimates->frees);
	site->counts.freed_bytes = limpet_rounded(estimates->freed_bytes);
	site->counts.reallocations = limpet_rounded(estimates->reallocations);
	site->live = limpet_estimate_value(&estimates->live_allocations);
	site->live_bytes = limpet_estimate_value(&estimates->live_bytes);
	return 0;
}

static bool is_sampled(const struct limpet_model_accounting *accounting,
		       const struct limpet_trace_event *row)
{
	return accounting->sample_bytes &&
	       (row->kind == LIMPET_ROW_ALLOC || row->kind == LIMPET_ROW_UNTRACKED ||
		row->kind == LIMPET_ROW_FREE || row->kind == LIMPET_ROW_INFERRED_FREE);
}

static int add_row_map(struct limpet_model_accounting *accounting,
		       const struct limpet_trace_event *row)
{
	struct limpet_model_map_site *map = find_map(accounting, row->node);

	if (!map)
		return -ENOMEM;
	if (row->kind == LIMPET_ROW_MMAP) {
		map->mapped_bytes += row->size;
		map->mmaps += accounting->counting;
		map->mmap_bytes += accounting->counting ? row->size : 0;
	} else {
		map->mapped_bytes -= row->size;
		map->unmapped_bytes += accounting->counting ? row->size : 0;
	}
	return 0;
}

int limpet_model_accounting_add_row(struct limpet_model_accounting *accounting,
				    const struct limpet_trace_event *row)
{
	if (is_sampled(accounting, row))
		return add_sampled_row(accounting, row);
	add_row_totals(accounting, row);
	switch (row->kind) {
	case LIMPET_ROW_ALLOC:
	case LIMPET_ROW_UNTRACKED:
	case LIMPET_ROW_FREE:
	case LIMPET_ROW_INFERRED_FREE:
		return add_row_heap(accounting, row);
	case LIMPET_ROW_MMAP:
	case LIMPET_ROW_UNMAPPED:
		return add_row_map(accounting, row);
	default:
		return 0;
	}
}

/* ------------------------------------------------------------------ whole periods */

static int add_period_sites(struct limpet_model_accounting *accounting,
			    const struct limpet_trace_period *period)
{
	for (uint32_t i = 0; i < period->site_count; i++) {
		const struct limpet_trace_site *from = &period->sites[i];
		const struct limpet_counts *counts = &from->counts;
		struct limpet_model_sum_site *site =
			limpet_model_accounting_site(accounting, from->node);

		if (!site)
			return -ENOMEM;
		site->live += counts->allocations - counts->frees - from->untracked;
		site->live_bytes +=
			counts->allocated_bytes - counts->freed_bytes - from->untracked_bytes;
		if (accounting->counting)
			limpet_counts_add(&site->counts, counts);
	}
	for (uint32_t i = 0; i < period->map_count; i++) {
		const struct limpet_trace_map_site *from = &period->maps[i];
		struct limpet_model_map_site *map = find_map(accounting, from->node);

		if (!map)
			return -ENOMEM;
		map->mapped_bytes += from->mmap_bytes - from->unmapped_bytes;
		if (!accounting->counting)
			continue;
		map->mmaps += from->mmaps;
		map->mmap_bytes += from->mmap_bytes;
		map->unmapped_bytes += from->unmapped_bytes;
	}
	return 0;
}

int limpet_model_accounting_add_period(struct limpet_model_accounting *accounting,
				       const struct limpet_trace_period *period)
{
	memcpy(accounting->totals, period->totals, sizeof(accounting->totals));
	for (unsigned i = 0; accounting->counting && i < LIMPET_TRACE_SIZE_BUCKETS; i++) {
		accounting->sizes[i].allocations += period->sizes[i].allocations;
		accounting->sizes[i].allocated_bytes += period->sizes[i].allocated_bytes;
	}
	return add_period_sites(accounting, period);
}
