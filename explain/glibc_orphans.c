#include "explain/glibc_orphans.h"

#include <errno.h>
#include <string.h>

#define PAGE 4096u
#define HEAP_BYTES ((uint64_t)64 << 20)
#define HEAD_LIMIT_BYTES ((uint64_t)256)
/* Of a mapping: nothing is as large that consists of heaps. */
#define CANDIDATES_LIMIT 65536u

/* malloc/arena.c: heap_info. */
struct head {
	uint64_t arena, before, bytes, opened_bytes;
};

/* glibc may name its memory ("glibc.mem.decorate_maps"). */
static bool may_be_heap(const struct limpet_map *map)
{
	return !map->inode && !strncmp(map->perms, "rw-p", 4) &&
	       (!map->path[0] || !strncmp(map->path, "[anon: glibc: ", strlen("[anon: glibc: ")));
}

static bool is_head(const struct limpet_maps *maps, uint64_t start, const struct head *head)
{
	const uint64_t offset = head->arena % HEAP_BYTES, first = head->arena - offset;

	return offset >= sizeof(*head) && offset <= HEAD_LIMIT_BYTES && offset % 8 == 0 &&
	       head->before % HEAP_BYTES == 0 && !head->before == (first == start) && head->bytes &&
	       head->bytes % PAGE == 0 && head->bytes <= head->opened_bytes &&
	       head->opened_bytes <= HEAP_BYTES && limpet_proc_maps_find(maps, head->arena);
}

/* The part that is in use, and then what is only reserved, are HEAP_BYTES together. */
static bool has_shape(const struct limpet_maps *maps, size_t i, uint64_t start)
{
	const struct limpet_map *map = &maps->list[i], *rest = map + 1;

	return i + 1 < maps->count && map->end > start && map->end < start + HEAP_BYTES &&
	       !rest->inode && rest->start == map->end && rest->end >= start + HEAP_BYTES &&
	       !strncmp(rest->perms, "---p", 4);
}

static bool is_orphan(const struct limpet_memory_reader *memory, const struct limpet_maps *maps,
		      size_t i, uint64_t start, struct limpet_glibc_orphan *ret_orphan)
{
	struct head head;
	int error = limpet_memory_reader_read(memory, start, &head, sizeof(head));

	if (!error && is_head(maps, start, &head)) {
		*ret_orphan = (struct limpet_glibc_orphan){start, start + head.bytes, head.arena};
		return true;
	}
	if (error != -ENODATA || !has_shape(maps, i, start))
		return false;
	*ret_orphan = (struct limpet_glibc_orphan){start, maps->list[i].end, 0};
	return true;
}

int limpet_glibc_orphan_next(const struct limpet_memory_reader *memory,
			     const struct limpet_maps *maps, uint64_t from,
			     struct limpet_glibc_orphan *ret_orphan)
{
	for (size_t i = 0; i < maps->count; i++) {
		const struct limpet_map *map = &maps->list[i];
		uint64_t start = from > map->start ? from : map->start;

		if (map->end <= from || !may_be_heap(map))
			continue;
		start = (start + HEAP_BYTES - 1) & ~(HEAP_BYTES - 1);
		for (unsigned k = 0; start < map->end && k < CANDIDATES_LIMIT; k++) {
			if (is_orphan(memory, maps, i, start, ret_orphan))
				return 1;
			if (limpet_memory_reader_is_spent(memory))
				return 0;
			start += HEAP_BYTES;
		}
	}
	return 0;
}
