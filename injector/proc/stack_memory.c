#include "injector/proc/stack_memory.h"

#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#include "common/begins.h"
#include "injector/proc/memory.h"
#include "injector/proc/pagemap.h"

void limpet_stack_maps_read(pid_t pid, struct limpet_stack_maps *ret_maps)
{
	*ret_maps = (struct limpet_stack_maps){.pagemap = limpet_pagemap_open(pid)};
	if (limpet_proc_maps_read(pid, &ret_maps->maps) < 0)
		ret_maps->maps = (struct limpet_maps){0};
}

void limpet_stack_maps_done(struct limpet_stack_maps *maps)
{
	limpet_proc_maps_done(&maps->maps);
	if (maps->pagemap >= 0)
		close(maps->pagemap);
	*maps = (struct limpet_stack_maps){.pagemap = -1};
}

/* Only there a page that does not exist was never touched: shared memory and files have contents
 * that are not in the page tables. */
static bool is_private(const struct limpet_map *map)
{
	return map->perms[0] == 'r' && map->perms[3] == 'p' && !map->inode &&
	       (!map->path[0] || limpet_begins(map->path, "[anon:") ||
		!strcmp(map->path, "[heap]"));
}

/* What exists of private memory; the rest is zeros. Returns how many bytes were read: fewer, if not
 * all can be. */
static size_t read_existing(pid_t pid, int pagemap, uint64_t address, uint8_t *ret, size_t bytes)
{
	size_t done = 0;

	while (done < bytes) {
		bool exist = false;
		ssize_t part = limpet_pagemap_run(pagemap, address + done, bytes - done, &exist);
		ssize_t got = part;

		if (part < 0)
			break;
		if (exist)
			got = limpet_memory_read_some(pid, address + done, ret + done,
						      (size_t)part);
		else
			memset(ret + done, 0, (size_t)part);
		done += got > 0 ? (size_t)got : 0;
		if (got < part)
			break;
	}
	return done;
}

/* Of the mapping with the stack pointer. */
static ssize_t read_first(pid_t pid, const struct limpet_stack_maps *maps,
			  const struct limpet_map *map, uint64_t sp, void *ret, size_t bytes)
{
	size_t got = 0;

	if (map && maps->pagemap >= 0 && (is_private(map) || !strcmp(map->path, "[stack]")))
		got = read_existing(pid, maps->pagemap, sp, ret, bytes);
	return got ? (ssize_t)got : limpet_memory_read_some(pid, sp, ret, bytes);
}

ssize_t limpet_stack_read(pid_t pid, const struct limpet_stack_maps *maps, uint64_t sp, void *ret,
			  size_t bytes)
{
	const struct limpet_map *map = maps ? limpet_proc_maps_find(&maps->maps, sp) : NULL;
	const struct limpet_map *end = maps ? maps->maps.list + maps->maps.count : NULL;
	size_t done, part = bytes;
	ssize_t got;

	if (map && map->end - sp < bytes)
		part = (size_t)(map->end - sp);
	got = read_first(pid, maps, map, sp, ret, part);
	if (got < (ssize_t)part)
		return got;
	done = part;
	while (done < bytes && ++map < end && map->start == sp + done && is_private(map)) {
		part = bytes - done < map->end - map->start ? bytes - done
							    : (size_t)(map->end - map->start);
		got = (ssize_t)read_existing(pid, maps->pagemap, map->start, (uint8_t *)ret + done,
					     part);
		done += (size_t)got;
		if ((size_t)got < part)
			break;
	}
	return (ssize_t)done;
}
