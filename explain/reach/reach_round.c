#include "explain/reach/reach_round.h"

#include <stdlib.h>
#include <time.h>

#include "common/array.h"
#include "explain/reach/reach_scan.h"
#include "injector/proc/target_process.h"

#define HEAD_BYTES 16u
#define RED_ZONE_BYTES 128u
#define ALL_KINDS ((1u << LIMPET_SEARCHED_KINDS) - 1)
#define HEAP_KINDS (1u << LIMPET_SEARCHED_HEAP | 1u << LIMPET_SEARCHED_MIXED)
#define GROWTH_BYTES ((uint64_t)64 << 20)
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

/* Blocks come from three sorted lists. */
struct block_lists {
	const struct limpet_used_blocks *used;
	const struct limpet_known_blocks *known;
	size_t chunk, mapped, other; /* the next of each */
};

/* A known block in glibc's memory is one of its chunks, or free by now. */
static void skip_known(struct block_lists *lists, const struct limpet_heap_ranges *heaps)
{
	const struct limpet_known_blocks *known = lists->known;

	while (lists->other < known->count &&
	       limpet_heap_ranges_find(heaps, known->list[lists->other].start))
		lists->other++;
}

/* False: there are no more. */
static bool add_next(struct block_lists *lists, struct limpet_block_table *blocks)
{
	const struct limpet_used_blocks *used = lists->used;
	const struct limpet_known_blocks *known = lists->known;
	const uint64_t none = UINT64_MAX;
	const uint64_t chunk = lists->chunk < used->chunks.count
				       ? used->chunks.list[lists->chunk].start + HEAD_BYTES
				       : none;
	const uint64_t mapped =
		lists->mapped < used->count ? used->list[lists->mapped].start + HEAD_BYTES : none;
	const uint64_t other = lists->other < known->count ? known->list[lists->other].start : none;

	if (chunk < mapped && chunk < other)
		limpet_block_table_add(blocks, chunk,
				       used->chunks.list[lists->chunk++].bytes - HEAD_BYTES / 2);
	else if (mapped < other)
		limpet_block_table_add(blocks, mapped,
				       limpet_used_block_usable(&used->list[lists->mapped++]));
	else if (other != none)
		limpet_block_table_add(blocks, other,
				       (known->list[lists->other++].bytes + 7) & ~(uint64_t)7);
	else
		return false;
	return true;
}

/* Chunks of arenas, between them blocks with mappings of their own, and those of other allocators.
 */
static int take_blocks(struct limpet_used_blocks *used, const struct limpet_known_blocks *known,
		       struct limpet_reach_round *round)
{
	static const struct limpet_known_blocks none = {NULL, 0};
	struct block_lists lists = {.used = used, .known = known ? known : &none};
	struct limpet_block_table *blocks = &round->graph.blocks;
	int error = limpet_block_table_begin(blocks,
					     used->chunks.count + used->count + lists.known->count);

	round->graph.keys = used->keys;
	round->heaps = used->ranges;
	used->ranges = (struct limpet_heap_ranges){0};
	for (size_t i = 0; i < used->count && !error; i++)
		error = limpet_heap_ranges_add(&round->heaps, used->list[i].start,
					       used->list[i].start + used->list[i].bytes, false);
	limpet_heap_ranges_sort(&round->heaps);
	separate(&round->heaps);
	if (error)
		return error;
	do
		skip_known(&lists, &round->heaps);
	while (add_next(&lists, blocks));
	return limpet_block_table_end(blocks);
}

static int read_blocks(const struct limpet_reach_look *look, struct limpet_reach_round *round)
{
	struct limpet_used_blocks used = {0};
	int error = read_used(look, &used);

	round->has_glibc = used.has_glibc;
	round->unread_arenas = used.unread_arenas;
	round->is_late = used.is_cut || used.is_spent;
	round->is_judged = !round->is_late && (used.has_glibc ? knows_free_blocks(&used)
							      : look->known && look->known->count);
	if (!error && round->is_judged)
		error = take_blocks(&used, look->known, round);
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

bool limpet_reach_may_be_heap(const struct limpet_reach_round *round, uint64_t address)
{
	const struct limpet_heap_range *list = round->heaps.list;
	/* cppcheck-suppress constStatement */
	const size_t above =
		LIMPET_PARTITION_POINT(i, round->heaps.count, list[i].start <= address);

	return above && address - list[above - 1].start <
				list[above - 1].end - list[above - 1].start + GROWTH_BYTES;
}

/* Words outside of the heap that may point into it, as they were before its blocks were listed. */
struct root_word {
	uint64_t address, value;
	enum limpet_searched kind;
};
struct root_words {
	const struct limpet_reach_round *round;
	struct root_word *list;
	size_t count, capacity;
};

static int keep_words(void *context, const struct limpet_search_range *range, uint64_t address,
		      const uint64_t *words, size_t count)
{
	struct root_words *kept = context;
	const struct limpet_block_table *blocks = &kept->round->graph.blocks;

	for (size_t i = 0; i < count; i++) {
		const uint64_t value = words[i] & LIMPET_REACH_ADDRESS_MASK;

		if ((!limpet_reach_may_be_heap(kept->round, value) &&
		     limpet_block_table_pointed(blocks, value) == LIMPET_NO_BLOCK) ||
		    kept->count == LIMPET_REACH_ALL_HOLDS_LIMIT)
			continue;
		if (limpet_reserve(&kept->list, &kept->capacity, kept->count + 1,
				   sizeof(*kept->list)) < 0 ||
		    !kept->list)
			return -ENOMEM;
		kept->list[kept->count++] =
			(struct root_word){address + 8 * i, words[i], range->kind};
	}
	return 0;
}

/* But for those in what the heap has grown by since. */
static int add_kept(const struct root_words *kept, struct limpet_reach_round *round)
{
	int error = 0;

	for (size_t i = 0; i < kept->count && !error; i++) {
		const struct limpet_search_range range = {.kind = kept->list[i].kind};

		if (limpet_heap_ranges_find(&round->heaps, kept->list[i].address))
			continue;
		error = limpet_reach_graph_words(&round->graph, &range, kept->list[i].address,
						 &kept->list[i].value, 1);
	}
	return error;
}

static void note_scan(struct limpet_reach_round *round, const struct limpet_reach_scan *scan)
{
	round->bytes += scan->bytes;
	round->missed += scan->missed;
	round->is_late |= scan->is_spent;
	round->is_judged &= !scan->is_spent;
}

static int scan_words(const struct limpet_reach_look *look,
		      const struct limpet_search_ranges *ranges, const struct root_words *kept,
		      struct limpet_reach_round *round)
{
	const struct limpet_search_range registers = {.kind = LIMPET_SEARCHED_STACK};
	struct limpet_reach_scan scan = {.memory = look->memory,
					 .pages = look->pages,
					 .visit = limpet_reach_graph_words,
					 .context = &round->graph};
	const unsigned first = look->heap_first ? HEAP_KINDS : ALL_KINDS & ~HEAP_KINDS;
	int error = limpet_reach_graph_begin(&round->graph);

	if (!error && look->register_count)
		error = limpet_reach_graph_words(&round->graph, &registers, 0, look->registers,
						 look->register_count);
	if (!error)
		error = look->roots_first ? add_kept(kept, round)
					  : limpet_reach_scan(&scan, ranges, first);
	if (!error)
		error = limpet_reach_scan(&scan, ranges,
					  look->roots_first ? HEAP_KINDS : ALL_KINDS & ~first);
	limpet_reach_graph_end(&round->graph);
	note_scan(round, &scan);
	round->missed += ranges->secret_bytes;
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
						  .locals = &round->stacks.locals,
						  .blocks = &round->graph.blocks};
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

static int make_ranges(const struct limpet_reach_look *look, const struct limpet_reach_round *round,
		       struct limpet_search_ranges *ranges)
{
	int error;

	limpet_search_ranges_done(ranges);
	error = limpet_reach_round_ranges(round, look->target, ranges);
	if (!error && look->stack_pointers)
		cut_stacks(look, &round->stacks.stacks, ranges);
	return error;
}

/* Then the blocks are listed anew. */
static int keep_roots(const struct limpet_reach_look *look, struct limpet_reach_round *round,
		      struct limpet_search_ranges *ranges, struct root_words *kept)
{
	struct limpet_reach_scan scan = {
		.memory = look->memory, .pages = look->pages, .visit = keep_words, .context = kept};
	int error = limpet_reach_scan(&scan, ranges, ALL_KINDS & ~HEAP_KINDS);

	note_scan(round, &scan);
	round->graph.holds_are_cut = kept->count == LIMPET_REACH_ALL_HOLDS_LIMIT;
	if (error || !round->is_judged)
		return error;
	limpet_block_table_done(&round->graph.blocks);
	limpet_heap_ranges_done(&round->heaps);
	error = read_blocks(look, round);
	return error || !round->is_judged ? error : make_ranges(look, round, ranges);
}

int limpet_reach_round_read(const struct limpet_reach_look *look,
			    struct limpet_reach_round *ret_round)
{
	struct limpet_reach_round round = {.graph.keeps_all_holds = look->keeps_all_holds};
	struct limpet_search_ranges ranges = {0};
	struct root_words kept = {.round = &round};
	int error = read_blocks(look, &round);

	if (!error && round.is_judged)
		error = read_stacks(look, &round);
	if (!error && round.is_judged)
		error = make_ranges(look, &round, &ranges);
	if (!error && round.is_judged && look->roots_first)
		error = keep_roots(look, &round, &ranges, &kept);
	if (!error && round.is_judged)
		error = scan_words(look, &ranges, &kept, &round);
	limpet_search_ranges_done(&ranges);
	free(kept.list);
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
