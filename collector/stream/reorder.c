#include "collector/stream/reorder.h"

#include <stdlib.h>

#include "common/array.h"
#include "common/wire.h"

#define MOST_KEPT (1u << 20)
#define NO_GAP 0u

struct counter {
	uint32_t next; /* number */
	uint32_t gap;  /* index in `gaps` + 1, or NO_GAP */
};

struct kept {
	struct limpet_record record;
	uint32_t number;
	uint32_t child, sibling; /* indices + 1; 0: none */
	uint32_t pass;           /* in which it was read */
};

/* A counter whose next number has not come, with later records that have: a pairing heap (Fredman
 * et al., 1986), as most gaps keep a few records, and some, of addresses that many threads share,
 * thousands. */
struct gap {
	uint32_t counter, next;
	uint32_t root;     /* the lowest number: index + 1 */
	uint64_t since_ns; /* of the first check; 0: none yet */
	bool unexpected;   /* at the last check */
};

struct limpet_reorder {
	struct counter counters[LIMPET_ORDER_COUNTERS];
	struct limpet_event_describer *describer;
	struct kept *kept;
	size_t kept_capacity, kept_used;
	uint32_t free; /* free list, linked by `sibling`: index + 1 */
	size_t count, most;
	uint32_t pass;
	size_t count_older; /* of `count`, those of passes that have ended */
	struct gap *gaps;
	size_t gap_count, gap_capacity;
	uint64_t late;
	struct limpet_record ready[LIMPET_REORDER_BATCH];
	size_t ready_count;
};

struct limpet_reorder *limpet_reorder_new(struct limpet_event_describer *describer)
{
	struct limpet_reorder *reorder = calloc(1, sizeof(*reorder));

	if (!reorder)
		return NULL;
	reorder->describer = describer;
	reorder->most = MOST_KEPT;
	return reorder;
}

void limpet_reorder_free(struct limpet_reorder *reorder)
{
	if (!reorder)
		return;
	free(reorder->kept);
	free(reorder->gaps);
	free(reorder);
}

void limpet_reorder_set_most(struct limpet_reorder *reorder, size_t records)
{
	reorder->most = records;
}

void limpet_reorder_prefetch(const struct limpet_reorder *reorder, uint32_t counter)
{
	__builtin_prefetch(&reorder->counters[counter], 1);
}

void limpet_reorder_flush(struct limpet_reorder *reorder)
{
	const size_t count = reorder->ready_count;

	reorder->ready_count = 0;
	if (count)
		limpet_event_describer_add(reorder->describer, reorder->ready, count);
}

static void pass_on(struct limpet_reorder *reorder, const struct limpet_record *record)
{
	reorder->ready[reorder->ready_count++] = *record;
	if (reorder->ready_count == LIMPET_REORDER_BATCH)
		limpet_reorder_flush(reorder);
}

/* ------------------------------------------------------------------ heaps
 *
 * All numbers of a heap are ahead of its counter's next one: the distance from there is their
 * order, however they wrap around. */
static uint32_t meld(struct kept *kept, uint32_t next, uint32_t a, uint32_t b)
{
	if (!a || !b)
		return a ? a : b;
	if (kept[b - 1].number - next < kept[a - 1].number - next) {
		const uint32_t lower = b;

		b = a;
		a = lower;
	}
	kept[b - 1].sibling = kept[a - 1].child;
	kept[a - 1].child = b;
	return a;
}

/* Melds siblings into one heap: in pairs, then all together. */
static uint32_t meld_all(struct kept *kept, uint32_t next, uint32_t first)
{
	uint32_t pairs = 0, root = 0;

	while (first) {
		const uint32_t a = first, b = kept[a - 1].sibling;
		uint32_t pair;

		first = b ? kept[b - 1].sibling : 0;
		kept[a - 1].sibling = 0;
		if (b)
			kept[b - 1].sibling = 0;
		pair = meld(kept, next, a, b);
		kept[pair - 1].sibling = pairs;
		pairs = pair;
	}
	while (pairs) {
		const uint32_t pair = pairs;

		pairs = kept[pair - 1].sibling;
		kept[pair - 1].sibling = 0;
		root = meld(kept, next, root, pair);
	}
	return root;
}

/* ------------------------------------------------------------------ gaps */

/* The last gap takes its place. */
static void remove_gap(struct limpet_reorder *reorder, struct gap *gap)
{
	const struct gap *last = &reorder->gaps[--reorder->gap_count];

	reorder->counters[gap->counter].gap = NO_GAP;
	if (gap == last)
		return;
	*gap = *last;
	reorder->counters[gap->counter].gap = (uint32_t)(gap - reorder->gaps) + 1;
}

/* How many numbers a record has. */
static uint32_t numbers_of(const struct limpet_record *record)
{
	return 1u + record->freed;
}

static bool is_void(const struct limpet_record *record)
{
	return record->kind == LIMPET_EVENT_VOID;
}

static void pass_on_root(struct limpet_reorder *reorder, struct gap *gap, struct counter *counter)
{
	const uint32_t index = gap->root;
	struct kept *kept = &reorder->kept[index - 1];
	const uint32_t next = counter->next + numbers_of(&kept->record);

	counter->next = next;
	gap->root = meld_all(reorder->kept, next, kept->child);
	if (!is_void(&kept->record))
		pass_on(reorder, &kept->record);
	kept->sibling = reorder->free;
	reorder->free = index;
	reorder->count--;
	reorder->count_older -= kept->pass != reorder->pass;
}

/* Passes on kept records that now follow without a gap. */
static void pass_on_kept(struct limpet_reorder *reorder, struct counter *counter)
{
	struct gap *gap = &reorder->gaps[counter->gap - 1];

	while (gap->root && reorder->kept[gap->root - 1].number == counter->next)
		pass_on_root(reorder, gap, counter);
	if (!gap->root)
		remove_gap(reorder, gap);
}

static void close_gap(struct limpet_reorder *reorder, struct gap *gap)
{
	struct counter *counter = &reorder->counters[gap->counter];

	counter->next = reorder->kept[gap->root - 1].number;
	pass_on_kept(reorder, counter);
}

/* NULL: no memory. */
static struct gap *find_gap(struct limpet_reorder *reorder, uint32_t counter)
{
	struct counter *it = &reorder->counters[counter];

	if (it->gap != NO_GAP)
		return &reorder->gaps[it->gap - 1];
	if (limpet_reserve(&reorder->gaps, &reorder->gap_capacity, reorder->gap_count + 1,
			   sizeof(*reorder->gaps)) < 0)
		return NULL;
	reorder->gaps[reorder->gap_count] = (struct gap){.counter = counter};
	it->gap = (uint32_t)++reorder->gap_count;
	return &reorder->gaps[it->gap - 1];
}

/* 0: no memory; else an index + 1. */
static uint32_t allocate_kept(struct limpet_reorder *reorder)
{
	const uint32_t index = reorder->free;

	if (index) {
		reorder->free = reorder->kept[index - 1].sibling;
		return index;
	}
	if (limpet_reserve(&reorder->kept, &reorder->kept_capacity, reorder->kept_used + 1,
			   sizeof(*reorder->kept)) < 0)
		return 0;
	return (uint32_t)++reorder->kept_used;
}

/* False: no memory. */
static bool keep(struct limpet_reorder *reorder, const struct limpet_numbered *it)
{
	const uint32_t index = allocate_kept(reorder);
	struct gap *gap = index ? find_gap(reorder, it->counter) : NULL;
	struct kept *kept;

	if (!index)
		return false;
	kept = &reorder->kept[index - 1];
	if (!gap) {
		kept->sibling = reorder->free;
		reorder->free = index;
		return false;
	}
	*kept = (struct kept){.record = it->record, .number = it->number, .pass = reorder->pass};
	gap->root = meld(reorder->kept, reorder->counters[it->counter].next, gap->root, index);
	reorder->count++;
	return true;
}

/* ------------------------------------------------------------------ records */

/* Its number is not the next one. */
static void add_out_of_order(struct limpet_reorder *reorder, const struct limpet_numbered *it)
{
	const struct counter *counter = &reorder->counters[it->counter];

	if ((int32_t)(it->number - counter->next) > 0 && keep(reorder, it)) {
		if (reorder->count > reorder->most)
			limpet_reorder_close_all(reorder);
		return;
	}
	if (is_void(&it->record))
		return;
	reorder->late += numbers_of(&it->record);
	pass_on(reorder, &it->record);
}

void limpet_reorder_add(struct limpet_reorder *reorder, const struct limpet_numbered *list,
			size_t count)
{
	for (size_t i = 0; i < count; i++) {
		const struct limpet_numbered *it = &list[i];
		struct counter *counter = &reorder->counters[it->counter];

		if (it->number != counter->next) {
			add_out_of_order(reorder, it);
			continue;
		}
		counter->next += numbers_of(&it->record);
		if (!is_void(&it->record))
			pass_on(reorder, &it->record);
		if (counter->gap != NO_GAP)
			pass_on_kept(reorder, counter);
	}
}

static bool is_set(const uint64_t *bitmap, uint32_t counter)
{
	return bitmap[counter / 64] >> counter % 64 & 1;
}

void limpet_reorder_check_gaps(struct limpet_reorder *reorder, const uint64_t *expected,
			       uint64_t now_ns)
{
	for (size_t i = 0; i < reorder->gap_count; i++) {
		struct gap *gap = &reorder->gaps[i];
		const uint32_t next = reorder->counters[gap->counter].next;

		if (!gap->since_ns || gap->next != next)
			gap->since_ns = now_ns;
		gap->next = next;
		gap->unexpected = !is_set(expected, gap->counter);
	}
}

void limpet_reorder_close(struct limpet_reorder *reorder, bool all_read, uint64_t now_ns)
{
	/* Backwards: the last gap takes the place of one that is removed. */
	for (size_t i = reorder->gap_count; i-- > 0;) {
		struct gap *gap = &reorder->gaps[i];

		/* A gap that appeared after limpet_reorder_check_gaps() was not checked by it. */
		if (!gap->since_ns || gap->next != reorder->counters[gap->counter].next)
			continue;
		if ((all_read && gap->unexpected) ||
		    now_ns - gap->since_ns > LIMPET_REORDER_PATIENCE_NS)
			close_gap(reorder, gap);
	}
}

void limpet_reorder_close_all(struct limpet_reorder *reorder)
{
	while (reorder->gap_count)
		close_gap(reorder, &reorder->gaps[reorder->gap_count - 1]);
}

bool limpet_reorder_end_pass(struct limpet_reorder *reorder)
{
	if (reorder->count_older)
		return false;
	reorder->pass++;
	reorder->count_older = reorder->count;
	return true;
}

size_t limpet_reorder_kept(const struct limpet_reorder *reorder)
{
	return reorder->count;
}

uint64_t limpet_reorder_late(const struct limpet_reorder *reorder)
{
	return reorder->late;
}
