#include "explain/mappings.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "common/array.h"
#include "common/begins.h"
#include "explain/runtimes.h"
#include "injector/proc/memfd.h"

#define NEIGHBOURS 8u
#define WASM_PAGE_BYTES (64u << 10)
#define WASM_LIMIT_BYTES ((uint64_t)4 << 30)

struct mapping {
	const struct limpet_map *map;
	uint64_t rss_bytes, anonymous_bytes;
	uint64_t shared_bytes; /* with other processes */
	bool locked;           /* mlock(2): madvise(2) does not give it back */
	uint64_t left_bytes;   /* of them, not yet added to an account */
	uint64_t block_bytes;  /* of them, in what looks like large blocks of glibc's */
	const struct limpet_mappings_facts *facts;
	struct limpet_accounts *accounts;
};

/* No more than the kernel says: what was found before may be gone by now. */
static void add_things(struct mapping *it, const char *kind, const char *owner, uint64_t bytes,
		       unsigned things)
{
	if (bytes > it->left_bytes)
		bytes = it->left_bytes;
	it->left_bytes -= bytes;
	limpet_accounts_add(it->accounts, kind, owner, bytes, things);
}

static void add(struct mapping *it, const char *kind, const char *owner, uint64_t bytes)
{
	add_things(it, kind, owner, bytes, 0);
}

/* ------------------------------------------------------------------ shared memory */

/* The name of a file without its directory and without " (deleted)", shortened. */
static const char *short_name(const char *path, char ret[64])
{
	const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
	const char *deleted = strstr(name, " (deleted)");

	snprintf(ret, 64, "%.*s", deleted ? (int)(deleted - name) : 63, name);
	return ret;
}

/* Whether pages of the file are shared memory, by its name: a private mapping has them until it
 * writes to them. */
static bool is_shared_memory(const char *path)
{
	static const char *const names[] = {"/memfd:", "/SYSV", "/dev/shm/", "/dev/zero"};

	return limpet_begins_any(path, names, LIMPET_COUNT_OF(names));
}

/* A file that is neither a program nor a library: by its name. */
static void add_data_file(struct mapping *it, uint64_t bytes)
{
	char owner[96], name[64];

	snprintf(owner, sizeof(owner), "file %s", short_name(it->map->path, name));
	add(it, LIMPET_KIND_DATA_FILES, owner, bytes);
}

static void account_shared(struct mapping *it, uint64_t bytes)
{
	const char *path = it->map->path;
	char owner[96], name[64];

	if (limpet_begins(path, "/memfd:java_heap")) {
		add(it, LIMPET_KIND_JAVA, "Java: heap of ZGC, each view of it counts", bytes);
	} else if (limpet_begins(path, "/memfd:")) {
		snprintf(owner, sizeof(owner), "shared memory: memfd %s",
			 short_name(path + strlen("/memfd:"), name));
		add_things(it, LIMPET_KIND_MEMFD, owner, bytes, 1);
	} else if (limpet_begins(path, "/SYSV")) {
		add(it, LIMPET_KIND_SYSV, "shared memory: System V", bytes);
	} else if (limpet_begins(path, "/dev/zero") || limpet_begins(path, "[anon_shmem:")) {
		add(it, LIMPET_KIND_SHARED_ANONYMOUS, "shared memory: anonymous", bytes);
	} else if (limpet_begins(path, "/dev/shm/")) {
		add(it, LIMPET_KIND_SHM, "shared memory: POSIX, /dev/shm", bytes);
	} else if (limpet_memory_reader_is_device(path)) {
		add(it, LIMPET_KIND_DEVICE, "memory of devices and the kernel, mapped", bytes);
	} else if (limpet_tmpfs_has(it->facts->mounts, it->map->dev_major, it->map->dev_minor)) {
		add(it, LIMPET_KIND_TMPFS, "shared memory: files of a tmpfs", bytes);
	} else if (path[0] == '/') {
		add_data_file(it, bytes);
	} else {
		add(it, LIMPET_KIND_DEVICE, "memory of devices and the kernel, mapped", bytes);
	}
}

/* ------------------------------------------------------------------ files */

/* Whether a part of it is mapped as code nearby: the segments of a program or library are
 * neighbours. */
static bool is_of_code(const struct limpet_maps *maps, const struct limpet_map *file)
{
	const struct limpet_map *map = limpet_proc_maps_find(maps, file->start);
	size_t at, first;

	/* It is newer than the list. */
	if (!map)
		return true;
	at = (size_t)(map - maps->list);
	first = at > NEIGHBOURS ? at - NEIGHBOURS : 0;
	for (size_t i = first; i < maps->count && i <= at + NEIGHBOURS; i++)
		if (limpet_map_is_code_of(maps, i, file))
			return true;
	return false;
}

static void account_file(struct mapping *it)
{
	uint64_t written = it->anonymous_bytes;

	if (written > it->rss_bytes)
		written = it->rss_bytes;
	if (written)
		add(it, LIMPET_KIND_DATA,
		    is_of_code(it->facts->maps, it->map) ? "data of program and libraries"
							 : LIMPET_OWNER_WRITTEN,
		    written);
	if (it->rss_bytes <= written)
		return;
	if (is_shared_memory(it->map->path))
		account_shared(it, it->rss_bytes - written);
	else if (limpet_tmpfs_has(it->facts->mounts, it->map->dev_major, it->map->dev_minor))
		add(it, LIMPET_KIND_TMPFS, "shared memory: files of a tmpfs",
		    it->rss_bytes - written);
	else if (is_of_code(it->facts->maps, it->map))
		add(it, LIMPET_KIND_FILES, "file pages: code and data as on disk",
		    it->rss_bytes - written);
	else
		add_data_file(it, it->rss_bytes - written);
}

/* ------------------------------------------------------------------ private anonymous memory */

static size_t without_number(const char *name)
{
	size_t length = strlen(name);

	while (length && name[length - 1] >= '0' && name[length - 1] <= '9')
		length--;
	return length;
}

/* Threads of a pool have numbers: "pool-1-thr-*"; "python3" alone has none. */
static void name_stacks(const struct limpet_stack_owners *threads, const char *thread,
			char ret_owner[96])
{
	const size_t length = without_number(thread);
	bool many = false;

	for (size_t i = 0; thread[length] && i < threads->count && !many; i++) {
		const char *other = threads->list[i].name;

		many = without_number(other) == length && other[length] &&
		       !strncmp(other, thread, length) && strcmp(other, thread) != 0;
	}
	snprintf(ret_owner, 96, LIMPET_STACKS_NAMED "%.*s%s", many ? (int)length : 64, thread,
		 many ? "*" : "");
}

/* One stack, or none: `bytes` 0. */
struct stack {
	uint64_t start, end, bytes;
};

static void account_stack(struct mapping *it, const struct stack *stack)
{
	const struct limpet_mappings_facts *facts = it->facts;
	const struct limpet_stack_owner *thread;
	char owner[96];
	bool ended;

	if (!stack->bytes)
		return;
	thread = limpet_stack_owners_find(facts->threads, facts->memory, stack->start, stack->end,
					  &ended);
	if (thread)
		name_stacks(facts->threads, thread->name, owner);
	else
		snprintf(owner, sizeof(owner), "%s",
			 ended ? LIMPET_OWNER_ENDED : "stacks of no known thread");
	if (!thread && ended)
		it->accounts->explanation->ended_stack_bytes += stack->end - stack->start;
	/* Of one in several mappings that with its top counts. */
	add_things(it, LIMPET_KIND_STACKS, owner, stack->bytes, stack->end <= it->map->end);
}

/* The part of a range in the mapping: adjacent mappings may have one range together. */
static struct limpet_memory_range range_part(const struct mapping *it,
					     const struct limpet_memory_range *range)
{
	struct limpet_memory_range part = *range;

	if (part.start < it->map->start)
		part.start = it->map->start;
	if (part.end > it->map->end)
		part.end = it->map->end;
	return part;
}

/* The stack that has `address`. Of one whose bounds are not known it is the mapping from there on:
 * the last range in it has its top. */
static struct stack stack_at(const struct mapping *it, uint64_t address)
{
	const struct limpet_thread_stacks *known = &it->facts->ranges->stacks;
	const size_t i = limpet_thread_stacks_from(known, address);

	if (i == known->count || known->list[i].start >= it->map->end)
		return (struct stack){.start = it->map->start, .end = it->map->end};
	if (known->list[i].start > address)
		return (struct stack){.start = it->map->start, .end = known->list[i].start};
	return (struct stack){.start = known->list[i].start, .end = known->list[i].end};
}

/* A stack may have pages in several ranges, and a mapping several stacks. */
static void account_stacks(struct mapping *it, size_t first)
{
	const struct limpet_memory_ranges *ranges = it->facts->ranges;
	struct stack stack = {.bytes = 0};
	uint64_t top = 0;

	for (size_t i = first; i < ranges->count && ranges->list[i].start < it->map->end; i++) {
		const struct limpet_memory_range part = range_part(it, &ranges->list[i]);

		if (part.account != LIMPET_MEMORY_STACKS)
			continue;
		for (uint64_t at = part.start; at < part.end; at = top) {
			if (at >= stack.end) {
				account_stack(it, &stack);
				stack = stack_at(it, at);
			}
			top = stack.end < part.end ? stack.end : part.end;
			stack.bytes += top - at;
		}
	}
	if (top && stack.end == it->map->end)
		stack.end = top;
	account_stack(it, &stack);
}

/* The part of a range in the mapping: mlock(2) and others split mappings. What is resident of the
 * range is known as a whole. */
static uint64_t heap_part(const struct mapping *it, struct limpet_glibc_range *range)
{
	const uint64_t start = range->start > it->map->start ? range->start : it->map->start;
	const uint64_t end = range->end < it->map->end ? range->end : it->map->end;
	uint64_t bytes = ((end + 4095) & ~UINT64_C(4095)) - (start & ~UINT64_C(4095));

	if (bytes > range->resident_bytes)
		bytes = range->resident_bytes;
	if (bytes > it->left_bytes)
		bytes = it->left_bytes;
	range->resident_bytes -= bytes;
	return bytes;
}

/* What glibc's arenas have in the mapping: as of the moment of their walk. */
static void account_heap(struct mapping *it)
{
	const struct limpet_glibc_heaps *heaps = it->facts->heaps;
	uint64_t sum = 0;
	/* cppcheck-suppress constStatement */
	size_t i = LIMPET_PARTITION_POINT(k, heaps->range_count,
					  heaps->ranges[k].end <= it->map->start);

	for (; i < heaps->range_count && heaps->ranges[i].start < it->map->end; i++) {
		struct limpet_glibc_range *range = &heaps->ranges[i];
		struct limpet_glibc_arena *arena = &heaps->list[range->arena];
		const uint64_t bytes = heap_part(it, range);

		add(it, arena->is_main ? LIMPET_KIND_GLIBC_MAIN : LIMPET_KIND_GLIBC_ARENAS,
		    arena->is_main ? "glibc: main heap" : "glibc: arenas", bytes);
		arena->counted_bytes += bytes;
		sum += bytes;
		if (it->locked) {
			arena->locked_bytes += bytes;
			limpet_glibc_arena_lock(
				arena,
				range->start > it->map->start ? range->start : it->map->start,
				range->end < it->map->end ? range->end : it->map->end);
		}
	}
	if (sum)
		it->accounts->explanation->glibc.shared_bytes +=
			sum < it->shared_bytes ? sum : it->shared_bytes;
}

/* By brk(2), outside of the arenas: `bytes` of this part. By what the main arena has grown since,
 * it has more. */
static void account_break(struct mapping *it, const struct limpet_memory_range *part,
			  uint64_t bytes)
{
	const struct limpet_glibc_heaps *heaps = it->facts->heaps;
	const uint64_t start = part->start > heaps->grown_start ? part->start : heaps->grown_start;
	const uint64_t end = part->end < heaps->grown_end ? part->end : heaps->grown_end;

	if (!heaps->uses_brk)
		return;
	if (end > start)
		bytes -= end - start < bytes ? end - start : bytes;
	add(it, LIMPET_KIND_BREAK, "program break (brk), not malloc's", bytes);
}

static void account_blocks(struct mapping *it, uint64_t bytes)
{
	const uint64_t left_bytes = it->left_bytes;

	add(it, LIMPET_KIND_GLIBC_MMAPPED, "glibc: large blocks, mapped one by one", bytes);
	it->block_bytes += left_bytes - it->left_bytes;
}

static void account_range(struct mapping *it, const struct limpet_memory_range *range)
{
	const struct limpet_memory_range part = range_part(it, range);
	const uint64_t bytes = part.end - part.start -
			       limpet_glibc_heaps_bytes(it->facts->heaps, part.start, part.end);

	if (!bytes)
		return;
	switch (range->account) {
	case LIMPET_MEMORY_HEAP:
		if (strcmp(it->map->path, "[heap]") != 0)
			account_blocks(it, bytes);
		else
			account_break(it, &part, bytes);
		break;
	case LIMPET_MEMORY_FILES:
		add(it, LIMPET_KIND_DATA, "data of program and libraries", bytes);
		break;
	case LIMPET_MEMORY_CODE:
		add(it, LIMPET_KIND_CODE,
		    it->facts->modules && limpet_modules_find(it->facts->modules, it->map->start)
			    ? "code of program and libraries, without a file"
			    : "executable anonymous memory",
		    bytes);
		break;
	case LIMPET_MEMORY_UNKNOWN:
		if (range->kind && it->locked && !strcmp(range->kind, LIMPET_KIND_JEMALLOC_FREE))
			add(it, LIMPET_KIND_JEMALLOC_LOCKED, "jemalloc: free pages, locked", bytes);
		else if (range->kind && it->locked &&
			 !strcmp(range->kind, LIMPET_KIND_TCMALLOC_FREE))
			add(it, LIMPET_KIND_TCMALLOC, "tcmalloc: free pages, locked", bytes);
		else if (range->kind)
			add(it, range->kind, range->owner, bytes);
		break;
	default:
		break;
	}
}

/* Keeps the largest, in order. */
static void list_unknown(struct limpet_explanation *explanation, const struct limpet_map *map,
			 uint64_t bytes)
{
	struct limpet_explain_mapping *list = explanation->unknown_mappings;
	size_t at = explanation->unknown_mapping_count;

	if (at < LIMPET_EXPLAIN_MAPPINGS)
		explanation->unknown_mapping_count++;
	else if (bytes <= list[--at].bytes)
		return;
	for (; at && list[at - 1].bytes < bytes; at--)
		list[at] = list[at - 1];
	list[at] = (struct limpet_explain_mapping){
		.start = map->start, .end = map->end, .bytes = bytes};
	memcpy(list[at].permissions, map->perms, sizeof(list[at].permissions));
}

/* What only looks like blocks: more than glibc has in such blocks, in all mappings. It is taken
 * from their account once that is whole, see explain.c. */
static uint64_t surplus_of(const struct mapping *it)
{
	const struct limpet_glibc_heaps *heaps = it->facts->heaps;

	return heaps->mmapped_known && it->block_bytes > heaps->mmapped_bytes
		       ? it->block_bytes - heaps->mmapped_bytes
		       : 0;
}

/* Whether it is the accessible part of a WebAssembly memory of V8: whole pages of 64 KiB, and right
 * after them address space that faults, so that no index of 32 bits leads elsewhere. */
static bool is_wasm(const struct mapping *it)
{
	const struct limpet_maps *maps = it->facts->maps;
	const struct limpet_map *map = limpet_proc_maps_find(maps, it->map->start);
	const struct limpet_map *next = map ? map + 1 : NULL;

	return it->facts->has_v8 && next && next < maps->list + maps->count &&
	       next->start == map->end && !next->inode && !next->path[0] &&
	       !strcmp(next->perms, "---p") && !map->path[0] &&
	       (map->end - map->start) % WASM_PAGE_BYTES == 0 &&
	       map->end - map->start <= WASM_LIMIT_BYTES &&
	       next->end - map->start >= WASM_LIMIT_BYTES;
}

/* What was added meanwhile, and what was not recognized. Returns how much has no known owner. */
static uint64_t account_rest(struct mapping *it)
{
	const uint64_t bytes = it->left_bytes;
	char owner[96], name[64];

	if (!bytes)
		return 0;
	if (!strcmp(it->map->path, "[heap]") && it->facts->heaps->uses_brk) {
		add(it, LIMPET_KIND_GLIBC_MAIN, "glibc: main heap", bytes);
		return 0;
	}
	if (limpet_begins(it->map->path, "[anon:")) {
		snprintf(owner, sizeof(owner), "named by the program: %s",
			 short_name(it->map->path, name));
		add(it, LIMPET_KIND_NAMED, owner, bytes);
		return 0;
	}
	if (is_wasm(it)) {
		add_things(it, LIMPET_KIND_WASM, "WebAssembly: memory", bytes, 1);
		return 0;
	}
	add_things(it, LIMPET_KIND_UNKNOWN, LIMPET_OWNER_UNKNOWN, bytes, 1);
	return bytes;
}

/* Of a moment a little earlier than the mapping's own figure, which may be smaller by now. */
static void account_anonymous(struct mapping *it)
{
	const struct limpet_memory_ranges *ranges = it->facts->ranges;
	size_t first = limpet_memory_ranges_from(ranges, it->map->start);
	uint64_t unknown_bytes;

	account_heap(it);
	account_stacks(it, first);
	for (size_t i = first; i < ranges->count && ranges->list[i].start < it->map->end; i++)
		account_range(it, &ranges->list[i]);
	unknown_bytes = account_rest(it) + surplus_of(it);
	if (unknown_bytes)
		list_unknown(it->accounts->explanation, it->map, unknown_bytes);
}

static void account_mapping(struct mapping *it)
{
	const char *path = it->map->path;

	if (limpet_memfd_is_ours(path))
		add(it, LIMPET_KIND_LIMPET, "limpet itself", it->rss_bytes);
	else if (it->map->perms[3] == 's')
		account_shared(it, it->rss_bytes);
	else if (limpet_begins(path, "/dev/zero") && it->anonymous_bytes >= it->rss_bytes)
		account_anonymous(it);
	else if (it->map->inode)
		account_file(it);
	else if (!strcmp(path, "[stack]"))
		add(it, LIMPET_KIND_MAIN_STACK, "stack of the main thread", it->rss_bytes);
	else if (!path[0] || !strcmp(path, "[heap]") || limpet_begins(path, "[anon"))
		account_anonymous(it);
	else
		add(it, LIMPET_KIND_KERNEL, "kernel: vdso and the like", it->rss_bytes);
}

int limpet_mappings_account(struct limpet_smaps *smaps, const struct limpet_mappings_facts *facts,
			    struct limpet_accounts *accounts)
{
	struct limpet_explanation *explanation = accounts->explanation;
	struct limpet_smap smap;
	int more;

	while ((more = limpet_proc_smaps_next(smaps, &smap)) > 0) {
		struct mapping it = {.map = &smap.map, .facts = facts, .accounts = accounts};
		uint64_t swap = 0, lazy = 0, dirty = 0;

		if (!limpet_smap_bytes(&smap, "Rss", &it.rss_bytes))
			return -EBADMSG;
		if (limpet_smap_bytes(&smap, "Swap", &swap))
			explanation->swap_bytes += swap;
		if (limpet_smap_bytes(&smap, "LazyFree", &lazy))
			explanation->lazy_free_bytes += lazy;
		if (!it.rss_bytes)
			continue;
		(void)limpet_smap_bytes(&smap, "Anonymous", &it.anonymous_bytes);
		if (limpet_smap_bytes(&smap, "Shared_Clean", &it.shared_bytes) &&
		    limpet_smap_bytes(&smap, "Shared_Dirty", &dirty))
			it.shared_bytes += dirty;
		it.locked = limpet_smap_has_flag(&smap, "lo");
		it.left_bytes = it.rss_bytes;
		explanation->rss_bytes += it.rss_bytes;
		account_mapping(&it);
	}
	if (more < 0)
		return more;
	explanation->unknown_bytes = limpet_accounts_bytes(explanation, LIMPET_KIND_UNKNOWN);
	return accounts->error;
}
