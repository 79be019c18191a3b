#include "explain/reach/reach_round.h"

#include <stdlib.h>
#include <time.h>

#include "common/array.h"
#include "explain/reach/reach_scan.h"
#include "injector/proc/target_process.h"

#define HEAD_BYTES 16u
#define RED_ZONE_BYTES 128u
#define ALL_KINDS ((1u << LIMPET_SEARCHED_KINDS) - 1)
#define HEAP_KIND (1u << LIMPET_SEARCHED_HEAP)
/* Lists of free chunks that change meanwhile are followed again. */
#define TRIES 10u
#define TRY_NS 3000000

void limpet_reach_round_done(struct limpet_reach_round *round)
{
	limpet_reach_graph_done(&round->graph);
	limpet_heap_ranges_done(&round->heaps);
	limpet_search_stacks_done(&round->stacks);
	*round = (struct limpet_reach_round){.bytes = 0};
}

/* ------------------------------------------------------------------ blocks */

/* In an arena that could not be read may be the cache of a thread, with blocks of other arenas:
 * these are known by their keys. */
static bool knows_free_blocks(const struct limpet_used_blocks *used)
{
	return used->lists_whole && (!used->unread_arenas || used->keys.count);
}

static int read_used(const struct limpet_reach_look *look, struct limpet_used_blocks *used)
{
	const struct timespec pause = {0, TRY_NS};
	int error = 0;

	for (unsigned tries = 0; tries < TRIES; tries++) {
		if (tries) {
			limpet_used_blocks_done(used);
			nanosleep(&pause, NULL);
		}
		error = limpet_used_blocks_read_chunks(look->target, look->memory, look->pages,
						       used);
		if (error || knows_free_blocks(used) || used->is_spent || used->is_cut)
			break;
	}
	return error;
}

/* Sorted ranges that overlap, as hostile ones may, are cut. */
static void separate(struct limpet_heap_ranges *ranges)
{
	size_t kept = 0;

	for (size_t i = 0; i < ranges->count; i++) {
		struct limpet_heap_range range = ranges->list[i];

		if (kept && range.start < ranges->list[kept - 1].end)
			range.start = ranges->list[kept - 1].end;
		if (range.start < range.end)
			ranges->list[kept++] = range;
	}
	ranges->count = kept;
}

/* Chunks of arenas, and between them blocks with mappings of their own. */
static int take_blocks(struct limpet_used_blocks *used, struct limpet_reach_round *round)
{
	struct limpet_block_table *blocks = &round->graph.blocks;
	const struct limpet_glibc_chunk *chunks = used->chunks.list;
	const size_t chunk_count = used->chunks.count;
	int error = limpet_block_table_begin(blocks, chunk_count + used->count);

	round->graph.keys = used->keys;
	round->heaps = used->ranges;
	used->ranges = (struct limpet_heap_ranges){0};
	for (size_t i = 0, k = 0; i + k < chunk_count + used->count && !error;) {
		const struct limpet_used_block *mapped = &used->list[k];

		if (k == used->count || (i < chunk_count && chunks[i].start < mapped->start)) {
			limpet_block_table_add(blocks, chunks[i].start + HEAD_BYTES,
					       chunks[i].bytes - HEAD_BYTES / 2);
			i++;
			continue;
		}
		limpet_block_table_add(blocks, mapped->start + HEAD_BYTES,
				       limpet_used_block_usable(mapped));
		error = limpet_heap_ranges_add(&round->heaps, mapped->start,
					       mapped->start + mapped->bytes, false);
		k++;
	}
	limpet_heap_ranges_sort(&round->heaps);
	separate(&round->heaps);
	return error ? error : limpet_block_table_end(blocks);
}

static int read_blocks(const struct limpet_reach_look *look, struct limpet_reach_round *round)
{
	struct limpet_used_blocks used = {0};
	int error = read_used(look, &used);

	round->has_glibc = used.has_glibc;
	round->unread_arenas = used.unread_arenas;
	round->is_late = used.is_cut || used.is_spent;
	round->is_judged = knows_free_blocks(&used) && !round->is_late;
	if (!error && round->is_judged)
		error = take_blocks(&used, round);
	limpet_used_blocks_done(&used);
	return error;
}

/* ------------------------------------------------------------------ words */

/* The part of a stack that is in use, from the lowest stack pointer in it on. One without any may
 * be that of a thread that runs on another one for a while: all of it counts. */
static uint64_t used_from(const struct limpet_reach_look *look, const struct limpet_heap_range *of)
{
	const uint64_t *list = look->stack_pointers;
	/* cppcheck-suppress constStatement */
	const size_t i = LIMPET_PARTITION_POINT(k, look->stack_pointer_count, list[k] < of->start);

	if (i == look->stack_pointer_count || list[i] >= of->end)
		return of->start;
	return list[i] - of->start > RED_ZONE_BYTES ? list[i] - RED_ZONE_BYTES : of->start;
}

/* The first thread's stack is in no list. */
static void cut_stacks(const struct limpet_reach_look *look,
		       const struct limpet_heap_ranges *stacks, struct limpet_search_ranges *ranges)
{
	for (size_t i = 0; i < ranges->count; i++) {
		struct limpet_search_range *range = &ranges->list[i];
		const struct limpet_heap_range self = {range->start, range->end, false};
		const struct limpet_heap_range *of = limpet_heap_ranges_find(stacks, range->start);
		uint64_t from;

		if (range->kind != LIMPET_SEARCHED_STACK)
			continue;
		from = used_from(look, of ? of : &self);
		if (from > range->start)
			range->start = from < range->end ? from : range->end;
	}
}

static int scan_words(const struct limpet_reach_look *look,
		      const struct limpet_search_ranges *ranges, struct limpet_reach_round *round)
{
	const struct limpet_search_range registers = {.kind = LIMPET_SEARCHED_STACK};
	struct limpet_reach_scan scan = {.memory = look->memory,
					 .pages = look->pages,
					 .visit = limpet_reach_graph_words,
					 .context = &round->graph};
	const unsigned first = look->heap_first ? HEAP_KIND : ALL_KINDS & ~HEAP_KIND;
	int error = limpet_reach_graph_begin(&round->graph);

	if (!error && look->register_count)
		error = limpet_reach_graph_words(&round->graph, &registers, 0, look->registers,
						 look->register_count);
	if (!error)
		error = limpet_reach_scan(&scan, ranges, first);
	if (!error)
		error = limpet_reach_scan(&scan, ranges, ALL_KINDS & ~first);
	limpet_reach_graph_end(&round->graph);
	round->bytes = scan.bytes;
	round->missed = scan.missed;
	round->is_late |= scan.is_spent;
	round->is_judged &= !scan.is_spent;
	return error;
}

int limpet_reach_round_ranges(const struct limpet_reach_round *round,
			      const struct limpet_target *target,
			      struct limpet_search_ranges *ret_ranges)
{
	struct limpet_maps maps;
	const struct limpet_search_facts facts = {.maps = &maps,
						  .heaps = &round->heaps,
						  .stacks = &round->stacks.stacks,
						  .locals = &round->stacks.locals};
	int error = limpet_proc_maps_read(target->pid, &maps);

	if (error)
		return error;
	error = limpet_search_ranges_make(&facts, ret_ranges);
	limpet_proc_maps_done(&maps);
	return error;
}

static int read_stacks(const struct limpet_reach_look *look, struct limpet_reach_round *round)
{
	struct limpet_maps maps;
	int error = limpet_proc_maps_read(look->target->pid, &maps);

	if (error)
		return error;
	error = limpet_search_stacks_read(look->target, look->memory, &maps, look->pages,
					  &round->stacks);
	separate(&round->stacks.stacks);
	separate(&round->stacks.locals);
	limpet_proc_maps_done(&maps);
	return error;
}

int limpet_reach_round_read(const struct limpet_reach_look *look,
			    struct limpet_reach_round *ret_round)
{
	struct limpet_reach_round round = {.graph.keeps_all_holds = look->keeps_all_holds};
	struct limpet_search_ranges ranges = {0};
	int error = read_blocks(look, &round);

	if (!error && round.is_judged)
		error = read_stacks(look, &round);
	if (!error && round.is_judged)
		error = limpet_reach_round_ranges(&round, look->target, &ranges);
	if (!error && round.is_judged) {
		if (look->stack_pointers)
			cut_stacks(look, &round.stacks.stacks, &ranges);
		error = scan_words(look, &ranges, &round);
	}
	limpet_search_ranges_done(&ranges);
	if (error)
		limpet_reach_round_done(&round);
	else
		*ret_round = round;
	return error;
}

bool limpet_reach_has_swap(const struct limpet_target *target)
{
	uint64_t bytes = 0;

	return limpet_proc_task_number(target, target->pid, "VmSwap", &bytes) < 0 || bytes;
}
