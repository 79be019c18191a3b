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

struct scan {
	pid_t pid;
	const struct limpet_agent_place *place;
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

/* Only pages that exist: to read one that was never touched would give the target page tables. */
static void scan_range(struct scan *scan, int pagemap, uint64_t start, uint64_t end)
{
	const uint64_t exists = 3ull << 62; /* present or swapped out */
	uint64_t entries[PIECE / PAGE];
	size_t pages = (size_t)((end - start) / PAGE), at = 0;

	if (pread(pagemap, entries, pages * sizeof(*entries), (off_t)(start / PAGE * 8)) !=
	    (ssize_t)(pages * sizeof(*entries)))
		memset(entries, 0xff, sizeof(entries));
	while (at < pages) {
		size_t run = at;
		ssize_t got;

		while (run < pages && entries[run] & exists)
			run++;
		if (run == at) {
			at++;
			continue;
		}
		got = limpet_memory_read_some(scan->pid, start + at * PAGE, scan->buffer,
					      (run - at) * PAGE);
		if (got > 0) {
			scan->stats.scanned_bytes += (uint64_t)got;
			scan_words(scan, start + at * PAGE, (size_t)got);
		}
		at = run;
	}
}

static int scan_all(struct scan *scan)
{
	char path[64];
	LIMPET_CLOSE int pagemap = -1;
	struct limpet_maps maps;
	int error = limpet_proc_maps_read(scan->pid, &maps);

	if (error)
		return error;
	snprintf(path, sizeof(path), "%s/%d/pagemap", limpet_proc_root,
		 limpet_proc_resident(scan->pid));
	pagemap = open(path, O_RDONLY | O_CLOEXEC);
	scan->count = 0;
	for (size_t i = 0; i < maps.count; i++) {
		const struct limpet_map *map = &maps.list[i];

		if (!is_wanted(scan, map))
			continue;
		for (uint64_t at = map->start; at < map->end; at += PIECE)
			scan_range(scan, pagemap, at,
				   map->end - at < PIECE ? map->end : at + PIECE);
	}
	limpet_proc_maps_done(&maps);
	return scan->overflow ? -ENOSPC : 0;
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
			  struct limpet_copies_stats *ret_stats)
{
	struct scan *scan = calloc(1, sizeof(*scan));
	int error;

	if (!scan)
		return -ENOMEM;
	scan->pid = pid;
	scan->place = place;
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
