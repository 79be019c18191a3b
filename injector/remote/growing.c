#include "injector/remote/growing.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "common/err.h"
#include "injector/proc/commit.h"

#define FARTHEST_BYTES (UINT64_C(1) << 30)
/* Distance that the kernel keeps between a growing mapping and others (stack_guard_gap). */
#define GAP_BYTES (UINT64_C(1) << 20)

static const struct limpet_map *next_above(const struct limpet_maps *maps, uint64_t end)
{
	for (size_t i = 0; i < maps->count; i++)
		if (maps->list[i].start >= end)
			return &maps->list[i];
	return NULL;
}

static uint64_t lowest_of(pid_t pid, const struct limpet_map *map)
{
	uint64_t bytes = FARTHEST_BYTES;
	struct rlimit limit;

	if (prlimit(pid, RLIMIT_STACK, NULL, &limit) == 0 && limit.rlim_cur < bytes)
		bytes = limit.rlim_cur;
	bytes += GAP_BYTES;
	return map->end > bytes ? map->end - bytes : 0;
}

static bool grows(pid_t pid, const struct limpet_map *map)
{
	struct limpet_smaps smaps;
	struct limpet_smap smap;
	bool answer = false;

	if (!strcmp(map->path, "[stack]"))
		return true;
	if (limpet_proc_smaps_read(pid, &smaps) < 0)
		return false;
	while (!answer && limpet_proc_smaps_next(&smaps, &smap) > 0 && smap.map.start <= map->start)
		/* The mapping may have grown since. */
		answer = smap.map.end > map->start && limpet_smap_has_flag(&smap, "gd");
	limpet_proc_smaps_done(&smaps);
	return answer;
}

static bool may_grow(const struct limpet_map *map)
{
	return !map->inode && map->perms[1] == 'w' && map->perms[3] == 'p';
}

bool limpet_growing_above(pid_t pid, const struct limpet_maps *maps, uint64_t end)
{
	const struct limpet_map *above = next_above(maps, end);

	if (!above || end <= lowest_of(pid, above))
		return false;
	return may_grow(above) && grows(pid, above);
}

/* At boot; nothing else changes it. In doubt it was. */
static bool gap_was_set(void)
{
	char path[PATH_MAX], line[4096] = "";
	FILE *file;

	snprintf(path, sizeof(path), "%s/cmdline", limpet_proc_root);
	file = fopen(path, "re");
	if (!file)
		return true;
	if (!fgets(line, sizeof(line), file))
		*line = 0;
	fclose(file);
	return !*line || strstr(line, "stack_guard_gap=");
}

/* Under strict accounting the kernel may refuse memory at any time. */
bool limpet_growing_reaches(pid_t pid, uint64_t bytes)
{
	struct rlimit limit;

	if (prlimit(pid, RLIMIT_STACK, NULL, &limit) < 0 || limit.rlim_cur < bytes)
		return false;
	return bytes <= GAP_BYTES && !limpet_commit_is_strict() && !gap_was_set();
}
