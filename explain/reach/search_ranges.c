#include "explain/reach/search_ranges.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/begins.h"
#include "injector/elf/thread_stacks.h"
#include "injector/proc/memfd.h"
#include "injector/proc/target_process.h"

/* sysdeps/x86_64/nptl/tls.h, sysdeps/generic/dl-dtv.h: the second word of a thread's structure
 * points to the table of its modules' data: pairs of words, the first of which is the address; how
 * many there are is in the pair before. */
#define TABLE_WORD 8u
#define TABLE_LIMIT 4096u

void limpet_search_ranges_done(struct limpet_search_ranges *ranges)
{
	free(ranges->list);
	*ranges = (struct limpet_search_ranges){0};
}

int limpet_search_ranges_add(struct limpet_search_ranges *ranges,
			     const struct limpet_search_range *range)
{
	if (limpet_reserve(&ranges->list, &ranges->capacity, ranges->count + 1,
			   sizeof(*ranges->list)) < 0 ||
	    !ranges->list)
		return -ENOMEM;
	ranges->list[ranges->count++] = *range;
	return 0;
}

/* ------------------------------------------------------------------ mappings */

static bool is_private(const struct limpet_map *map)
{
	return map->perms[3] == 'p';
}

/* Not searched: a file that the process did not write to, which holds no pointers of this process;
 * and what a capture has there. */
static bool is_searched(const struct limpet_map *map)
{
	if (limpet_memory_reader_is_device(map->path) || limpet_memfd_is_ours(map->path))
		return false;
	if (!is_private(map))
		return map->perms[1] == 'w';
	return map->inode || limpet_map_is_anonymous(map) || !strcmp(map->path, "[heap]") ||
	       !strcmp(map->path, "[stack]") || limpet_begins(map->path, "[anon:");
}

/* From `at` on, one of these ranges or what lies before the next one. */
static const struct limpet_heap_range *range_at(const struct limpet_heap_ranges *ranges,
						uint64_t at, uint64_t *end)
{
	const struct limpet_heap_range *list = ranges->list;
	/* cppcheck-suppress constStatement */
	const size_t i = LIMPET_PARTITION_POINT(k, ranges->count, list[k].end <= at);

	if (i == ranges->count)
		return NULL;
	if (list[i].start > at) {
		*end = list[i].start < *end ? list[i].start : *end;
		return NULL;
	}
	*end = list[i].end < *end ? list[i].end : *end;
	return &list[i];
}

static bool has_blocks(const struct limpet_block_table *blocks, uint64_t start, uint64_t end)
{
	const size_t i = blocks->count ? limpet_block_table_from(blocks, start) : 0;

	return i < blocks->count && blocks->starts[i] < end;
}

static enum limpet_searched kind_of_other(const struct limpet_search_facts *facts,
					  const struct limpet_search_range *range)
{
	if (has_blocks(facts->blocks, range->start, range->end))
		return LIMPET_SEARCHED_MIXED;
	return range->own ? LIMPET_SEARCHED_DATA : LIMPET_SEARCHED_MEMORY;
}

static int add_map(const struct limpet_search_facts *facts, const struct limpet_map *map,
		   struct limpet_search_ranges *ranges)
{
	const bool is_main_stack = !strcmp(map->path, "[stack]");
	uint64_t end;
	int error = 0;

	for (uint64_t at = map->start; at < map->end && !error; at = end) {
		const struct limpet_heap_range *heap, *stack, *local;
		struct limpet_search_range range = {.start = at,
						    .own = map->inode && is_private(map),
						    .shared = !is_private(map)};

		end = map->end;
		heap = range_at(facts->heaps, at, &end);
		stack = range_at(facts->stacks, at, &end);
		local = range_at(facts->locals, at, &end);
		range.end = end;
		if (heap && heap->is_table)
			continue;
		range.kind = heap                     ? LIMPET_SEARCHED_HEAP
			     : local                  ? LIMPET_SEARCHED_LOCAL
			     : stack || is_main_stack ? LIMPET_SEARCHED_STACK
						      : kind_of_other(facts, &range);
		error = limpet_search_ranges_add(ranges, &range);
	}
	return error;
}

int limpet_search_ranges_make(const struct limpet_search_facts *facts,
			      struct limpet_search_ranges *ret_ranges)
{
	struct limpet_search_ranges ranges = {0};
	int error = 0;

	for (size_t i = 0; i < facts->maps->count && !error; i++) {
		const struct limpet_map *map = &facts->maps->list[i];

		if (limpet_begins(map->path, "/secretmem"))
			ranges.secret_bytes += map->end - map->start;
		else if (is_searched(map))
			error = add_map(facts, map, &ranges);
	}
	if (error)
		limpet_search_ranges_done(&ranges);
	else
		*ret_ranges = ranges;
	return error;
}

/* ------------------------------------------------------------------ stacks */

void limpet_search_stacks_done(struct limpet_search_stacks *stacks)
{
	limpet_heap_ranges_done(&stacks->stacks);
	limpet_heap_ranges_done(&stacks->locals);
}

/* Where thread-local data of modules begins, which lies right below the thread's structure. */
static uint64_t local_start(const struct limpet_memory_reader *memory, uint64_t thread,
			    uint64_t stack_start)
{
	uint64_t table, count, address, start = thread;

	if (!limpet_memory_reader_read_word(memory, thread + TABLE_WORD, &table) ||
	    !limpet_memory_reader_read_word(memory, table - 16, &count))
		return start;
	for (uint64_t i = 1; i <= count && i < TABLE_LIMIT; i++)
		if (limpet_memory_reader_read_word(memory, table + 16 * i, &address) &&
		    address >= stack_start && address < start)
			start = address;
	return start & ~(uint64_t)7;
}

static int add_stack(const struct limpet_memory_reader *memory,
		     const struct limpet_thread_stack *stack, struct limpet_search_stacks *stacks)
{
	uint64_t words[LIMPET_STACK_TOP_BYTES / 8], thread = 0;
	int error = limpet_heap_ranges_add(&stacks->stacks, stack->start, stack->end, false);

	if (stack->end - stack->start >= sizeof(words) &&
	    limpet_memory_reader_read(memory, stack->end - sizeof(words), words, sizeof(words)) ==
		    0)
		thread = limpet_thread_stacks_thread_in(words, stack->end);
	if (!error && thread)
		error = limpet_heap_ranges_add(&stacks->locals,
					       local_start(memory, thread, stack->start),
					       stack->end, false);
	return error;
}

static int list_stack_pointers(const struct limpet_target *target, uint64_t **ret_list)
{
	LIMPET_FREE pid_t *tids = NULL;
	const int tasks = limpet_proc_tasks(target->pid, &tids);
	int count = 0;

	if (tasks < 0)
		return tasks;
	*ret_list = calloc((size_t)tasks + 1, sizeof(**ret_list));
	for (int i = 0; i < tasks && *ret_list; i++) {
		struct limpet_proc_syscall call;

		if (limpet_proc_syscall_read(target->pid, tids[i], &call) == 0 && !call.running)
			(*ret_list)[count++] = call.sp;
	}
	return *ret_list ? count : -ENOMEM;
}

int limpet_search_stacks_read(const struct limpet_target *target,
			      const struct limpet_memory_reader *memory,
			      const struct limpet_maps *maps, struct limpet_pages *pages,
			      struct limpet_search_stacks *ret_stacks)
{
	LIMPET_CLOSE int fd = limpet_proc_open(target, "mem", O_RDONLY);
	LIMPET_FREE uint64_t *pointers = NULL;
	const struct limpet_thread_stacks_reading reading = {
		.maps = maps, .pages = pages, .memory = fd};
	struct limpet_search_stacks stacks = {{0}, {0}};
	struct limpet_thread_stacks found = {0};
	int error, count = list_stack_pointers(target, &pointers);

	if (fd < 0 || count < 0)
		return fd < 0 ? fd : count;
	error = limpet_thread_stacks_read(&reading, pointers, (size_t)count, &found);
	for (size_t i = 0; i < found.count && !error; i++)
		error = add_stack(memory, &found.list[i], &stacks);
	limpet_thread_stacks_done(&found);
	if (error)
		limpet_search_stacks_done(&stacks);
	else
		*ret_stacks = stacks;
	return error;
}
