#include "injector/elf/memory_owners.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "common/array.h"
#include "common/base_name.h"
#include "common/begins.h"
#include "injector/elf/allocator_texts.h"
#include "injector/elf/elf_file.h"
#include "injector/elf/preflight_allocators.h"
#include "injector/proc/memfd.h"
#include "injector/proc/memory.h"
#include "injector/proc/pages.h"
#include "injector/proc/target_process.h"

/* malloc/arena.c: a heap of a secondary arena is a region of HEAP_MAX_SIZE, aligned to it, that
 * begins with struct heap_info. */
#define HEAP_BYTES ((uint64_t)64 << 20)
#define HEAP_HEAD_LIMIT_BYTES ((uint64_t)256)
/* malloc/malloc.c: a block with a mapping of its own has this flag in the head of its chunk. */
#define CHUNK_IS_MMAPPED ((uint64_t)2)
#define CHUNK_BITS ((uint64_t)7)
/* A stack without a guard page and without a thread's structure may be a coroutine's, or that of
 * signals: a larger mapping has other things, too. */
#define BARE_STACK_LIMIT_BYTES ((uint64_t)1 << 20)
#define DEFAULT_STACK_BYTES ((uint64_t)8 << 20) /* with a page for a guard */
#define STACK_SIZES 8u
#define TASKS_LIMIT 4096
/* How many pages' first words are read, 512 MiB of pages: what is left then is unknown. Large
 * mappings, which are probably of one kind, come last. */
#define HEADS_LIMIT ((uint64_t)128 << 10)
#define LARGE_BYTES ((uint64_t)64 << 20)
/* How often mappings are read again for what looks like a block that has grown. */
#define MAPS_LIMIT 64u
#define HEAD_WORDS 4u
/* In larger mappings it takes too long to read which pages exist if PAGEMAP_SCAN is missing: they
 * are left out. */
#define READ_LIMIT_BYTES ((uint64_t)16 << 30)
/* What compilers map for their code: HotSpot 240 MiB at most, V8 128 MiB. JavaScriptCore maps 1 GiB
 * at once, and uses little of it. A runtime that does not keep code and data apart, such as SBCL,
 * maps its whole heap in the same way. */
#define CODE_MAPPED_BYTES ((uint64_t)256 << 20)
#define CODE_USED_BYTES ((uint64_t)64 << 20)

struct reading {
	const struct limpet_target *target;
	const struct limpet_memory_owners_options *options;
	struct limpet_maps maps;
	struct limpet_pages *pages;
	int memory; /* /proc/PID/mem */
	struct limpet_memory *out;
	uint64_t page_bytes;
	uint64_t heads_left;
	unsigned maps_left;
	uint64_t run_end;   /* of the run of maps that is counted, see limpet_proc_maps_run() */
	uint64_t code_left; /* how much more of the run's executable memory is taken for code */
	uint64_t *stack_pointers; /* of threads that sleep; unsorted */
	size_t stack_pointer_count;
	uint64_t stack_sizes[STACK_SIZES]; /* sizes of stacks that were seen */
	size_t stack_size_count;
	struct limpet_thread_stacks stacks;
};

static void count(struct reading *reading, enum limpet_memory_account account, uint64_t start,
		  uint64_t end)
{
	reading->out->bytes[account] += end - start;
	if (reading->options->visit)
		reading->options->visit(reading->options->context, account, start, end);
}

/* ------------------------------------------------------------------ glibc's heaps */

/* The bytes that the heap at this address has in use; 0: there is no heap. Its first word points to
 * its arena's state, which directly follows a head: its own, or that of the arena's first heap. */
static uint64_t heap_at(const struct reading *reading, uint64_t address,
			const uint64_t head[HEAD_WORDS])
{
	uint64_t state = head[0], before = head[1], bytes = head[2], opened = head[3];

	if (address % HEAP_BYTES || !(state % HEAP_BYTES) ||
	    state % HEAP_BYTES > HEAP_HEAD_LIMIT_BYTES || before % HEAP_BYTES ||
	    (!before) != (state - state % HEAP_BYTES == address))
		return 0;
	if (!bytes || bytes > opened || opened > HEAP_BYTES || opened % reading->page_bytes ||
	    bytes % 16 || !limpet_proc_maps_find(&reading->maps, state))
		return 0;
	return opened;
}

/* Whether a block may have become larger than what was listed of mappings, or counted by glibc,
 * before: one mapping holds all of it now. */
static bool has_grown(struct reading *reading, uint64_t address, uint64_t bytes)
{
	const struct limpet_memory_owners_options *options = reading->options;
	const uint64_t edges[] = {address, address + bytes - 1};
	struct limpet_map maps[2];

	if (edges[1] < address || !reading->maps_left ||
	    (options->blocks_known && bytes / 2 > options->blocks_bytes))
		return false;
	reading->maps_left--;
	return limpet_proc_maps_at(reading->target->pid, edges, 2, maps) == 0 && maps[0].end &&
	       maps[0].start == maps[1].start;
}

/* The size of a block with a mapping of its own at this address; 0: there is none. The program may
 * have split the mapping. */
static uint64_t chunk_at(struct reading *reading, uint64_t address, const uint64_t head[HEAD_WORDS])
{
	const struct limpet_memory_owners_options *options = reading->options;
	uint64_t bytes = head[1] & ~CHUNK_BITS;

	if (head[0] || (head[1] & CHUNK_BITS) != CHUNK_IS_MMAPPED || !bytes ||
	    bytes % reading->page_bytes)
		return 0;
	if ((bytes > reading->run_end - address ||
	     (options->blocks_known && bytes > options->blocks_bytes)) &&
	    !has_grown(reading, address, bytes))
		return 0;
	return bytes;
}

/* ------------------------------------------------------------------ stacks */

static bool is_present(const struct reading *reading, uint64_t start, uint64_t end)
{
	struct limpet_page_range ranges[LIMPET_PAGES_RANGES];
	uint64_t at;

	return limpet_pages_next(reading->pages, start, end, false, ranges, &at) == 1 &&
	       ranges[0].start == start && ranges[0].end == end;
}

/* Not by process_vm_readv(2): see headed_part(). */
static bool has_thread_below(const struct reading *reading, uint64_t top, uint64_t low)
{
	uint64_t words[LIMPET_STACK_TOP_BYTES / 8];

	return top >= low + sizeof(words) && is_present(reading, top - sizeof(words), top) &&
	       pread(reading->memory, words, sizeof(words), (off_t)(top - sizeof(words))) ==
		       (ssize_t)sizeof(words) &&
	       limpet_thread_stacks_thread_in(words, top);
}

static void read_stack_pointers(struct reading *reading)
{
	LIMPET_FREE pid_t *tids = NULL;
	int tasks = limpet_proc_tasks(reading->target->pid, &tids);

	if (tasks > TASKS_LIMIT)
		tasks = TASKS_LIMIT;
	if (tasks <= 0)
		return;
	reading->stack_pointers = calloc((size_t)tasks, sizeof(*reading->stack_pointers));
	for (int i = 0; i < tasks && reading->stack_pointers; i++) {
		LIMPET_FREE char *text = NULL;
		size_t bytes;
		char *at;

		/* The number, six arguments, the stack pointer, the program counter. */
		if (limpet_proc_file_read(tids[i], "syscall", &text, &bytes) < 0)
			continue;
		at = strrchr(text, ' ');
		while (at && at > text && at[-1] != ' ')
			at--;
		if (at && at > text)
			reading->stack_pointers[reading->stack_pointer_count++] =
				strtoull(at, NULL, 16);
	}
}

static bool has_stack_pointer(const struct reading *reading, uint64_t start, uint64_t end)
{
	for (size_t i = 0; i < reading->stack_pointer_count; i++)
		if (reading->stack_pointers[i] >= start && reading->stack_pointers[i] < end)
			return true;
	return false;
}

static void remember_size(struct reading *reading, uint64_t bytes)
{
	for (size_t i = 0; i < reading->stack_size_count; i++)
		if (reading->stack_sizes[i] == bytes)
			return;
	if (reading->stack_size_count < STACK_SIZES)
		reading->stack_sizes[reading->stack_size_count++] = bytes;
}

/* ------------------------------------------------------------------ parts of mappings */

/* What is known about a part of a mapping, from `start` on. */
struct part {
	uint64_t end; /* 0: nothing is known */
	enum limpet_memory_account account;
};

/* The stack of a known thread. */
static struct part stack_part(const struct reading *reading, uint64_t address)
{
	const struct limpet_thread_stacks *stacks = &reading->stacks;
	const size_t i = limpet_thread_stacks_from(stacks, address);

	if (i == stacks->count || stacks->list[i].start > address)
		return (struct part){0, LIMPET_MEMORY_UNKNOWN};
	return (struct part){stacks->list[i].end, LIMPET_MEMORY_STACKS};
}

/* From ranges that are known without reading memory. */
static struct part listed_part(const struct reading *reading, uint64_t address)
{
	const struct limpet_module *module =
		limpet_modules_find(reading->options->modules, address);

	/* Nothing else is in its last page. */
	if (module)
		return (struct part){(module->end + reading->page_bytes - 1) &
					     ~(reading->page_bytes - 1),
				     LIMPET_MEMORY_FILES};
	return stack_part(reading, address);
}

/* Judges by the first words of the page. They are read page by page: process_vm_readv(2) would read
 * many at once, but it copies pages that are shared since a fork(2), and for a page that was given
 * back meanwhile it waits without end for whoever serves a userfaultfd. */
static struct part headed_part(struct reading *reading, uint64_t address)
{
	uint64_t head[HEAD_WORDS], bytes;

	if (!reading->heads_left)
		return (struct part){0, LIMPET_MEMORY_UNKNOWN};
	reading->heads_left--;
	if (pread(reading->memory, head, sizeof(head), (off_t)address) != (ssize_t)sizeof(head))
		return (struct part){0, LIMPET_MEMORY_UNKNOWN};
	bytes = heap_at(reading, address, head);
	if (!bytes)
		bytes = chunk_at(reading, address, head);
	return (struct part){bytes ? address + bytes : 0, LIMPET_MEMORY_HEAP};
}

/* ------------------------------------------------------------------ stacks by their mappings */

static bool begins_with_head(struct reading *reading, const struct limpet_map *map)
{
	return !reading->options->judge_none &&
	       is_present(reading, map->start, map->start + reading->page_bytes) &&
	       headed_part(reading, map->start).end;
}

/* The end of the stack at the beginning of this mapping, which contains none that is known; its
 * start if there is none. Other memory may have been mapped right above the stack, and is then part
 * of the same mapping. */
static uint64_t stack_end(struct reading *reading, size_t i)
{
	const struct limpet_map *map = &reading->maps.list[i];
	bool has_a_guard = limpet_map_has_guard(&reading->maps, i);

	if (has_a_guard && has_thread_below(reading, map->end, map->start)) {
		remember_size(reading, map->end - map->start);
		return map->end;
	}
	for (size_t k = 0; has_a_guard && k < reading->stack_size_count; k++) {
		uint64_t end = map->start + reading->stack_sizes[k];

		if (end < map->end && has_thread_below(reading, end, map->start))
			return end;
	}
	if (map->end - map->start <=
		    (has_a_guard ? LIMPET_STACK_LIMIT_BYTES : BARE_STACK_LIMIT_BYTES) &&
	    has_stack_pointer(reading, map->start, map->end) && !begins_with_head(reading, map))
		return map->end;
	return map->start;
}

/* ------------------------------------------------------------------ mappings */

/* Counts existing pages of one mapping. `part` is the part of the page before. */
static void count_range(struct reading *reading, uint64_t at, uint64_t end, struct part *part)
{
	while (at < end) {
		uint64_t bytes = reading->page_bytes;
		bool known;

		if (at >= part->end)
			*part = listed_part(reading, at);
		if (at >= part->end && !reading->options->judge_none)
			*part = headed_part(reading, at);
		known = at < part->end;
		if (known)
			bytes = (part->end < end ? part->end : end) - at;
		count(reading, known ? part->account : LIMPET_MEMORY_UNKNOWN, at, at + bytes);
		at += bytes;
	}
}

/* Of executable memory. */
static void count_code(struct reading *reading, uint64_t start, uint64_t end)
{
	const uint64_t bytes = end - start,
		       code = bytes < reading->code_left ? bytes : reading->code_left;

	reading->code_left -= code;
	if (code)
		count(reading, LIMPET_MEMORY_CODE, start, start + code);
	if (code < bytes)
		count(reading, LIMPET_MEMORY_UNKNOWN, start + code, end);
}

/* Of [start, end) of a mapping. `account` is that of all of it. UNKNOWN: it begins with *part, the
 * rest is judged by its contents, and *part becomes the last part. */
static void count_pages(struct reading *reading, uint64_t start, uint64_t end,
			enum limpet_memory_account account, struct part *part)
{
	struct limpet_page_range ranges[LIMPET_PAGES_RANGES];

	for (uint64_t at = start; at < end;) {
		int found;

		/* The answer is known once it was tried. */
		if (!limpet_pages_can_scan(reading->pages) && end - start >= READ_LIMIT_BYTES)
			return;
		found = limpet_pages_next(reading->pages, at, end, false, ranges, &at);
		if (found < 0)
			return;
		for (int i = 0; i < found; i++)
			if (account == LIMPET_MEMORY_UNKNOWN)
				count_range(reading, ranges[i].start, ranges[i].end, part);
			else if (account == LIMPET_MEMORY_CODE)
				count_code(reading, ranges[i].start, ranges[i].end);
			else
				count(reading, account, ranges[i].start, ranges[i].end);
	}
}

static bool has_known_stack(const struct reading *reading, const struct limpet_map *map)
{
	const struct limpet_thread_stacks *stacks = &reading->stacks;
	const size_t i = limpet_thread_stacks_from(stacks, map->start);

	return i < stacks->count && stacks->list[i].start < map->end;
}

/* Memory without any access is reserved address space, or of what goes on, or of blocks that the
 * program has closed: these are looked for right behind what was there before. */
static void count_closed(struct reading *reading, const struct limpet_map *map, struct part *part)
{
	uint64_t end;

	for (uint64_t at = map->start; at < map->end; at = end) {
		if (at >= part->end) {
			if (reading->options->judge_none ||
			    !is_present(reading, at, at + reading->page_bytes))
				return;
			*part = headed_part(reading, at);
			if (!part->end)
				return;
		}
		end = part->end < map->end ? part->end : map->end;
		count_pages(reading, at, end, LIMPET_MEMORY_UNKNOWN, part);
	}
}

/* `part`: the last one of the mapping right before, which may go on here. */
static void count_private(struct reading *reading, size_t i, struct part *part)
{
	const struct limpet_map *map = &reading->maps.list[i];

	if (limpet_begins(map->perms, "---")) {
		count_closed(reading, map, part);
		return;
	}
	if (part->end <= map->start) {
		*part = listed_part(reading, map->start);
		if (!part->end && !has_known_stack(reading, map))
			*part = (struct part){stack_end(reading, i), LIMPET_MEMORY_STACKS};
	}
	count_pages(reading, map->start, map->end, LIMPET_MEMORY_UNKNOWN, part);
}

/* glibc 2.38 can name its own mappings (glibc.mem.decorate_maps). */
static enum limpet_memory_account named_account(const char *path)
{
	if (limpet_begins(path, "[anon: glibc: malloc"))
		return LIMPET_MEMORY_HEAP;
	if (limpet_begins(path, "[anon: glibc: pthread"))
		return LIMPET_MEMORY_STACKS;
	if (limpet_begins(path, "[anon: glibc: "))
		return LIMPET_MEMORY_FILES;
	return LIMPET_MEMORY_NAMED;
}

/* LIMPET_MEMORY_UNKNOWN: depends on its contents; FILES and SHARED are counted differently. */
static enum limpet_memory_account account_of(const struct limpet_map *map)
{
	if (limpet_memfd_is_ours(map->path))
		return LIMPET_MEMORY_OWN;
	if (map->perms[3] == 's')
		return LIMPET_MEMORY_SHARED;
	if (map->inode)
		return LIMPET_MEMORY_FILES;
	if (!strcmp(map->path, "[heap]"))
		return LIMPET_MEMORY_HEAP;
	if (!strcmp(map->path, "[stack]"))
		return LIMPET_MEMORY_STACKS;
	if (limpet_begins(map->path, "[anon:"))
		return named_account(map->path);
	if (map->path[0])
		return LIMPET_MEMORY_FILES; /* [vdso] and the like */
	return map->perms[2] == 'x' ? LIMPET_MEMORY_CODE : LIMPET_MEMORY_UNKNOWN;
}

/* As limpet_session_resident_bytes() does: all that is present, also of the file alone. */
static void count_own(struct reading *reading, const struct limpet_map *map)
{
	uint64_t bytes;

	if (limpet_pages_count(reading->target, map->start, map->end - map->start, &bytes, NULL) ==
	    0)
		reading->out->bytes[LIMPET_MEMORY_OWN] += bytes;
}

static void count_map(struct reading *reading, size_t i, struct part *part)
{
	const struct limpet_map *map = &reading->maps.list[i];
	enum limpet_memory_account account = account_of(map);

	if (account == LIMPET_MEMORY_SHARED || account == LIMPET_MEMORY_FILES)
		return;
	if (account == LIMPET_MEMORY_UNKNOWN)
		count_private(reading, i, part);
	else if (account == LIMPET_MEMORY_OWN)
		count_own(reading, map);
	else if (map->perms[0] == 'r')
		count_pages(reading, map->start, map->end, account, part);
}

static uint64_t status_bytes(const char *text, const char *key)
{
	const char *at = strstr(text, key);

	return at ? strtoull(at + strlen(key), NULL, 10) * 1024 : 0;
}

/* The rest belongs to files and modules, which may map terabytes. The kernel's sums are of another
 * moment. */
static int settle(struct reading *reading)
{
	uint64_t *bytes = reading->out->bytes, counted = 0;
	LIMPET_FREE char *text = NULL;
	size_t length;
	int error = limpet_proc_file_read(limpet_proc_resident(reading->target->pid), "status",
					  &text, &length);

	if (error)
		return error;
	bytes[LIMPET_MEMORY_RSS] = status_bytes(text, "\nVmRSS:");
	bytes[LIMPET_MEMORY_SHARED] = status_bytes(text, "\nRssShmem:");
	bytes[LIMPET_MEMORY_SHARED] -= bytes[LIMPET_MEMORY_OWN] < bytes[LIMPET_MEMORY_SHARED]
					       ? bytes[LIMPET_MEMORY_OWN]
					       : bytes[LIMPET_MEMORY_SHARED];
	for (unsigned i = LIMPET_MEMORY_UNKNOWN; i < LIMPET_MEMORY_ACCOUNTS; i++)
		counted += bytes[i];
	if (counted < bytes[LIMPET_MEMORY_RSS])
		bytes[LIMPET_MEMORY_FILES] += bytes[LIMPET_MEMORY_RSS] - counted;
	if (bytes[LIMPET_MEMORY_UNKNOWN] > bytes[LIMPET_MEMORY_RSS])
		bytes[LIMPET_MEMORY_UNKNOWN] = bytes[LIMPET_MEMORY_RSS];
	reading->out->known = true;
	return 0;
}

static bool has_glibc(const struct limpet_maps *maps)
{
	for (size_t i = 0; i < maps->count; i++) {
		const char *name = strrchr(maps->list[i].path, '/');

		if (name && (limpet_begins(name, "/libc.so.6") || limpet_begins(name, "/libc-2.")))
			return true;
	}
	return false;
}

/* Whether one of these maps is. */
static bool is_large(const struct limpet_map *first, const struct limpet_map *last)
{
	while (first < last && first->end - first->start < LARGE_BYTES)
		first++;
	return first->end - first->start >= LARGE_BYTES;
}

/* Whether the run goes on where a file ends that is writable and executable, and no module: a heap
 * that was saved, such as sbcl.core. */
static bool follows_image(const struct reading *reading, const struct limpet_map *first)
{
	const struct limpet_map *before = first - 1;

	return first > reading->maps.list && before->inode && before->end == first->start &&
	       !strcmp(before->perms, "rwxp") &&
	       !limpet_modules_find(reading->options->modules, first->start);
}

/* How much of a run of maps is code if it is executable. What is writable, too, may be a heap. A
 * collector may have closed parts of that to writes, to see them. */
static uint64_t code_in_run(const struct reading *reading, const struct limpet_map *first,
			    const struct limpet_map *last)
{
	bool writable = false;
	uint64_t bytes = 0;

	for (const struct limpet_map *map = first; map <= last; map++)
		if (map->perms[2] == 'x') {
			bytes += map->end - map->start;
			writable |= map->perms[1] == 'w';
		}
	if (writable && follows_image(reading, first))
		return 0;
	return writable && bytes > CODE_MAPPED_BYTES ? CODE_USED_BYTES : UINT64_MAX;
}

/* What one map ends with may go on in the next one of its run. */
static void count_runs(struct reading *reading, bool large)
{
	const struct limpet_map *list = reading->maps.list;
	size_t last;

	for (size_t first = 0; first < reading->maps.count; first = last + 1) {
		struct part part = {0, LIMPET_MEMORY_UNKNOWN};

		last = limpet_proc_maps_run(&reading->maps, first, UINT64_MAX);
		if (is_large(&list[first], &list[last]) != large)
			continue;
		reading->run_end = list[last].end;
		reading->code_left = code_in_run(reading, &list[first], &list[last]);
		for (size_t i = first; i <= last; i++)
			count_map(reading, i, &part);
	}
}

static int find_stacks(struct reading *reading)
{
	const struct limpet_thread_stacks_reading from = {
		.maps = &reading->maps, .pages = reading->pages, .memory = reading->memory};

	read_stack_pointers(reading);
	return limpet_thread_stacks_read(&from, reading->stack_pointers,
					 reading->stack_pointer_count, &reading->stacks);
}

static int read_owners(struct reading *reading)
{
	int error = limpet_pages_new(reading->target, LIMPET_PAGES_SCAN, &reading->pages);

	if (error)
		return error;
	limpet_pages_leave_out_swapped(reading->pages);
	reading->memory = limpet_proc_open(reading->target, "mem", O_RDONLY);
	remember_size(reading, DEFAULT_STACK_BYTES - reading->page_bytes);
	error = find_stacks(reading);
	if (!error) {
		count_runs(reading, false);
		count_runs(reading, true);
		error = settle(reading);
	}
	if (!error && reading->options->ret_stacks)
		*reading->options->ret_stacks = reading->stacks;
	else
		limpet_thread_stacks_done(&reading->stacks);
	free(reading->stack_pointers);
	if (reading->memory >= 0)
		close(reading->memory);
	limpet_pages_free(reading->pages);
	return error;
}

int limpet_memory_owners_read(const struct limpet_target *target,
			      const struct limpet_memory_owners_options *options,
			      struct limpet_memory *ret)
{
	struct limpet_memory memory = {.known = false};
	struct reading reading = {.target = target,
				  .options = options,
				  .out = &memory,
				  .page_bytes = (uint64_t)sysconf(_SC_PAGESIZE),
				  .heads_left = HEADS_LIMIT,
				  .maps_left = MAPS_LIMIT};
	int error = limpet_proc_maps_read(reading.target->pid, &reading.maps);

	if (error)
		return error;
	if (options->has_glibc || options->judge_none || has_glibc(&reading.maps))
		error = read_owners(&reading);
	else
		error = -ENOTSUP;
	limpet_proc_maps_done(&reading.maps);
	if (!error)
		*ret = memory;
	return error;
}

/* ------------------------------------------------------------------ names */

static const char *name_of(const struct limpet_target *target, const struct limpet_module *module)
{
	LIMPET_CLOSE int fd = limpet_module_open(target, module);
	struct limpet_elf_file *file;
	const char *name;

	if (fd < 0 || limpet_elf_file_open(fd, &file) < 0)
		return NULL;
	name = limpet_allocator_texts_find(file);
	limpet_elf_file_free(file);
	return name;
}

static void add_file(struct limpet_owner_files *files, const char *path)
{
	const size_t length = strlen(path);

	if (files->count < LIMPET_COUNT_OF(files->paths) && length < sizeof(files->paths[0]))
		memcpy(files->paths[files->count++], path, length + 1);
}

void limpet_memory_owners_name(const struct limpet_modules *modules,
			       const struct limpet_owners_followed *followed, const char *runtime,
			       struct limpet_owner_files *files, char *ret, size_t room)
{
	const char *the = limpet_runtime_article(runtime);
	const size_t wanted =
		runtime[0] ? strlen(", the heap of ") + strlen(the) + strlen(runtime) : 0;
	const size_t left = room > wanted ? room - wanted : 0;
	char named[LIMPET_SHORT_PLACE_BYTES];
	size_t used = 0;

	ret[0] = '\0';
	for (size_t i = 0; i < modules->count && used < left; i++) {
		const struct limpet_module *module = &modules->list[i];
		const char *slash = strrchr(module->path, '/'), *name;
		int length;

		if (!slash || module->agent || module->loader || module->vdso ||
		    limpet_allocator_of_library(module->path) ||
		    limpet_begins(slash, "/libc.so.6") ||
		    (followed && followed->is_in(followed->context, module)))
			continue;
		name = name_of(modules->target, module);
		if (!name)
			continue;
		length = snprintf(ret + used, left - used, "%s%s in %s", used ? ", " : "", name,
				  limpet_short_place(module->path, named));
		/* Add a name completely or not at all. */
		if ((size_t)length >= left - used)
			break;
		used += (size_t)length;
		if (files)
			add_file(files, module->path);
	}
	ret[used] = '\0';
	if (wanted && wanted < room)
		snprintf(ret + used, room - used, "%sthe heap of %s%s", used ? ", " : "", the,
			 runtime);
}
