#include "collector/pages/counted_maps.h"

#include "common/array.h"
#include "common/begins.h"

void limpet_counted_maps_done(struct limpet_counted_maps *maps)
{
	free(maps->list);
	*maps = (struct limpet_counted_maps){0};
}

/* Memory that is shared and in no file on a disk. Of the files in another tmpfs the name does not
 * tell. */
static bool is_shared_memory(const struct limpet_map *map)
{
	static const char *const names[] = {"/memfd:", "/SYSV", "/dev/zero", "/dev/shm/"};

	return map->perms[3] == 's' && limpet_begins_any(map->path, names, LIMPET_COUNT_OF(names));
}

/* The kernel's own pages, and those of hugetlbfs, which RSS does not contain. */
static bool is_left_out(const struct limpet_map *map)
{
	static const char *const names[] = {"[v", "/anon_hugepage", "/dev/hugepages"};

	return limpet_begins_any(map->path, names, LIMPET_COUNT_OF(names));
}

static struct limpet_counted_map describe(const struct limpet_map *map)
{
	const bool anonymous = !map->inode, shared_memory = is_shared_memory(map);

	return (struct limpet_counted_map){
		.start = map->start,
		.end = map->end,
		.counts = !is_left_out(map) && (anonymous || map->perms[3] != 's' || shared_memory),
		.own = !anonymous && !shared_memory,
		.writable = map->perms[1] == 'w',
		.executable = anonymous && map->perms[2] == 'x'};
}

int limpet_counted_maps_set(struct limpet_counted_maps *maps, const struct limpet_maps *all)
{
	maps->count = 0;
	if (limpet_reserve(&maps->list, &maps->capacity, all->count, sizeof(*maps->list)) < 0)
		return -ENOMEM;
	for (size_t i = 0; i < all->count; i++)
		maps->list[maps->count++] = describe(&all->list[i]);
	return 0;
}

const struct limpet_counted_map *limpet_counted_maps_find(const struct limpet_counted_maps *maps,
							  uint64_t address)
{
	const size_t at = LIMPET_PARTITION_POINT(i, maps->count, maps->list[i].end <= address);

	return at < maps->count && maps->list[at].start <= address ? &maps->list[at] : NULL;
}
