#include "injector/copies.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/wire.h"
#include "injector/memfd.h"
#include "injector/memory.h"
#include "injector/proc.h"
#include "injector/standstill.h"

#define PIECE (1u << 20)
#define PAGE 4096u
#define MAX_COPIES 4096u
#define PATIENCE_NS 100000000u
#define LOOK_NS 20000000u

struct scan {
	pid_t pid;
	const struct limpet_agent_place *place;
	const struct limpet_copies_options *options;
	uint64_t next_look_ns;
	uint64_t places[MAX_COPIES];
	size_t count;
	bool overflow;
	uint8_t *buffer;
	struct limpet_hook hooks[LIMPET_MAX_HOOKS];
	struct limpet_copies_stats stats;
};

static uint64_t original_of(const struct scan *scan, uint64_t value)
{
	uint64_t offset = value - scan->place->thunks;
	uint64_t bytes = scan->place->thunks_end - scan->place->thunks;
	uint64_t step = bytes / LIMPET_MAX_HOOKS;

	if (offset >= bytes || offset % step)
		return 0;
	return scan->hooks[offset / step].original;
}

static void scan_words(struct scan *scan, uint64_t address, size_t bytes)
{
	const uint64_t *words = (const uint64_t *)(const void *)scan->buffer;
	uint64_t low = scan->place->thunks, range = scan->place->thunks_end - low;

	for (size_t i = 0; i < bytes / sizeof(*words); i++) {
		if (words[i] - low >= range || !original_of(scan, words[i]))
			continue;
		if (scan->count == MAX_COPIES) {
			scan->overflow = true;
			return;
		}
		scan->places[scan->count++] = address + i * sizeof(*words);
	}
}

static bool is_wanted(const struct scan *scan, const struct limpet_map *map)
{
	if (map->perms[0] != 'r' || map->perms[1] != 'w')
		return false;
	if (map->start >= scan->place->start && map->start < scan->place->end)
		return false;
	/* Device memory must not be read; what is ours holds no copies. Memory that is shared with
	 * children and has no name is shown as /dev/zero. */
	if (strncmp(map->path, "/dev/", 5) == 0)
		return !strncmp(map->path, "/dev/zero", 9) || !strncmp(map->path, "/dev/shm/", 9);
	return !limpet_memfd_is_ours(map->path) && strncmp(map->path, "[v", 2) != 0;
}

/* What else there is to do now and then; -errno: no further. */
static int look_around(struct scan *scan)
{
	const struct limpet_copies_options *options = scan->options;
	uint64_t now_ns = limpet_monotonic_ns();
	int error;

	if (now_ns < scan->next_look_ns)
		return 0;
	if (options->idle)
		options->idle(options->idle_context);
	error = options->check ? options->check(options->check_context) : 0;
	scan->next_look_ns = limpet_monotonic_ns() + LOOK_NS;
	return error ? error : now_ns >= options->deadline_ns ? -ETIMEDOUT : 0;
}

/* Pages that cannot be read are passed over: they are gone by now, or broken. */
static int scan_range(struct scan *scan, uint64_t start, uint64_t end)
{
	while (start < end) {
		size_t bytes = end - start < PIECE ? (size_t)(end - start) : PIECE;
		ssize_t got = limpet_memory_read_some(scan->pid, start, scan->buffer, bytes);
		int error = look_around(scan);

		if (error)
			return error;
		if (got == -ESRCH || got == -EPERM)
			return (int)got;
		if (got > 0) {
			scan->stats.scanned_bytes += (uint64_t)got;
			scan_words(scan, start, (size_t)got);
		}
		start += got == (ssize_t)bytes ? bytes
					       : (got > 0 ? (size_t)got / PAGE * PAGE : 0) + PAGE;
	}
	return 0;
}

/* Only pages that exist: to read one that was never touched would give the target page tables. */
static int scan_map(struct scan *scan, struct limpet_pages *pages, const struct limpet_map *map)
{
	struct limpet_page_range ranges[LIMPET_PAGES_RANGES];
	int error = 0;

	for (uint64_t at = map->start; at < map->end && !error;) {
		int count = limpet_pages_next(pages, at, map->end, ranges, &at);

		if (count < 0)
			return count;
		for (int i = 0; i < count && !error; i++)
			error = scan_range(scan, ranges[i].start, ranges[i].end);
		if (!error)
			error = look_around(scan);
	}
	return error;
}

static int scan_all(struct scan *scan)
{
	struct limpet_pages *pages = NULL;
	struct limpet_maps maps;
	int error = limpet_proc_maps_read(scan->pid, &maps);

	if (error)
		return error;
	error = limpet_pages_new(scan->pid, scan->options->way, &pages);
	scan->count = 0;
	for (size_t i = 0; i < maps.count && !error; i++)
		if (is_wanted(scan, &maps.list[i]))
			error = scan_map(scan, pages, &maps.list[i]);
	limpet_pages_free(pages);
	limpet_proc_maps_done(&maps);
	return error ? error : scan->overflow ? -ENOSPC : 0;
}

/* All threads stand still: what was found is looked at again and put back. */
static int put_back(struct scan *scan)
{
	char path[64];
	LIMPET_CLOSE int memory = -1;

	snprintf(path, sizeof(path), "%s/%d/mem", limpet_proc_root,
		 limpet_proc_resident(scan->pid));
	memory = open(path, O_RDWR | O_CLOEXEC);
	if (memory < 0)
		return -errno;
	for (size_t i = 0; i < scan->count; i++) {
		uint64_t value, original;

		if (limpet_memory_read(scan->pid, scan->places[i], &value, sizeof(value)) < 0)
			continue; /* unmapped since */
		original = original_of(scan, value);
		if (original &&
		    limpet_memory_exchange_stopped(memory, scan->places[i], value, original) == 0)
			scan->stats.restored++;
	}
	return 0;
}

int limpet_copies_restore(pid_t pid, const struct limpet_agent_place *place, uint64_t hooks_address,
			  const struct limpet_copies_options *options,
			  struct limpet_copies_stats *ret_stats)
{
	struct scan *scan = calloc(1, sizeof(*scan));
	int error;

	if (!scan)
		return -ENOMEM;
	scan->pid = pid;
	scan->place = place;
	scan->options = options;
	scan->next_look_ns = limpet_monotonic_ns() + LOOK_NS;
	scan->buffer = malloc(PIECE);
	error = scan->buffer
			? limpet_memory_read(pid, hooks_address, scan->hooks, sizeof(scan->hooks))
			: -ENOMEM;
	if (!error)
		error = scan_all(scan);
	scan->stats.found = (unsigned)scan->count;
	if (!error && scan->count) {
		struct limpet_standstill still;

		error = limpet_standstill_begin(pid, 0, limpet_monotonic_ns() + PATIENCE_NS,
						&still);
		if (!error) {
			error = put_back(scan);
			limpet_standstill_end(&still);
		}
		/* What moved meanwhile shows up in a second look. */
		if (!error)
			error = scan_all(scan);
		if (!error && scan->count)
			error = -EAGAIN;
	}
	*ret_stats = scan->stats;
	free(scan->buffer);
	free(scan);
	return error;
}
