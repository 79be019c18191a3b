#include "injector/hook/hook_pointers.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/array.h"
#include "common/clock.h"
#include "common/wire.h"
#include "injector/hook/addresses.h"
#include "injector/hook/inline_hook.h"
#include "injector/proc/memfd.h"
#include "injector/proc/memory.h"
#include "injector/proc/proc.h"
#include "injector/proc/target_process.h"
#include "injector/ptrace/step.h"
#include "injector/ptrace/stop_all.h"

#define WINDOW (1u << 20)
#define PAGE 4096u
/* Those that are beyond this are left to the next try. */
#define MAX_FOUND (1u << 20)
/* As many are restored in one stop of the program: some milliseconds. */
#define STOP_RESTORES 4096u
#define PATIENCE_NS 100000000u
#define IDLE_NS 20000000u

struct scan {
	const struct limpet_target *target;
	const struct limpet_agent_place *place;
	const struct limpet_hook_pointers_options *options;
	uint64_t next_idle_ns;
	uint64_t *places;
	size_t count, capacity;
	bool no_memory; /* a place could not be noted */
	unsigned elsewhere, copied_jumps;
	int memory;                   /* /proc/PID/mem */
	uint8_t *buffer;              /* one block, WINDOW, one block */
	uint64_t scanned_end;         /* the first block's last bytes are those before it */
	const struct limpet_map *map; /* the mapping being searched */
	struct limpet_pages *pages;
	struct limpet_hook hooks[LIMPET_MAX_HOOKS];
	struct limpet_inline_hook_jumps jumps;
	struct limpet_hook_pointers_stats stats;
};

/* Returns the original with the tag bits that the program has put into unused bits of the address;
 * 0: not one of ours. In a stale word of a stack the tag may come from an overwritten part. */
static uint64_t original_of(const struct scan *scan, uint64_t value)
{
	const uint64_t marks = value & UINT64_C(0xffff) << 48;
	uint64_t offset = (value ^ marks) - scan->place->thunks;
	uint64_t bytes = scan->place->thunks_end - scan->place->thunks;
	uint64_t step = bytes / LIMPET_MAX_HOOKS, original;

	if (offset >= bytes || offset % step)
		return 0;
	original = scan->hooks[offset / step].original;
	return original ? original | marks : 0;
}

/* Whether the word is a module's, and read-only except for the linker, which has bound it. */
static bool is_relro(const struct scan *scan, uint64_t at)
{
	const struct limpet_module *module =
		scan->options->modules ? limpet_modules_find(scan->options->modules, at) : NULL;

	return module && limpet_module_is_of(module, scan->map) && at >= module->relro_start &&
	       at + sizeof(at) <= module->relro_end && scan->map->perms[3] == 'p';
}

/* Called by limpet_addresses_find(). */
static void note(void *context, enum limpet_address_kind kind, uint64_t at, uint64_t value)
{
	struct scan *scan = context;
	const char *perms = scan->map->perms;

	if (!original_of(scan, value))
		return;
	if (kind != LIMPET_ADDRESS_WORD || at % sizeof(value) ||
	    (perms[1] != 'w' && !is_relro(scan, at)) || perms[2] == 'x')
		scan->elsewhere++;
	else if (scan->count == MAX_FOUND)
		return;
	else if (limpet_reserve(&scan->places, &scan->capacity, scan->count + 1,
				sizeof(*scan->places)) < 0)
		scan->no_memory = true;
	else
		scan->places[scan->count++] = at;
}

static bool begins(const struct limpet_map *map, const char *with)
{
	return !strncmp(map->path, with, strlen(with));
}

/* Memory of memfd_secret(2): only the program can read it, so it may contain any hook pointer. */
static bool is_secret(const struct limpet_map *map)
{
	return begins(map, "/secretmem");
}

/* Files may be mounted there, too. Without the right to ask (CAP_SYS_ADMIN, CAP_CHECKPOINT_RESTORE)
 * all of /dev are devices. */
static bool is_device(const struct scan *scan, const struct limpet_map *map)
{
	struct statx status;
	char path[PATH_MAX];

	if (!begins(map, "/dev/") || begins(map, "/dev/zero") || begins(map, "/dev/shm/"))
		return false;
	snprintf(path, sizeof(path), "/proc/%d/map_files/%" PRIx64 "-%" PRIx64, scan->target->pid,
		 map->start, map->end);
	return statx(AT_FDCWD, path, AT_STATX_DONT_SYNC, STATX_TYPE, &status) < 0 ||
	       !S_ISREG(status.stx_mode);
}

/* Device memory must not be read; our own memory contains no hook pointers. Nameless memory that is
 * shared with children is shown as /dev/zero. Memory that the program cannot read now may become
 * readable again. */
static bool is_wanted(const struct scan *scan, const struct limpet_map *map)
{
	if (map->start >= scan->place->start && map->start < scan->place->end)
		return false;
	if (scan->options->files_only && !map->inode)
		return false;
	if (map->perms[0] != 'r' && (begins(map, "anon_inode:") || begins(map, "/dmabuf:")))
		return false;
	return !is_device(scan, map) && strncmp(map->path, "/sys/", 5) != 0 &&
	       !limpet_memfd_is_ours(map->path) && strncmp(map->path, "[v", 2) != 0;
}

/* A file that is mapped privately: pages that are still the file's contain no hook pointers. Not so
 * if the file is itself memory, or was deleted: the program may have written to it. */
static bool is_file(const struct limpet_map *map)
{
	static const char deleted[] = " (deleted)";
	size_t length = strlen(map->path);

	return map->perms[3] == 'p' && map->inode && strncmp(map->path, "/dev/", 5) != 0 &&
	       (length < strlen(deleted) || strcmp(map->path + length - strlen(deleted), deleted));
}

/* Displacements are searched for within reach of an instruction. */
static bool holds_distances(const struct scan *scan, const struct limpet_map *map)
{
	const uint64_t reach = UINT64_C(1) << 31;

	return map->perms[2] == 'x' && map->start < scan->place->thunks_end + reach &&
	       map->end + reach > scan->place->thunks;
}

/* Memory without read permission can only be read through the file, which is slower; mappings of
 * devices do not come here. */
static ssize_t read_window(const struct scan *scan, uint64_t start, uint8_t *window, size_t bytes)
{
	ssize_t got;

	if (scan->map->perms[0] == 'r' &&
	    (scan->map->perms[3] == 's' ||
	     !limpet_pages_are_shared(scan->pages, start, start + bytes)))
		return limpet_memory_read_some(scan->target->pid, start, window, bytes);
	got = pread(scan->memory, window, bytes, (off_t)start);
	return got < 0 ? -errno : got;
}

/* Does other work now and then; -errno: stop. */
static int run_idle(struct scan *scan)
{
	const struct limpet_hook_pointers_options *options = scan->options;
	uint64_t now_ns = limpet_monotonic_ns();
	int error;

	if (now_ns < scan->next_idle_ns)
		return 0;
	limpet_wait_idle(&options->wait);
	error = limpet_wait_check(&options->wait);
	scan->next_idle_ns = limpet_monotonic_ns() + IDLE_NS;
	return error ? error : now_ns >= options->wait.deadline_ns ? -ETIMEDOUT : 0;
}

/* Jumps at the same place in a page, the one that begins before `window` and ends in it included:
 * the bytes before it are valid, or zeros. */
static void find_jumps(struct scan *scan, const uint8_t *window, size_t bytes)
{
	for (size_t i = 0; i < scan->jumps.count; i++) {
		const struct limpet_inline_hook_jump *jump = &scan->jumps.list[i];
		const ptrdiff_t end = (ptrdiff_t)bytes - (ptrdiff_t)sizeof(jump->bytes);
		ptrdiff_t at = (ptrdiff_t)(jump->from % PAGE);

		if (at > (ptrdiff_t)(PAGE - sizeof(jump->bytes)))
			at -= PAGE;
		for (; at <= end; at += PAGE)
			scan->copied_jumps +=
				memcmp(window + at, jump->bytes, sizeof(jump->bytes)) == 0;
	}
}

/* Skips pages that cannot be read: they are gone by now, or broken. */
static int scan_range(struct scan *scan, uint64_t start, uint64_t end)
{
	const struct limpet_addresses addresses = {
		.low = scan->place->thunks,
		.end = scan->place->thunks_end,
		.guard = scan->options->guard,
		.found = note,
		.context = scan,
	};
	uint8_t *window = scan->buffer + LIMPET_ADDRESSES_BLOCK;
	bool code = holds_distances(scan, scan->map);

	/* Memory in one mapping may come in several ranges: an address may lie across two. */
	if (start != scan->scanned_end)
		memset(scan->buffer, 0, LIMPET_ADDRESSES_BLOCK);
	while (start < end) {
		size_t bytes = end - start < WINDOW ? (size_t)(end - start) : WINDOW;
		ssize_t got = read_window(scan, start, window, bytes);
		int error = run_idle(scan);

		if (error)
			return error;
		if (got == -ESRCH || got == -EPERM)
			return (int)got;
		if (got > 0) {
			scan->stats.scanned_bytes += (uint64_t)got;
			limpet_addresses_find(&addresses, start, window, (size_t)got, code);
			find_jumps(scan, window, (size_t)got);
		}
		if (got == (ssize_t)bytes)
			memcpy(window - LIMPET_ADDRESSES_KEPT,
			       window + bytes - LIMPET_ADDRESSES_KEPT, LIMPET_ADDRESSES_KEPT);
		else
			memset(window - LIMPET_ADDRESSES_KEPT, 0, LIMPET_ADDRESSES_KEPT);
		start += got == (ssize_t)bytes ? bytes
					       : (got > 0 ? (size_t)got / PAGE * PAGE : 0) + PAGE;
	}
	scan->scanned_end = start;
	return 0;
}

/* Reads only pages that exist: reading one that was never touched would allocate page tables in the
 * target. */
static int scan_map(struct scan *scan, const struct limpet_map *map)
{
	struct limpet_page_range ranges[LIMPET_PAGES_RANGES];
	bool own = is_file(map);
	int error = 0;

	scan->map = map;
	for (uint64_t at = map->start; at < map->end && !error;) {
		int count = limpet_pages_next(scan->pages, at, map->end, own, ranges, &at);

		if (count < 0)
			return count;
		for (int i = 0; i < count && !error; i++)
			error = scan_range(scan, ranges[i].start, ranges[i].end);
		if (!error)
			error = run_idle(scan);
	}
	return error;
}

static int scan_all(struct scan *scan)
{
	struct limpet_maps maps;
	int error = limpet_proc_maps_read(scan->target->pid, &maps);

	if (error)
		return error;
	error = limpet_pages_new(scan->target, scan->options->way, &scan->pages);
	scan->count = scan->elsewhere = scan->copied_jumps = 0;
	scan->scanned_end = 0;
	for (size_t i = 0; i < maps.count && !error; i++) {
		scan->elsewhere += is_secret(&maps.list[i]);
		if (is_wanted(scan, &maps.list[i]))
			error = scan_map(scan, &maps.list[i]);
	}
	limpet_pages_free(scan->pages);
	scan->pages = NULL;
	limpet_proc_maps_done(&maps);
	return error ? error : scan->no_memory ? -ENOMEM : 0;
}

/* All threads are stopped: checks again what was found, and restores it. */
static void restore_places(struct scan *scan, size_t first, size_t end)
{
	for (size_t i = first; i < end; i++) {
		uint64_t value, original;

		if (limpet_memory_read(scan->target->pid, scan->places[i], &value, sizeof(value)) <
		    0)
			continue; /* unmapped since */
		original = original_of(scan, value);
		if (original && limpet_memory_exchange_stopped(scan->memory, scan->places[i], value,
							       original) == 0)
			scan->stats.restored++;
	}
}

/* Between the stops the program runs, and may move what was not yet restored. */
static int restore_all(struct scan *scan)
{
	int error = 0;

	for (size_t first = 0; first < scan->count && !error; first += STOP_RESTORES) {
		size_t left = scan->count - first;
		struct limpet_stop_all stopped;

		error = run_idle(scan);
		if (!error)
			error = limpet_stop_all_begin(scan->options->wait.tracer, scan->target->pid,
						      0, limpet_monotonic_ns() + PATIENCE_NS,
						      &stopped);
		if (error)
			break;
		restore_places(scan, first, first + (left < STOP_RESTORES ? left : STOP_RESTORES));
		limpet_stop_all_end(&stopped);
	}
	return error;
}

int limpet_hook_pointers_restore(const struct limpet_target *target,
				 const struct limpet_agent_place *place, uint64_t hooks_address,
				 const struct limpet_hook_pointers_options *options,
				 struct limpet_hook_pointers_stats *ret_stats)
{
	struct scan *scan = calloc(1, sizeof(*scan));
	struct limpet_step step;
	int error;

	if (!scan)
		return -ENOMEM;
	step = limpet_step_begin(LIMPET_STEP_SEARCH, 0, 0);
	scan->target = target;
	scan->memory = -1;
	scan->place = place;
	scan->options = options;
	scan->next_idle_ns = limpet_monotonic_ns() + IDLE_NS;
	scan->buffer = aligned_alloc(LIMPET_ADDRESSES_BLOCK, WINDOW + 2 * LIMPET_ADDRESSES_BLOCK);
	error = scan->buffer ? limpet_memory_read_own(target->pid, hooks_address, scan->hooks,
						      sizeof(scan->hooks))
			     : -ENOMEM;
	if (!error) {
		scan->memory = limpet_proc_open(target, "mem", O_RDWR);
		error = scan->memory < 0 ? scan->memory : 0;
	}
	if (!error)
		error = limpet_inline_hook_read_jumps(target, &scan->jumps);
	if (!error)
		error = scan_all(scan);
	scan->stats.found = (unsigned)scan->count;
	if (!error && scan->count) {
		error = restore_all(scan);
		/* A second search finds what was moved meanwhile, and what was too much. */
		if (!error)
			error = scan_all(scan);
		if (!error && scan->count)
			error = -EAGAIN;
	}
	scan->stats.elsewhere = scan->elsewhere;
	scan->stats.jumps = scan->copied_jumps;
	*ret_stats = scan->stats;
	if (scan->memory >= 0)
		close(scan->memory);
	free(scan->places);
	free(scan->buffer);
	free(scan);
	return limpet_step_end(&step, error);
}
