#include "analyzer/views/site_threads.h"

#include <errno.h>
#include <stdlib.h>

#include "common/array.h"
#include "common/counts.h"

struct limpet_site_threads_sum {
	double bytes;
	uint32_t tid;
	uint32_t next; /* index + 1 of the stack's next thread; 0: none */
};

int limpet_site_threads_init(struct limpet_site_threads *threads, uint32_t node_count)
{
	*threads = (struct limpet_site_threads){
		.sum_of_node = calloc(node_count + 1ul, sizeof(uint32_t)),
		.node_count = node_count,
	};
	return threads->sum_of_node ? 0 : -ENOMEM;
}

/* The threads of a stack are in the order in which they were met: a thread allocates many times in
 * a row, and a stack of threads that live shortly has thousands of them. */
int limpet_site_threads_add(struct limpet_site_threads *threads,
			    const struct limpet_replay_block *block)
{
	uint32_t *const first = &threads->sum_of_node[block->node], *at = first;
	struct limpet_site_threads_sum *sum;
	uint32_t number;

	while (*at && threads->sums[*at - 1].tid != block->tid)
		at = &threads->sums[*at - 1].next;
	number = *at;
	if (!number) {
		if (threads->sum_count >= UINT32_MAX ||
		    limpet_reserve(&threads->sums, &threads->sum_capacity, threads->sum_count + 1,
				   sizeof(*threads->sums)) < 0)
			return -ENOMEM;
		threads->sums[threads->sum_count] =
			(struct limpet_site_threads_sum){.tid = block->tid, .next = *first};
		number = *first = (uint32_t)++threads->sum_count;
	} else if (at != first) {
		*at = threads->sums[number - 1].next;
		threads->sums[number - 1].next = *first;
		*first = number;
	}
	sum = &threads->sums[number - 1];
	sum->bytes += block->bytes;
	return 0;
}

static int compare(const void *a, const void *b)
{
	const struct limpet_site_thread *x = a, *y = b;

	if (x->bytes != y->bytes)
		return x->bytes > y->bytes ? -1 : 1;
	return x->tid < y->tid ? -1 : x->tid > y->tid;
}

int limpet_site_threads_finish(struct limpet_site_threads *threads)
{
	threads->list = calloc(threads->sum_count + 1, sizeof(*threads->list));
	if (!threads->list)
		return -ENOMEM;
	for (uint32_t node = 0; node < threads->node_count; node++) {
		const size_t first = threads->count;

		for (uint32_t at = threads->sum_of_node[node]; at; at = threads->sums[at - 1].next)
			threads->list[threads->count++] = (struct limpet_site_thread){
				.node = node,
				.tid = threads->sums[at - 1].tid,
				.bytes = limpet_rounded(threads->sums[at - 1].bytes)};
		if (threads->count - first > 1)
			qsort(&threads->list[first], threads->count - first, sizeof(*threads->list),
			      compare);
	}
	free(threads->sums);
	free(threads->sum_of_node);
	threads->sums = NULL;
	threads->sum_of_node = NULL;
	return 0;
}

size_t limpet_site_threads_of(const struct limpet_site_threads *threads, uint32_t node,
			      const struct limpet_site_thread **ret_list)
{
	const struct limpet_site_thread *list = threads->list;
	size_t first = LIMPET_PARTITION_POINT(i, threads->count, list[i].node < node);
	size_t end = first;

	while (end < threads->count && list[end].node == node)
		end++;
	*ret_list = &list[first];
	return end - first;
}

void limpet_site_threads_done(struct limpet_site_threads *threads)
{
	free(threads->list);
	free(threads->sums);
	free(threads->sum_of_node);
	*threads = (struct limpet_site_threads){0};
}
