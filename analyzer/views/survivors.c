#include "analyzer/views/survivors.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "common/array.h"

/* The list doubles unless a merge frees half of it. */
#define FIRST_CAPACITY 4096u
#define FREED_SHARE 2u

static int compare(const void *a, const void *b)
{
	const struct limpet_survivor *x = a, *y = b;

	if (x->node != y->node)
		return x->node < y->node ? -1 : 1;
	return x->step < y->step ? -1 : x->step > y->step;
}

static void merge(struct limpet_survivors *survivors)
{
	struct limpet_survivor *list = survivors->list;
	size_t kept = 0;

	if (survivors->count)
		qsort(list, survivors->count, sizeof(*list), compare);
	for (size_t i = 0; i < survivors->count; i++) {
		if (kept && compare(&list[kept - 1], &list[i]) == 0) {
			list[kept - 1].blocks += list[i].blocks;
			list[kept - 1].bytes += list[i].bytes;
		} else {
			list[kept++] = list[i];
		}
	}
	survivors->count = kept;
}

/* A heap has millions of live blocks, but few of each step and stack: the list is merged before it
 * grows. */
static int reserve_place(struct limpet_survivors *survivors)
{
	if (survivors->count < survivors->capacity)
		return 0;
	merge(survivors);
	if (survivors->count < survivors->capacity / FREED_SHARE)
		return 0;
	return limpet_reserve(&survivors->list, &survivors->capacity,
			      survivors->capacity ? survivors->capacity * 2 : FIRST_CAPACITY,
			      sizeof(*survivors->list));
}

static int add(struct limpet_survivors *survivors, const struct limpet_survivor *one)
{
	if (reserve_place(survivors) < 0)
		return -ENOMEM;
	survivors->list[survivors->count++] = *one;
	return 0;
}

int limpet_survivors_add(struct limpet_survivors *survivors,
			 const struct limpet_replay_block *block)
{
	return add(survivors, &(struct limpet_survivor){
				      .node = block->node,
				      .step = (uint32_t)limpet_history_step_of(survivors->history,
									       block->made_ns),
				      .blocks = block->blocks,
				      .bytes = block->bytes,
			      });
}

/* What is live of the site and not in the list. */
static struct limpet_survivor rest_of(const struct limpet_survivors *survivors,
				      const struct limpet_model_site *site)
{
	struct limpet_survivor rest = {.node = site->node,
				       .blocks = (double)site->live_allocations,
				       .bytes = (double)site->live_bytes};
	const struct limpet_survivor *list;
	const size_t count = limpet_survivors_of_site(survivors, site->node, &list);

	for (size_t i = 0; i < count; i++) {
		rest.blocks -= list[i].blocks;
		rest.bytes -= list[i].bytes;
	}
	return rest;
}

int limpet_survivors_finish(struct limpet_survivors *survivors, const struct limpet_model *model)
{
	struct limpet_survivors older = {0};
	int code = 0;

	merge(survivors);
	for (size_t i = 0; survivors->history->of_sums && i < model->site_count && code == 0; i++) {
		const struct limpet_survivor rest = rest_of(survivors, &model->sites[i]);

		if (rest.bytes > 0)
			code = add(&older, &rest);
	}
	for (size_t i = 0; i < older.count && code == 0; i++)
		code = add(survivors, &older.list[i]);
	limpet_survivors_done(&older);
	merge(survivors);
	for (size_t i = 0; i < survivors->count; i++) {
		survivors->list[i].blocks = round(survivors->list[i].blocks);
		survivors->list[i].bytes = round(survivors->list[i].bytes);
	}
	return code;
}

size_t limpet_survivors_of_site(const struct limpet_survivors *survivors, uint32_t node,
				const struct limpet_survivor **ret_list)
{
	return LIMPET_EQUAL_RANGE(survivors->list, survivors->count, node, node, ret_list);
}

void limpet_survivors_done(struct limpet_survivors *survivors)
{
	free(survivors->list);
	*survivors = (struct limpet_survivors){0};
}
