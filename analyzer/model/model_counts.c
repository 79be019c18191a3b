#include "analyzer/model/model_counts.h"

#include <errno.h>

struct limpet_model_counts limpet_model_counts_new(uint64_t sample_bytes, bool overloads_only)
{
	return (struct limpet_model_counts){.sample_bytes = sample_bytes,
					    .overloads_only = overloads_only,
					    .scale = limpet_scale_of(sample_bytes)};
}

void limpet_model_counts_done(struct limpet_model_counts *sums)
{
	limpet_site_counts_done(&sums->sites);
	*sums = (struct limpet_model_counts){0};
}

uint64_t limpet_model_counts_period(const struct limpet_model_counts *sums, bool sampled)
{
	return sums->overloads_only && !sampled ? 0 : sums->sample_bytes;
}

struct limpet_scaled_block limpet_model_counts_block(const struct limpet_model_counts *sums,
						     uint64_t size, bool sampled)
{
	return limpet_scale_block(size, limpet_model_counts_period(sums, sampled), sums->scale);
}

/* ------------------------------------------------------------------ rows */

bool limpet_model_counts_of_row(const struct limpet_model_counts *sums,
				const struct limpet_trace_event *row,
				struct limpet_counts *ret_counts)
{
	const struct limpet_scaled_block one =
		limpet_model_counts_block(sums, row->size, row->sampled);

	*ret_counts = (struct limpet_counts){0};
	switch (row->kind) {
	case LIMPET_ROW_UNTRACKED:
		limpet_counts_untrack(ret_counts, one.blocks, one.bytes);
		__attribute__((fallthrough));
	case LIMPET_ROW_ALLOC:
		limpet_counts_allocate(ret_counts, one.blocks, one.bytes);
		return true;
	case LIMPET_ROW_FREE:
	case LIMPET_ROW_INFERRED_FREE:
		/* Samples in a row say nothing of the events between them. */
		limpet_counts_free(ret_counts, one.blocks, one.bytes,
				   row->temporary && !sums->sample_bytes, row->realloc);
		return true;
	default:
		return false;
	}
}

static void add_munmap(struct limpet_model_counts *sums, uint64_t bytes)
{
	sums->totals.munmaps++;
	if (bytes > sums->parts)
		sums->totals.foreign_unmapped_bytes += bytes - sums->parts;
	sums->parts = 0;
}

static int add_map(struct limpet_model_counts *sums, const struct limpet_trace_event *row)
{
	struct limpet_site_count *site = limpet_site_counts_at(&sums->sites, row->node);

	if (!site)
		return -ENOMEM;
	if (row->kind == LIMPET_ROW_MMAP) {
		sums->totals.mmaps++;
		sums->totals.mmap_bytes += row->size;
		sums->parts = 0;
		site->maps.mmaps++;
		site->maps.mmap_bytes += row->size;
	} else {
		sums->totals.unmapped_bytes += row->size;
		sums->parts += row->size;
		site->maps.unmapped_parts++;
		site->maps.unmapped_bytes += row->size;
	}
	return 0;
}

int limpet_model_counts_add_row(struct limpet_model_counts *sums,
				const struct limpet_trace_event *row)
{
	struct limpet_site_count *site;
	struct limpet_size_counts size;
	struct limpet_counts counts;

	sums->totals.events += row->counted;
	switch (row->kind) {
	case LIMPET_ROW_FOREIGN_FREE:
		sums->totals.foreign_frees++;
		sums->totals.foreign_freed_bytes += row->size;
		return 0;
	case LIMPET_ROW_MUNMAP:
		add_munmap(sums, row->size);
		return 0;
	case LIMPET_ROW_MMAP:
	case LIMPET_ROW_UNMAPPED:
		return add_map(sums, row);
	default:
		break;
	}
	if (!limpet_model_counts_of_row(sums, row, &counts))
		return 0;
	site = limpet_site_counts_at(&sums->sites, row->node);
	if (!site)
		return -ENOMEM;
	limpet_counts_add(&site->counts, &counts);
	limpet_counts_add(&sums->totals.counts, &counts);
	sums->totals.inferred_frees += row->kind == LIMPET_ROW_INFERRED_FREE;
	size = limpet_counts_allocated(&counts);
	limpet_size_counts_add(&sums->sizes[limpet_trace_size_bucket(row->size)], &size);
	return 0;
}

/* ------------------------------------------------------------------ whole periods */

int limpet_model_counts_add_period(struct limpet_model_counts *sums,
				   const struct limpet_trace_period *period)
{
	sums->totals = period->totals;
	sums->totals.counts = limpet_counts_scaled(&period->totals.counts, sums->scale);
	for (unsigned i = 0; i < LIMPET_TRACE_SIZE_BUCKETS; i++) {
		const struct limpet_size_counts size = {
			period->sizes[i].allocations << sums->scale.block_bits,
			period->sizes[i].allocated_bytes << sums->scale.byte_bits};

		limpet_size_counts_add(&sums->sizes[i], &size);
	}
	for (uint32_t i = 0; i < period->site_count; i++) {
		const struct limpet_counts counts =
			limpet_counts_scaled(&period->sites[i].counts, sums->scale);
		struct limpet_site_count *site =
			limpet_site_counts_at(&sums->sites, period->sites[i].node);

		if (!site)
			return -ENOMEM;
		limpet_counts_add(&site->counts, &counts);
	}
	for (uint32_t i = 0; i < period->map_count; i++) {
		struct limpet_site_count *site =
			limpet_site_counts_at(&sums->sites, period->maps[i].node);

		if (!site)
			return -ENOMEM;
		limpet_map_counts_add(&site->maps, &period->maps[i].counts);
	}
	return 0;
}

/* ------------------------------------------------------------------ figures */

static uint64_t live_of(const struct limpet_counts *counts, struct limpet_scale scale)
{
	return limpet_unscaled(limpet_counts_live(counts), scale.block_bits);
}

static uint64_t live_bytes_of(const struct limpet_counts *counts, struct limpet_scale scale)
{
	return limpet_unscaled(limpet_counts_live_bytes(counts), scale.byte_bits);
}

struct limpet_model_site limpet_model_counts_site(uint32_t node, const struct limpet_counts *all,
						  const struct limpet_counts *before,
						  struct limpet_scale scale)
{
	const struct limpet_counts within = limpet_counts_less(all, before);
	const struct limpet_counts counts = limpet_counts_unscaled(&within, scale);

	return (struct limpet_model_site){
		.node = node,
		.allocations = counts.allocations,
		.allocated_bytes = counts.allocated_bytes,
		.frees = counts.frees,
		.freed_bytes = counts.freed_bytes,
		.temporary_allocations = counts.temporary,
		.reallocations = counts.reallocations,
		.live_allocations = live_of(all, scale),
		.live_bytes = live_bytes_of(all, scale),
		.growth_bytes = (int64_t)(live_bytes_of(all, scale) - live_bytes_of(before, scale)),
	};
}

static uint64_t mapped_bytes_of(const struct limpet_totals *totals)
{
	return limpet_at_least_zero(totals->mmap_bytes - totals->unmapped_bytes);
}

struct limpet_model_totals limpet_model_counts_totals(const struct limpet_totals *all,
						      const struct limpet_totals *before,
						      struct limpet_scale scale)
{
	const struct limpet_model_site heap =
		limpet_model_counts_site(0, &all->counts, &before->counts, scale);
	const struct limpet_counts within = limpet_counts_less(&all->counts, &before->counts);

#define WITHIN(figure) .figure = limpet_at_least_zero(all->figure - before->figure)
	return (struct limpet_model_totals){
		.allocations = heap.allocations,
		.frees = heap.frees,
		.allocated_bytes = heap.allocated_bytes,
		.freed_bytes = heap.freed_bytes,
		.temporary_allocations = heap.temporary_allocations,
		.reallocations = heap.reallocations,
		.untracked_allocations = limpet_unscaled(within.untracked, scale.block_bits),
		.untracked_bytes = limpet_unscaled(within.untracked_bytes, scale.byte_bits),
		.live_allocations = heap.live_allocations,
		.live_bytes = heap.live_bytes,
		.growth_bytes = heap.growth_bytes,
		.mapped_bytes = mapped_bytes_of(all),
		WITHIN(events),
		WITHIN(foreign_frees),
		WITHIN(foreign_freed_bytes),
		WITHIN(inferred_frees),
		WITHIN(mmaps),
		WITHIN(mmap_bytes),
		WITHIN(munmaps),
		WITHIN(unmapped_bytes),
		WITHIN(foreign_unmapped_bytes),
	};
#undef WITHIN
}

struct limpet_model_point limpet_model_counts_point(const struct limpet_trace_period *period,
						    const struct limpet_totals *totals,
						    struct limpet_scale scale)
{
	return (struct limpet_model_point){
		.time_ns = period->last_ns,
		.live_bytes = live_bytes_of(&totals->counts, scale),
		.rss_bytes = period->rss_bytes,
		.cgroup_bytes = period->cgroup_bytes,
		.mapped_bytes = mapped_bytes_of(totals),
		.allocations = limpet_unscaled(totals->counts.allocations, scale.block_bits),
		.live_allocations = live_of(&totals->counts, scale),
		.threads = period->threads,
		.agent_bytes = period->agent_bytes,
		.file_bytes = period->file_bytes,
	};
}

struct limpet_model_point limpet_model_counts_past_point(const struct limpet_trace_point *point)
{
	return (struct limpet_model_point){.time_ns = point->time_ns,
					   .live_bytes = point->live_bytes,
					   .rss_bytes = point->rss_bytes,
					   .cgroup_bytes = point->cgroup_bytes,
					   .mapped_bytes = point->mapped_bytes,
					   .allocations = point->allocations,
					   .live_allocations = UINT64_MAX};
}
