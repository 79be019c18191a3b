#include "analyzer/views/site_threads.h"

#include <errno.h>
#include <stdlib.h>

#include "common/array.h"
#include "common/counts.h"

struct limpet_site_threads_sum {
	double bytes;
	uint32_t node, tid;
};

#define FIRST_PLACES 1024u

/* The place of that pair, or the free one where it belongs. */
static uint32_t *place_of(const struct limpet_site_threads *threads, uint32_t node, uint32_t tid)
{
	const uint64_t hash = ((uint64_t)node << 32 | tid) * 0x9e3779b97f4a7c15ull;

	for (size_t at = (size_t)(hash >> 32);; at++) {
		uint32_t *place = &threads->places[at & (threads->place_count - 1)];

		if (!*place || (threads->sums[*place - 1].node == node &&
				threads->sums[*place - 1].tid == tid))
			return place;
	}
}

/* At most half of the places are taken. */
static int reserve_place(struct limpet_site_threads *threads)
{
	const size_t count = threads->place_count ? 2 * threads->place_count : FIRST_PLACES;
	uint32_t *before = threads->places;

	if (2 * threads->sum_count < threads->place_count)
		return 0;
	threads->places =
		threads->sum_count < UINT32_MAX / 4 ? calloc(count, sizeof(uint32_t)) : NULL;
	if (!threads->places) {
		threads->places = before;
		return -ENOMEM;
	}
	threads->place_count = count;
	for (size_t i = 0; i < threads->sum_count; i++)
		*place_of(threads, threads->sums[i].node, threads->sums[i].tid) = (uint32_t)i + 1;
	free(before);
	return 0;
}

int limpet_site_threads_add(struct limpet_site_threads *threads,
			    const struct limpet_replay_block *block)
{
	uint32_t *place;

	if (reserve_place(threads) < 0 ||
	    limpet_reserve(&threads->sums, &threads->sum_capacity, threads->sum_count + 1,
			   sizeof(*threads->sums)) < 0)
		return -ENOMEM;
	place = place_of(threads, block->node, block->tid);
	if (!*place) {
		threads->sums[threads->sum_count++] =
			(struct limpet_site_threads_sum){.node = block->node, .tid = block->tid};
		*place = (uint32_t)threads->sum_count;
	}
	threads->sums[*place - 1].bytes += block->bytes;
	return 0;
}

static int compare(const void *a, const void *b)
{
	const struct limpet_site_thread *x = a, *y = b;

	if (x->node != y->node)
		return x->node < y->node ? -1 : 1;
	if (x->bytes != y->bytes)
		return x->bytes > y->bytes ? -1 : 1;
	return x->tid < y->tid ? -1 : x->tid > y->tid;
}

int limpet_site_threads_finish(struct limpet_site_threads *threads)
{
	threads->list = calloc(threads->sum_count + 1, sizeof(*threads->list));
	if (!threads->list)
		return -ENOMEM;
	for (size_t i = 0; i < threads->sum_count; i++)
		threads->list[threads->count++] = (struct limpet_site_thread){
			.node = threads->sums[i].node,
			.tid = threads->sums[i].tid,
			.bytes = limpet_rounded(threads->sums[i].bytes)};
	qsort(threads->list, threads->count, sizeof(*threads->list), compare);
	free(LIMPET_TAKE(threads->sums));
	free(LIMPET_TAKE(threads->places));
	return 0;
}

size_t limpet_site_threads_of(const struct limpet_site_threads *threads, uint32_t node,
			      const struct limpet_site_thread **ret_list)
{
	return LIMPET_EQUAL_RANGE(threads->list, threads->count, node, node, ret_list);
}

void limpet_site_threads_done(struct limpet_site_threads *threads)
{
	free(threads->list);
	free(threads->sums);
	free(threads->places);
	*threads = (struct limpet_site_threads){0};
}
