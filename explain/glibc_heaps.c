#include "explain/glibc_heaps.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "explain/glibc_find.h"
#include "explain/glibc_orphans.h"
#include "explain/glibc_regions.h"
#include "explain/glibc_wait.h"
#include "injector/proc/target_process.h"

#define PAGE 4096u
#define ALIGNMENT 16u
#define CHUNK_BITS ((uint64_t)7)
/* HEAP_MAX_SIZE of malloc/arena.c; four huge pages if glibc.malloc.hugetlb asks for such. */
static const uint64_t heap_sizes[] = {(uint64_t)64 << 20, (uint64_t)8 << 20, (uint64_t)4 << 30};
#define HEAP_HEAD_LIMIT_BYTES ((uint64_t)256)
#define HEAPS_LIMIT 65536u /* of one arena */
/* By which an arena may grow while its heaps are read. */
#define HEAP_SLACK_BYTES ((uint64_t)16 << 20)
#define TRIES 8
/* What is swapped out stays so. */
#define ABSENT_TRIES 2
#define WAIT_NS UINT64_C(1000000000) /* for all arenas */

struct heaps_reading {
	const struct limpet_target *target;
	const struct limpet_memory_reader *memory;
	const struct limpet_maps *maps;
	struct limpet_pages *pages;
	struct limpet_glibc_found found;
	struct limpet_glibc_chunks *used; /* NULL: not wanted */
	struct limpet_glibc_heaps *heaps;
	struct limpet_maps newer;      /* what `maps` points to after a first reading */
	uint64_t wait_ns;              /* that may be waited yet */
	struct limpet_glibc_stop stop; /* of the last try, if a walk failed */
};

/* One arena's regions, lowest address last for secondary arenas. */
struct regions {
	struct limpet_glibc_region *list;
	size_t count, capacity;
};

static uint64_t align_up(uint64_t address, uint64_t to)
{
	return (address + to - 1) & ~(to - 1);
}

void limpet_glibc_heaps_done(struct limpet_glibc_heaps *heaps)
{
	for (size_t i = 0; i < heaps->count; i++)
		limpet_glibc_returns_done(&heaps->list[i].returns);
	free(heaps->list);
	free(heaps->ranges);
	*heaps = (struct limpet_glibc_heaps){0};
}

void limpet_glibc_arena_lock(struct limpet_glibc_arena *arena, uint64_t start, uint64_t end)
{
	const struct limpet_glibc_returns *returns = &arena->returns;
	/* cppcheck-suppress constStatement */
	size_t i = LIMPET_PARTITION_POINT(k, returns->count, returns->list[k].end <= start);

	for (; i < returns->count && returns->list[i].start < end; i++) {
		struct limpet_glibc_return *it = &returns->list[i];
		const uint64_t from = it->start > start ? it->start : start;
		const uint64_t bytes =
			it->end - from < it->resident_bytes ? it->end - from : it->resident_bytes;

		arena->locked_returned_bytes += bytes;
		it->resident_bytes -= bytes;
		it->end = from;
	}
}

const struct limpet_glibc_range *limpet_glibc_heaps_find(const struct limpet_glibc_heaps *heaps,
							 uint64_t address)
{
	const struct limpet_glibc_range *ranges = heaps->ranges;
	/* cppcheck-suppress constStatement */
	size_t above = LIMPET_PARTITION_POINT(i, heaps->range_count, ranges[i].start <= address);

	return above && address < ranges[above - 1].end ? &ranges[above - 1] : NULL;
}

uint64_t limpet_glibc_heaps_bytes(const struct limpet_glibc_heaps *heaps, uint64_t start,
				  uint64_t end)
{
	const struct limpet_glibc_range *ranges = heaps->ranges;
	/* cppcheck-suppress constStatement */
	size_t i = LIMPET_PARTITION_POINT(k, heaps->range_count, ranges[k].end <= start);
	uint64_t sum = 0, at = start;

	for (; i < heaps->range_count && ranges[i].start < end; i++) {
		const uint64_t from = ranges[i].start & ~(uint64_t)(PAGE - 1);
		const uint64_t to = align_up(ranges[i].end, PAGE);

		at = from > at ? from : at;
		if (to > at)
			sum += (to < end ? to : end) - at;
		at = to > at ? to : at;
		if (at >= end)
			break;
	}
	return sum;
}

static int add_region(struct regions *regions, const struct limpet_glibc_region *region)
{
	if (limpet_reserve(&regions->list, &regions->capacity, regions->count + 1,
			   sizeof(*regions->list)) < 0)
		return -ENOMEM;
	regions->list[regions->count++] = *region;
	return 0;
}

/* ------------------------------------------------------------------ regions of an arena */

/* Where regions of a main arena may be, if they are not contiguous. */
static bool may_have_regions(const struct limpet_map *map)
{
	return limpet_map_is_anonymous(map) && !strncmp(map->perms, "rw-p", 4);
}

static int scattered_regions(const struct heaps_reading *reading,
			     const struct limpet_glibc_state *state, struct regions *regions)
{
	int error = 0;

	for (size_t i = 0; i < reading->maps->count && !error; i++) {
		const struct limpet_map *map = &reading->maps->list[i];
		const bool has_top = state->top >= map->start && state->top < map->end;

		if (may_have_regions(map))
			error = add_region(regions, &(struct limpet_glibc_region){
							    .start = map->start,
							    .end = map->end,
							    .top = has_top ? state->top : 0,
							    .in_parts = true,
							    .is_main = true});
	}
	return error;
}

/* `in_parts`: there may be other memory between chunks. */
static int main_regions(const struct heaps_reading *reading, const struct limpet_glibc_state *state,
			bool in_parts, struct regions *regions)
{
	const struct limpet_glibc_found *found = &reading->found;
	const bool by_brk = state->top >= found->brk_start && state->top < found->brk_end;
	const uint64_t start =
		found->has_parameters ? found->parameters.heap_start : found->brk_start;
	int error = 0;

	if (!state->top)
		return 0;
	/* Only the first copy of the C library uses brk(2). */
	if (found->brk_end && (by_brk || found->count == 1))
		error = add_region(regions, &(struct limpet_glibc_region){
						    .start = align_up(start, ALIGNMENT),
						    .end = found->brk_end,
						    .top = by_brk ? state->top : 0,
						    .in_parts = in_parts,
						    .is_main = true,
						    .is_brk = true,
						    .top_step = found->parameters.top_step,
						    .shrinks = by_brk});
	/* If brk(2) fails, malloc takes memory by mmap(2). */
	if (!error && !state->contiguous)
		error = scattered_regions(reading, state, regions);
	return error;
}

struct heap_info {
	uint64_t arena, before, bytes, opened_bytes;
};

static int read_info(const struct heaps_reading *reading, uint64_t heap,
		     const struct limpet_glibc_state *state, uint64_t heap_bytes,
		     struct heap_info *ret_info)
{
	struct heap_info info;
	int error = limpet_memory_reader_read(reading->memory, heap, &info, sizeof(info));

	if (error)
		return error;
	if (info.arena != state->address || info.before % heap_bytes || info.bytes % PAGE ||
	    !info.bytes || info.bytes > info.opened_bytes || info.opened_bytes > heap_bytes)
		return -EBADMSG;
	*ret_info = info;
	return 0;
}

/* From the heap that holds the top back to the first, which holds the state. */
static int chain_of_heaps(const struct heaps_reading *reading,
			  const struct limpet_glibc_state *state, uint64_t heap_bytes,
			  struct regions *regions)
{
	const uint64_t first = state->address & ~(heap_bytes - 1), head = state->address - first;
	uint64_t heap = state->top & ~(heap_bytes - 1), top = state->top;

	/* Brent's search for circles; and together they are what the arena got. */
	uint64_t mark = 0, bytes = 0;
	unsigned wait = 64;

	if (head < sizeof(struct heap_info) || head > HEAP_HEAD_LIMIT_BYTES)
		return -EBADMSG;
	for (unsigned i = 0; i < HEAPS_LIMIT; i++) {
		struct heap_info info = {0};
		uint64_t start = heap == first ? state->end : heap + head;
		int error = read_info(reading, heap, state, heap_bytes, &info);

		if (!error)
			error = add_region(regions, &(struct limpet_glibc_region){
							    .start = align_up(start, ALIGNMENT),
							    .end = heap + info.bytes,
							    .top = top});
		if (error)
			return error;
		bytes += info.bytes;
		if (heap == mark || bytes > state->system_bytes + HEAP_SLACK_BYTES)
			return -EBADMSG;
		if (heap == first)
			return info.before ? -EBADMSG : 0;
		if (i == wait) {
			mark = heap;
			wait *= 2;
		}
		heap = info.before;
		top = 0;
	}
	return -EBADMSG;
}

static int other_regions(const struct heaps_reading *reading,
			 const struct limpet_glibc_state *state, struct regions *regions)
{
	int error = -EBADMSG;

	for (size_t i = 0; i < LIMPET_COUNT_OF(heap_sizes) && error == -EBADMSG; i++) {
		regions->count = 0;
		error = chain_of_heaps(reading, state, heap_sizes[i], regions);
	}
	if (error)
		regions->count = 0;
	return error;
}

/* ------------------------------------------------------------------ growth */

static bool read_end(const struct limpet_memory_reader *memory,
		     const struct limpet_glibc_arena *arena, uint64_t *ret_end)
{
	struct limpet_glibc_state state;
	uint64_t head;

	if (limpet_glibc_state_read_top(memory, arena->state.address, arena->state.layout, &state,
					&head) < 0 ||
	    !head)
		return false;
	*ret_end = state.top + (head & ~CHUNK_BITS);
	return true;
}

/* The one that ends where memory by brk(2) does; NULL: it got its last memory by mmap(2). */
static const struct limpet_glibc_arena *growing_arena(const struct limpet_glibc_heaps *heaps)
{
	for (size_t i = 0; i < heaps->range_count; i++) {
		const struct limpet_glibc_range *range = &heaps->ranges[i];
		const struct limpet_glibc_arena *arena = &heaps->list[range->arena];

		if (align_up(range->end, PAGE) == heaps->grown_start &&
		    (!arena->known ||
		     (arena->state.top >= range->start && arena->state.top < range->end)))
			return arena;
	}
	return NULL;
}

void limpet_glibc_heaps_refresh(const struct limpet_memory_reader *memory,
				struct limpet_glibc_heaps *heaps)
{
	struct limpet_glibc_wait wait = LIMPET_GLIBC_WAIT(LIMPET_GLIBC_WAIT_NS);
	const struct limpet_glibc_arena *arena = heaps->uses_brk ? growing_arena(heaps) : NULL;
	uint64_t end = UINT64_MAX;

	if (!arena)
		return;
	while (arena->known && !read_end(memory, arena, &end) && limpet_glibc_wait(&wait, memory))
		;
	/* If it does not settle, as in an arena that is not known, all of it may be the arena's. */
	if (end > heaps->grown_start)
		heaps->grown_end = end;
}

/* ------------------------------------------------------------------ one arena */

static int by_start(const void *a, const void *b)
{
	const struct limpet_glibc_region *left = a, *right = b;

	return left->start < right->start ? -1 : left->start > right->start;
}

static int read_present(const struct heaps_reading *reading, const struct regions *regions,
			struct limpet_present *present)
{
	present->count = 0;
	for (size_t i = 0; i < regions->count; i++) {
		uint64_t start = regions->list[i].start & ~(uint64_t)(PAGE - 1);
		int error =
			limpet_present_read(present, reading->pages, start, regions->list[i].end);

		if (error)
			return error;
	}
	return 0;
}

/* By brk(2) there may be others' memory behind the top. */
static int walk_region(struct limpet_glibc_reader *reader, const struct limpet_present *present,
		       struct limpet_glibc_region *region, const struct limpet_glibc_fast *fast,
		       struct limpet_glibc_regions *regions)
{
	struct limpet_glibc_figures figures;
	int error;

	if (region->in_parts)
		return limpet_glibc_regions_find(reader, present, region, fast, regions);
	error = limpet_glibc_walk(reader, present, region, fast, &figures);
	if (error)
		return error;
	limpet_glibc_figures_add(&regions->figures, &figures);
	region->end = figures.end;
	return 0;
}

/* Regions were searched for: together they have to be what the arena got from the system. Memory of
 * others between contiguous ones counts there, too. */
static bool is_whole(const struct limpet_glibc_state *state,
		     const struct limpet_glibc_regions *regions)
{
	uint64_t bytes = 0, slack = PAGE;

	for (size_t i = 0; i < regions->count; i++) {
		const bool with_gap = state->contiguous && i + 1 < regions->count;

		bytes += (with_gap ? regions->list[i + 1].start : regions->list[i].end) -
			 regions->list[i].start;
		slack += PAGE;
	}
	return regions->count && bytes <= state->system_bytes + slack &&
	       state->system_bytes <= bytes + slack;
}

/* Walks over all regions with one look at the lists. If regions had to be searched for, those
 * replace the regions. */
static int walk_regions(struct heaps_reading *reading, const struct limpet_present *present,
			struct regions *regions, const struct limpet_glibc_state *state,
			struct limpet_glibc_arena *arena)
{
	struct limpet_glibc_regions found = {0};
	struct limpet_glibc_fast fast = {0};
	struct limpet_glibc_reader *reader;
	const bool searched = regions->count && regions->list[0].in_parts;
	int error = limpet_glibc_reader_new(reading->memory, present, &reader);

	if (error)
		return error;
	error = limpet_glibc_fast_read(reader, state, &fast);
	limpet_glibc_reader_forget(reader);
	for (size_t i = 0; i < regions->count; i++) {
		regions->list[i].used = reading->used;
		regions->list[i].returns = reading->used ? NULL : &arena->returns;
		regions->list[i].stop = searched ? NULL : &reading->stop;
	}
	for (size_t i = 0; i < regions->count && !error; i++)
		error = walk_region(reader, present, &regions->list[i], &fast, &found);
	if (searched && !error && !is_whole(state, &found))
		error = -EBADMSG;
	if (searched && !error) {
		regions->count = 0;
		for (size_t i = 0; i < found.count && !error; i++)
			error = add_region(regions, &found.list[i]);
	}
	if (!error)
		arena->figures = found.figures;
	arena->fast_whole = fast.is_whole;
	limpet_glibc_fast_done(&fast);
	limpet_glibc_regions_done(&found);
	limpet_glibc_reader_free(reader);
	return error;
}

/* If regions were searched for in vain, most of the regions are others' memory. */
static void drop_guesses(struct regions *regions)
{
	size_t kept = 0;

	for (size_t i = 0; i < regions->count; i++)
		if (!regions->list[i].in_parts || regions->list[i].is_brk)
			regions->list[kept++] = regions->list[i];
	regions->count = kept;
}

static int add_range(struct limpet_glibc_heaps *heaps, const struct limpet_present *present,
		     const struct limpet_glibc_range *range)
{
	struct limpet_glibc_range *added;

	if (limpet_reserve(&heaps->ranges, &heaps->range_capacity, heaps->range_count + 1,
			   sizeof(*heaps->ranges)) < 0)
		return -ENOMEM;
	added = &heaps->ranges[heaps->range_count++];
	*added = *range;
	added->resident_bytes = limpet_present_bytes(present, range->start, range->end);
	return 0;
}

/* A region may be in several mappings: madvise(2) splits them. Two regions may share a page. */
static int add_ranges(struct heaps_reading *reading, const struct regions *regions,
		      const struct limpet_present *present, struct limpet_glibc_arena *arena)
{
	struct limpet_glibc_figures *figures = &arena->figures;
	struct limpet_glibc_heaps *heaps = reading->heaps;

	uint64_t before = 0;

	arena->regions = regions->count;
	figures->region_bytes = figures->resident_bytes = 0;
	for (size_t i = 0; i < regions->count; i++) {
		const uint64_t end = regions->list[i].end;
		uint64_t at = regions->list[i].start & ~(uint64_t)(PAGE - 1);

		at = at > before ? at : before;
		before = end > before ? end : before;
		if (at >= end)
			continue;
		if (regions->list[i].is_brk) {
			heaps->uses_brk = true;
			heaps->grown_start = heaps->grown_end = align_up(end, PAGE);
		}
		figures->region_bytes += end - at;
		figures->resident_bytes += limpet_present_bytes(present, at, end);
		while (at < end) {
			const struct limpet_map *map = limpet_proc_maps_find(reading->maps, at);
			uint64_t stop = map && map->end < end ? map->end : end;
			int error = add_range(
				heaps, present,
				&(struct limpet_glibc_range){.start = at,
							     .end = stop,
							     .chunks = regions->list[i].start,
							     .arena = heaps->count});

			if (error)
				return error;
			at = stop;
		}
	}
	return 0;
}

/* The heap may have grown since the mappings were read. */
static void reread_maps(struct heaps_reading *reading)
{
	struct limpet_maps maps;

	if (limpet_proc_maps_read(reading->target->pid, &maps) < 0)
		return;
	limpet_proc_maps_done(&reading->newer);
	reading->newer = maps;
	reading->maps = &reading->newer;
	limpet_glibc_find_brk(reading->maps, &reading->found);
}

/* The state is read again for each try: the process goes on meanwhile. */
static int try_arena(struct heaps_reading *reading, struct limpet_glibc_arena *arena, int try,
		     struct regions *regions, struct limpet_present *present)
{
	struct limpet_glibc_state state;
	uint64_t head;
	bool in_parts;
	int error = limpet_glibc_state_read_top(reading->memory, arena->state.address,
						arena->state.layout, &state, &head);

	reading->stop = (struct limpet_glibc_stop){.error = 0};
	if (error)
		return error;
	arena->state = state;
	regions->count = arena->returns.count = 0;
	arena->returns.is_cut = false;
	if (try && arena->is_main)
		reread_maps(reading);
	/* Others may have called sbrk(3), too: that is tried last. */
	in_parts = !state.contiguous || try >= TRIES / 2;
	error = arena->is_main ? main_regions(reading, &state, in_parts, regions)
			       : other_regions(reading, &state, regions);
	if (error)
		return error;
	for (size_t i = 0; i < regions->count; i++)
		regions->list[i].top_head = head;
	if (regions->count)
		qsort(regions->list, regions->count, sizeof(*regions->list), by_start);
	error = read_present(reading, regions, present);
	return error ? error : walk_regions(reading, present, regions, &state, arena);
}

static int add_arena(struct limpet_glibc_heaps *heaps, const struct limpet_glibc_arena *arena)
{
	if (limpet_reserve(&heaps->list, &heaps->capacity, heaps->count + 1, sizeof(*heaps->list)) <
	    0)
		return -ENOMEM;
	heaps->list[heaps->count++] = *arena;
	return 0;
}

static bool is_worth_a_try(int error)
{
	return error && error != -ENOMEM && error != -ESRCH && error != -ETIME;
}

/* Tries of a walk that fail at the same place with the same words. */
struct steadiness {
	struct limpet_glibc_stop first;
	unsigned same;
	bool differs;
};

/* Later tries search for regions, and walk over others' memory. */
static void note_try(struct steadiness *steadiness, int try, int error,
		     const struct limpet_glibc_stop *stop)
{
	const struct limpet_glibc_stop *first = &steadiness->first;

	if (!try)
		steadiness->first = *stop;
	if (!error || try >= TRIES / 2)
		return;
	if (stop->error && stop->chunk == first->chunk && stop->head == first->head &&
	    stop->error == first->error)
		steadiness->same++;
	else
		steadiness->differs = true;
}

static int try_until_known(struct heaps_reading *reading, struct limpet_glibc_arena *arena,
			   struct regions *regions, struct limpet_present *present)
{
	const uint64_t most =
		reading->wait_ns < LIMPET_GLIBC_WAIT_NS ? reading->wait_ns : LIMPET_GLIBC_WAIT_NS;
	const size_t listed = reading->used ? reading->used->count : 0;
	struct limpet_glibc_wait wait = LIMPET_GLIBC_WAIT(most);
	struct steadiness steadiness = {.same = 0};
	bool waited = false;
	int error = try_arena(reading, arena, 0, regions, present);

	note_try(&steadiness, 0, error, &reading->stop);
	for (int i = 1; i < (error == -ENODATA ? ABSENT_TRIES : TRIES) && is_worth_a_try(error);
	     i++) {
		waited |= limpet_glibc_wait(&wait, reading->memory);
		if (reading->used)
			reading->used->count = listed;
		error = try_arena(reading, arena, i, regions, present);
		note_try(&steadiness, i, error, &reading->stop);
	}
	arena->is_steady = error && waited && steadiness.same > 1 && !steadiness.differs &&
			   !limpet_memory_reader_is_spent(reading->memory);
	if (error && reading->used)
		reading->used->count = listed;
	reading->wait_ns -= most - wait.left_ns;
	return error;
}

static int read_arena(struct heaps_reading *reading, const struct limpet_glibc_state *state,
		      bool is_main)
{
	struct limpet_glibc_arena arena = {.state = *state, .is_main = is_main};
	struct limpet_glibc_heaps *heaps = reading->heaps;
	struct limpet_present present = {0};
	struct regions regions = {0};
	int error = try_until_known(reading, &arena, &regions, &present);

	arena.known = !error;
	arena.unread = error == -ENODATA ? LIMPET_UNREAD_ABSENT
		       : arena.is_steady ? LIMPET_UNREAD_BROKEN
		       : error == -ETIME ? LIMPET_UNREAD_LATE
					 : LIMPET_UNREAD_CHANGED;
	if (error) {
		drop_guesses(&regions);
		limpet_glibc_returns_done(&arena.returns);
	}
	if (error != -ENOMEM && error != -ESRCH)
		error = add_ranges(reading, &regions, &present, &arena);
	if (!error)
		error = add_arena(heaps, &arena);
	if (error)
		limpet_glibc_returns_done(&arena.returns);
	limpet_present_done(&present);
	free(regions.list);
	return error;
}

/* ------------------------------------------------------------------ arenas that cannot be read */

static int add_unread(struct limpet_glibc_heaps *heaps, uint64_t address)
{
	return add_arena(heaps, &(struct limpet_glibc_arena){.state.address = address,
							     .unread = LIMPET_UNREAD_ABSENT});
}

/* The main arena's state is swapped out, or that of another thing of glibc's: without memory from
 * brk(2) there is nothing to say. */
static int add_absent_main(struct heaps_reading *reading)
{
	struct limpet_glibc_arena arena = {.is_main = true, .unread = LIMPET_UNREAD_ABSENT};
	struct limpet_present present = {0};
	struct regions regions = {0};
	int error;

	if (!reading->found.brk_end)
		return 0;
	error = add_region(&regions,
			   &(struct limpet_glibc_region){.start = reading->found.brk_start,
							 .end = reading->found.brk_end,
							 .is_main = true,
							 .is_brk = true});
	if (!error)
		error = read_present(reading, &regions, &present);
	if (!error)
		error = add_ranges(reading, &regions, &present, &arena);
	if (!error)
		error = add_arena(reading->heaps, &arena);
	reading->heaps->is_cut = true;
	limpet_present_done(&present);
	free(regions.list);
	return error;
}

/* Without its head, a heap is the first one of an arena of which only the address may be known. */
static bool is_of(const struct limpet_glibc_orphan *orphan, const struct limpet_glibc_arena *arena)
{
	if (orphan->arena)
		return arena->state.address == orphan->arena;
	return !arena->is_main && arena->state.address >= orphan->start &&
	       arena->state.address - orphan->start < PAGE;
}

static int add_orphan(struct heaps_reading *reading, const struct limpet_glibc_orphan *orphan)
{
	struct limpet_glibc_heaps *heaps = reading->heaps;
	struct limpet_present present = {0};
	size_t at = 0;
	int error = 0;

	while (at < heaps->count && !is_of(orphan, &heaps->list[at]))
		at++;
	if (at == heaps->count)
		error = add_unread(heaps, orphan->arena);
	if (error || heaps->list[at].known)
		return error;
	error = limpet_present_read(&present, reading->pages, orphan->start, orphan->end);
	if (!error)
		error = add_range(heaps, &present,
				  &(struct limpet_glibc_range){.start = orphan->start,
							       .end = orphan->end,
							       .chunks = orphan->start,
							       .arena = at});
	if (!error) {
		heaps->list[at].regions++;
		heaps->list[at].figures.region_bytes += orphan->end - orphan->start;
		heaps->list[at].figures.resident_bytes +=
			limpet_present_bytes(&present, orphan->start, orphan->end);
	}
	limpet_present_done(&present);
	return error;
}

static bool is_covered(const struct limpet_glibc_heaps *heaps, uint64_t address)
{
	for (size_t i = 0; i < heaps->range_count; i++)
		if (address >= heaps->ranges[i].start && address < heaps->ranges[i].end)
			return true;
	return false;
}

/* If something of an arena could not be read, its heaps are searched for. */
static int add_orphans(struct heaps_reading *reading)
{
	struct limpet_glibc_orphan orphan = {0};
	bool needed = reading->heaps->is_cut;
	int error = 0;

	for (size_t i = 0; i < reading->heaps->count; i++)
		needed |= !reading->heaps->list[i].known;
	while (needed && !error &&
	       limpet_glibc_orphan_next(reading->memory, reading->maps, orphan.start + 1, &orphan))
		if (!is_covered(reading->heaps, orphan.start))
			error = add_orphan(reading, &orphan);
	return error;
}

/* ------------------------------------------------------------------ all */

static int read_copy(struct heaps_reading *reading, const struct limpet_glibc_state *main_arena)
{
	struct limpet_glibc_wait wait = LIMPET_GLIBC_WAIT(LIMPET_GLIBC_WAIT_NS);
	LIMPET_FREE struct limpet_glibc_state *list = NULL;
	uint64_t absent = 0;
	int count, error = 0;

	do
		count = limpet_glibc_arenas_read(reading->memory, main_arena, &list, &absent);
	while (is_worth_a_try(count < 0 ? count : 0) && limpet_glibc_wait(&wait, reading->memory));
	reading->heaps->is_cut |= count < 0 || absent;
	if (count < 0)
		return count == -ENOMEM ? count : read_arena(reading, main_arena, true);
	for (int i = 0; i < count && !error; i++)
		error = read_arena(reading, &list[i], i == 0);
	if (!error && absent)
		error = add_unread(reading->heaps, absent);
	return error;
}

static int read_all(struct heaps_reading *reading)
{
	enum limpet_glibc_library library;
	int error =
		limpet_glibc_find(reading->memory, reading->maps, reading->pages, &reading->found);

	for (size_t i = 0; i < reading->found.count && !error; i++)
		error = read_copy(reading, &reading->found.mains[i]);
	if (error)
		return error;
	library = limpet_glibc_find_library(reading->target, reading->memory, reading->maps);
	reading->heaps->has_library =
		library != LIMPET_GLIBC_NO_LIBRARY && reading->found.brk_end > 0;
	if (!reading->found.count && library == LIMPET_GLIBC_LIBRARY_ABSENT)
		error = add_absent_main(reading);
	return error ? error : add_orphans(reading);
}

static int range_by_start(const void *a, const void *b)
{
	const struct limpet_glibc_range *left = a, *right = b;

	return left->start < right->start ? -1 : left->start > right->start;
}

int limpet_glibc_heaps_read(const struct limpet_target *target,
			    const struct limpet_memory_reader *memory,
			    const struct limpet_maps *maps, struct limpet_pages *pages,
			    struct limpet_glibc_chunks *used, struct limpet_glibc_heaps *ret_heaps)
{
	struct limpet_glibc_heaps heaps = {0};
	struct heaps_reading reading = {.target = target,
					.memory = memory,
					.maps = maps,
					.pages = pages,
					.used = used,
					.heaps = &heaps,
					.wait_ns = WAIT_NS};
	int error = read_all(&reading);

	limpet_proc_maps_done(&reading.newer);
	if (error) {
		limpet_glibc_heaps_done(&heaps);
		return error;
	}
	if (heaps.range_count)
		qsort(heaps.ranges, heaps.range_count, sizeof(*heaps.ranges), range_by_start);
	heaps.mmapped_known = reading.found.has_parameters && reading.found.count == 1;
	heaps.mmapped_bytes = reading.found.parameters.mmapped_bytes;
	*ret_heaps = heaps;
	return 0;
}
