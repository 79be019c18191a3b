#include "injector/elf/thread_stacks.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/array.h"
#include "common/begins.h"
#include "injector/proc/tid_offset.h"

#define PAGE ((uint64_t)4096)
/* Guard pages of thread stacks: one page by default, a few in some runtimes. */
#define GUARD_LIMIT_BYTES ((uint64_t)1 << 20)
/* nptl/descr.h: a list of threads goes through their structures, right before the number. */
#define LIST_OFFSET (LIMPET_TID_OFFSET_GLIBC - 16)
#define THREADS_LIMIT 65536u
/* A list is lost if one of its threads ends meanwhile. */
#define TRIES 3u
/* The structure is at the top. */
#define TOP_LIMIT_BYTES ((uint64_t)64 << 10)
#define STACK_LEAST_BYTES ((uint64_t)8 << 10)
#define STACK_MOST_BYTES ((uint64_t)1 << 36)
/* From a stack pointer up to the top, and for all of them. */
#define PAGES_UP 2048u
#define PAGES_LIMIT 65536u

struct search {
	const struct limpet_thread_stacks_reading *reading;
	struct limpet_thread_stacks *stacks;
	uint64_t pages_left;
	unsigned threads_left;
	int error; /* -ENOMEM, or 0 */
};

void limpet_thread_stacks_done(struct limpet_thread_stacks *stacks)
{
	free(stacks->list);
	*stacks = (struct limpet_thread_stacks){0};
}

size_t limpet_thread_stacks_from(const struct limpet_thread_stacks *stacks, uint64_t address)
{
	/* cppcheck-suppress constStatement */
	return LIMPET_PARTITION_POINT(i, stacks->count, stacks->list[i].end <= address);
}

bool limpet_map_has_guard(const struct limpet_maps *maps, size_t i)
{
	const struct limpet_map *map = &maps->list[i], *guard = map - 1;

	return i && guard->end == map->start && limpet_map_is_anonymous(guard) &&
	       !strncmp(guard->perms, "---", 3) && guard->end - guard->start <= GUARD_LIMIT_BYTES;
}

/* nptl/allocatestack.c: struct pthread at the top, aligned to 64 bytes or more.
 * sysdeps/x86_64/nptl/tls.h: tcbhead_t contains its own address twice. */
static bool is_thread_at(const uint64_t *words, uint64_t address)
{
	return words[0] == address && words[2] == address;
}

uint64_t limpet_thread_stacks_thread_in(const uint64_t words[LIMPET_STACK_TOP_BYTES / 8],
					uint64_t top)
{
	const uint64_t start = top - LIMPET_STACK_TOP_BYTES;

	for (size_t i = 0; i + 2 < LIMPET_STACK_TOP_BYTES / 8; i += 8)
		if (is_thread_at(&words[i], start + 8 * i))
			return words[i];
	return 0;
}

/* ------------------------------------------------------------------ reading */

/* Not by process_vm_readv(2), which copies pages that are shared since a fork(2). */
static bool read_words(const struct search *search, uint64_t address, void *ret, size_t bytes)
{
	const struct limpet_thread_stacks_reading *reading = search->reading;
	const uint64_t start = address & ~(PAGE - 1);
	const uint64_t end = (address + bytes + PAGE - 1) & ~(PAGE - 1);
	struct limpet_page_range ranges[LIMPET_PAGES_RANGES];
	const struct limpet_map *map = limpet_proc_maps_find(reading->maps, address);
	uint64_t at;

	return map && map->perms[0] == 'r' && map->perms[3] == 'p' &&
	       !limpet_begins(map->path, "/dev/") && end > start && end <= map->end &&
	       limpet_pages_next(reading->pages, start, end, false, ranges, &at) == 1 &&
	       ranges[0].start == start && ranges[0].end == end &&
	       pread(reading->memory, ret, bytes, (off_t)address) == (ssize_t)bytes;
}

static bool is_thread(const struct search *search, uint64_t address)
{
	uint64_t words[3];

	return address % 64 == 0 && read_words(search, address, words, sizeof(words)) &&
	       is_thread_at(words, address);
}

/* What the thread's structure says, if that can be. */
static bool read_stack(const struct search *search, uint64_t thread,
		       struct limpet_thread_stack *ret_stack)
{
	const struct limpet_maps *maps = search->reading->maps;
	const struct limpet_map *map;
	uint64_t words[3], end;

	if (!read_words(search, thread + limpet_stack_offset_of(LIMPET_TID_OFFSET_GLIBC), words,
			sizeof(words)))
		return false;
	end = words[0] + words[1];
	if (words[1] < STACK_LEAST_BYTES || words[1] > STACK_MOST_BYTES || words[2] >= words[1] ||
	    words[0] > thread || end <= thread || end - thread > TOP_LIMIT_BYTES)
		return false;
	map = limpet_proc_maps_find(maps, words[0]);
	if (!map ||
	    end > maps->list[limpet_proc_maps_run(maps, (size_t)(map - maps->list), end)].end)
		return false;
	/* The program's own need not be whole pages. */
	*ret_stack = (struct limpet_thread_stack){(words[0] + PAGE - 1) & ~(PAGE - 1),
						  (end + PAGE - 1) & ~(PAGE - 1)};
	return true;
}

static void add(struct search *search, uint64_t thread)
{
	struct limpet_thread_stacks *stacks = search->stacks;
	struct limpet_thread_stack stack;

	if (search->error || !read_stack(search, thread, &stack))
		return;
	search->error = limpet_reserve(&stacks->list, &stacks->capacity, stacks->count + 1,
				       sizeof(*stacks->list));
	if (!search->error && stacks->list)
		stacks->list[stacks->count++] = stack;
}

/* ------------------------------------------------------------------ threads */

/* The first thread's structure above a stack pointer, or 0. */
static uint64_t thread_above(struct search *search, uint64_t stack_pointer)
{
	const struct limpet_map *map = limpet_proc_maps_find(search->reading->maps, stack_pointer);
	uint64_t page = stack_pointer & ~(PAGE - 1), words[PAGE / 8];

	if (!map || !limpet_map_is_anonymous(map))
		return 0;
	for (unsigned i = 0; i < PAGES_UP && page < map->end && search->pages_left; i++) {
		search->pages_left--;
		if (read_words(search, page, words, sizeof(words)))
			for (size_t k = 0; k < LIMPET_COUNT_OF(words); k += 8)
				if (is_thread_at(&words[k], page + 8 * k))
					return page + 8 * k;
		page += PAGE;
	}
	return 0;
}

/* From one node of a list of threads back to it. Returns its head, which is no thread; 0: none. */
static uint64_t follow(struct search *search, uint64_t first)
{
	uint64_t node = first, head = 0;

	do {
		if (!read_words(search, node, &node, sizeof(node)) || !search->threads_left)
			return head;
		search->threads_left--;
		if (is_thread(search, node - LIST_OFFSET))
			add(search, node - LIST_OFFSET);
		else if (head && head != node)
			return head;
		else
			head = node;
	} while (node != first);
	return head;
}

/* Three lists: of threads with stacks of glibc's, of threads with the program's, and of stacks that
 * are kept for new ones. Their heads are neighbours since glibc 2.34. */
static void follow_neighbours(struct search *search, uint64_t head)
{
	for (int i = -2; head && i <= 2; i++) {
		const uint64_t neighbour = head + (uint64_t)(int64_t)(16 * i);
		uint64_t node;

		if (i && read_words(search, neighbour, &node, sizeof(node)) && node != neighbour &&
		    is_thread(search, node - LIST_OFFSET))
			(void)follow(search, neighbour);
	}
}

/* In any order. */
static bool has(const struct limpet_thread_stacks *stacks, uint64_t address)
{
	for (size_t i = 0; i < stacks->count; i++)
		if (address >= stacks->list[i].start && address < stacks->list[i].end)
			return true;
	return false;
}

static int compare(const void *a, const void *b)
{
	const struct limpet_thread_stack *left = a, *right = b;

	return left->start < right->start ? -1 : left->start > right->start;
}

static void sort(struct limpet_thread_stacks *stacks)
{
	size_t kept = 0;

	if (stacks->count)
		qsort(stacks->list, stacks->count, sizeof(*stacks->list), compare);
	for (size_t i = 0; i < stacks->count; i++)
		if (!kept || stacks->list[i].start >= stacks->list[kept - 1].end)
			stacks->list[kept++] = stacks->list[i];
	stacks->count = kept;
}

int limpet_thread_stacks_read(const struct limpet_thread_stacks_reading *reading,
			      const uint64_t *stack_pointers, size_t count,
			      struct limpet_thread_stacks *ret_stacks)
{
	struct limpet_thread_stacks stacks = {0};
	struct search search = {.reading = reading,
				.stacks = &stacks,
				.pages_left = PAGES_LIMIT,
				.threads_left = THREADS_LIMIT};
	uint64_t head = 0;
	unsigned tries = 0;

	for (size_t i = 0; i < count; i++) {
		const uint64_t thread = has(&stacks, stack_pointers[i])
						? 0
						: thread_above(&search, stack_pointers[i]);

		if (!thread)
			continue;
		add(&search, thread);
		if (!head && tries++ < TRIES) {
			head = follow(&search, thread + LIST_OFFSET);
			follow_neighbours(&search, head);
		}
	}
	if (search.error) {
		limpet_thread_stacks_done(&stacks);
		return search.error;
	}
	sort(&stacks);
	*ret_stacks = stacks;
	return 0;
}
