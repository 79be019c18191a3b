#include "analyzer/model_books.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#include "common/room.h"

int limpet_model_books_init(struct limpet_model_books *books, uint32_t node_count,
			    uint64_t sample_bytes, bool overloads_only)
{
	*books = (struct limpet_model_books){
		.sample_bytes = sample_bytes,
		.overloads_only = overloads_only,
		.site_of_node = calloc(node_count, sizeof(*books->site_of_node)),
		.map_of_node = calloc(node_count, sizeof(*books->map_of_node)),
	};
	if (books->site_of_node && books->map_of_node)
		return 0;
	limpet_model_books_done(books);
	return -ENOMEM;
}

void limpet_model_books_done(struct limpet_model_books *books)
{
	free(books->sites);
	free(books->estimates);
	free(books->maps);
	free(books->site_of_node);
	free(books->map_of_node);
	*books = (struct limpet_model_books){0};
}

static int grow_sites(struct limpet_model_books *books)
{
	size_t room = books->site_room;
	int code = 0;

	if (books->sample_bytes)
		code = limpet_room_for(&books->estimates, &room, books->site_count + 1,
				       sizeof(*books->estimates));
	if (code == 0)
		code = limpet_room_for(&books->sites, &books->site_room, books->site_count + 1,
				       sizeof(*books->sites));
	return code;
}

struct limpet_model_sum_site *limpet_model_books_site(struct limpet_model_books *books,
						      uint32_t node)
{
	if (!books->site_of_node[node]) {
		if (books->site_count == books->site_room && grow_sites(books) < 0)
			return NULL;
		if (books->sample_bytes)
			books->estimates[books->site_count] = (struct limpet_model_estimates){0};
		books->sites[books->site_count] = (struct limpet_model_sum_site){.node = node};
		books->site_of_node[node] = (uint32_t)++books->site_count;
	}
	return &books->sites[books->site_of_node[node] - 1];
}

static struct limpet_model_sum_map *find_map(struct limpet_model_books *books, uint32_t node)
{
	if (!books->map_of_node[node]) {
		if (limpet_room_for(&books->maps, &books->map_room, books->map_count + 1,
				    sizeof(*books->maps)) < 0)
			return NULL;
		books->maps[books->map_count] = (struct limpet_model_sum_map){.node = node};
		books->map_of_node[node] = (uint32_t)++books->map_count;
	}
	return &books->maps[books->map_of_node[node] - 1];
}

uint64_t limpet_model_books_live_bytes(const uint64_t totals[LIMPET_TOTAL_COUNT])
{
	return limpet_model_clamp(totals[LIMPET_TOTAL_ALLOCATED_BYTES],
				  totals[LIMPET_TOTAL_FREED_BYTES] +
					  totals[LIMPET_TOTAL_UNTRACKED_BYTES]);
}

void limpet_model_books_count(struct limpet_model_books *books)
{
	books->counting = true;
	memcpy(books->start_totals, books->totals, sizeof(books->totals));
	for (size_t i = 0; i < books->site_count; i++) {
		books->sites[i].start_live = books->sites[i].live;
		books->sites[i].start_bytes = books->sites[i].live_bytes;
	}
}

/* ------------------------------------------------------------------ single rows */

static void add_row_totals(struct limpet_model_books *books, const struct limpet_trace_event *row)
{
	uint64_t *totals = books->totals;

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
		break;
	case LIMPET_ROW_FOREIGN_FREE:
		totals[LIMPET_TOTAL_FOREIGN_FREES]++;
		totals[LIMPET_TOTAL_FOREIGN_FREED_BYTES] += row->size;
		break;
	case LIMPET_ROW_MMAP:
		totals[LIMPET_TOTAL_MMAPS]++;
		totals[LIMPET_TOTAL_MMAP_BYTES] += row->size;
		books->parts = 0;
		break;
	case LIMPET_ROW_UNMAPPED:
		totals[LIMPET_TOTAL_UNMAPPED_BYTES] += row->size;
		books->parts += row->size;
		break;
	case LIMPET_ROW_MUNMAP:
		totals[LIMPET_TOTAL_MUNMAPS]++;
		totals[LIMPET_TOTAL_FOREIGN_UNMAPPED_BYTES] +=
			limpet_model_clamp(row->size, books->parts);
		books->parts = 0;
		break;
	default:
		break;
	}
}

static int add_row_heap(struct limpet_model_books *books, const struct limpet_trace_event *row)
{
	struct limpet_model_sum_site *site = limpet_model_books_site(books, row->node);
	unsigned bucket = limpet_trace_size_bucket(row->size);

	if (!site)
		return -ENOMEM;
	if (row->kind == LIMPET_ROW_FREE || row->kind == LIMPET_ROW_INFERRED_FREE) {
		site->live--;
		site->live_bytes -= row->size;
		if (books->counting) {
			site->frees++;
			site->freed_bytes += row->size;
			site->temporary += row->temporary;
		}
		return 0;
	}
	if (row->kind == LIMPET_ROW_ALLOC) {
		site->live++;
		site->live_bytes += row->size;
	}
	if (books->counting) {
		site->allocations++;
		site->allocated_bytes += row->size;
		books->sizes[bucket].allocations++;
		books->sizes[bucket].allocated_bytes += row->size;
	}
	return 0;
}

/* ------------------------------------------------------------------ sampled rows */

#define FINE 256.0

/* From a trace, which may say anything. */
static uint64_t rounded(double value)
{
	if (!(value > 0))
		return 0;
	return value < 0x1p62 ? (uint64_t)llround(value) : 1ull << 62;
}

static void add_fine(struct limpet_model_books *books, enum limpet_trace_total total, double value)
{
	books->fine_totals[total] += rounded(value * FINE);
	books->totals[total] = rounded((double)books->fine_totals[total] / FINE);
}

/* Everything that a sample says is said of so many; what was certain stays as it is. */
static void add_sampled_totals(struct limpet_model_books *books,
			       const struct limpet_trace_event *row,
			       const struct limpet_weight *weight)
{
	double bytes = weight->weight * (double)row->size;

	books->totals[LIMPET_TOTAL_EVENTS] += row->counted;
	if (row->kind == LIMPET_ROW_FREE || row->kind == LIMPET_ROW_INFERRED_FREE) {
		books->totals[LIMPET_TOTAL_INFERRED_FREES] += row->kind != LIMPET_ROW_FREE;
		add_fine(books, LIMPET_TOTAL_FREES, weight->weight);
		add_fine(books, LIMPET_TOTAL_FREED_BYTES, bytes);
		return;
	}
	add_fine(books, LIMPET_TOTAL_ALLOCATIONS, weight->weight);
	add_fine(books, LIMPET_TOTAL_ALLOCATED_BYTES, bytes);
	if (row->kind == LIMPET_ROW_UNTRACKED) {
		add_fine(books, LIMPET_TOTAL_UNTRACKED, weight->weight);
		add_fine(books, LIMPET_TOTAL_UNTRACKED_BYTES, bytes);
	}
}

static void add_sampled_size(struct limpet_model_books *books, uint64_t size,
			     const struct limpet_weight *weight)
{
	unsigned bucket = limpet_trace_size_bucket(size);
	double *fine = books->fine_sizes[bucket];

	fine[0] += weight->weight;
	fine[1] += weight->weight * (double)size;
	books->sizes[bucket].allocations = rounded(fine[0]);
	books->sizes[bucket].allocated_bytes = rounded(fine[1]);
}

static int add_sampled_row(struct limpet_model_books *books, const struct limpet_trace_event *row)
{
	bool certain = books->overloads_only && !row->sampled;
	struct limpet_weight weight =
		limpet_weight_of(row->size, certain ? 0 : books->sample_bytes);
	struct limpet_model_sum_site *site = limpet_model_books_site(books, row->node);
	struct limpet_model_estimates *estimates;

	if (!site)
		return -ENOMEM;
	estimates = &books->estimates[site - books->sites];
	add_sampled_totals(books, row, &weight);
	if (row->kind == LIMPET_ROW_FREE || row->kind == LIMPET_ROW_INFERRED_FREE) {
		limpet_model_estimates_free(estimates, &weight, row->size, books->counting);
		limpet_model_estimates_free(&books->all, &weight, row->size, books->counting);
	} else {
		bool live = row->kind == LIMPET_ROW_ALLOC;

		limpet_model_estimates_alloc(estimates, &weight, row->size, books->counting, live);
		limpet_model_estimates_alloc(&books->all, &weight, row->size, books->counting,
					     live);
		if (books->counting)
			add_sampled_size(books, row->size, &weight);
	}
	site->allocations = limpet_estimate_value(&estimates->allocations);
	site->allocated_bytes = limpet_estimate_value(&estimates->allocated_bytes);
	site->frees = rounded(estimates->frees);
	site->freed_bytes = rounded(estimates->freed_bytes);
	site->live = limpet_estimate_value(&estimates->live_allocations);
	site->live_bytes = limpet_estimate_value(&estimates->live_bytes);
	return 0;
}

static bool is_sampled(const struct limpet_model_books *books, const struct limpet_trace_event *row)
{
	return books->sample_bytes &&
	       (row->kind == LIMPET_ROW_ALLOC || row->kind == LIMPET_ROW_UNTRACKED ||
		row->kind == LIMPET_ROW_FREE || row->kind == LIMPET_ROW_INFERRED_FREE);
}

static int add_row_map(struct limpet_model_books *books, const struct limpet_trace_event *row)
{
	struct limpet_model_sum_map *map = find_map(books, row->node);

	if (!map)
		return -ENOMEM;
	if (row->kind == LIMPET_ROW_MMAP) {
		map->mapped_bytes += row->size;
		map->mmaps += books->counting;
		map->mmap_bytes += books->counting ? row->size : 0;
	} else {
		map->mapped_bytes -= row->size;
		map->unmapped_bytes += books->counting ? row->size : 0;
	}
	return 0;
}

int limpet_model_books_add_row(struct limpet_model_books *books,
			       const struct limpet_trace_event *row)
{
	if (is_sampled(books, row))
		return add_sampled_row(books, row);
	add_row_totals(books, row);
	switch (row->kind) {
	case LIMPET_ROW_ALLOC:
	case LIMPET_ROW_UNTRACKED:
	case LIMPET_ROW_FREE:
	case LIMPET_ROW_INFERRED_FREE:
		return add_row_heap(books, row);
	case LIMPET_ROW_MMAP:
	case LIMPET_ROW_UNMAPPED:
		return add_row_map(books, row);
	default:
		return 0;
	}
}

/* ------------------------------------------------------------------ whole periods */

static int add_period_sites(struct limpet_model_books *books,
			    const struct limpet_trace_period *period)
{
	for (uint32_t i = 0; i < period->site_count; i++) {
		const struct limpet_trace_site *from = &period->sites[i];
		struct limpet_model_sum_site *site = limpet_model_books_site(books, from->node);

		if (!site)
			return -ENOMEM;
		site->live += from->allocations - from->frees - from->untracked;
		site->live_bytes +=
			from->allocated_bytes - from->freed_bytes - from->untracked_bytes;
		if (!books->counting)
			continue;
		site->allocations += from->allocations;
		site->allocated_bytes += from->allocated_bytes;
		site->frees += from->frees;
		site->freed_bytes += from->freed_bytes;
		site->temporary += from->temporary;
	}
	for (uint32_t i = 0; i < period->map_count; i++) {
		const struct limpet_trace_map_site *from = &period->maps[i];
		struct limpet_model_sum_map *map = find_map(books, from->node);

		if (!map)
			return -ENOMEM;
		map->mapped_bytes += from->mmap_bytes - from->unmapped_bytes;
		if (!books->counting)
			continue;
		map->mmaps += from->mmaps;
		map->mmap_bytes += from->mmap_bytes;
		map->unmapped_bytes += from->unmapped_bytes;
	}
	return 0;
}

int limpet_model_books_add_period(struct limpet_model_books *books,
				  const struct limpet_trace_period *period)
{
	memcpy(books->totals, period->totals, sizeof(books->totals));
	for (unsigned i = 0; books->counting && i < LIMPET_TRACE_SIZE_BUCKETS; i++) {
		books->sizes[i].allocations += period->sizes[i].allocations;
		books->sizes[i].allocated_bytes += period->sizes[i].allocated_bytes;
	}
	return add_period_sites(books, period);
}
