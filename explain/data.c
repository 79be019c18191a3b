#include "explain/data.h"

#include <errno.h>
#include <stdlib.h>

#include "explain/present.h"

#define PIECE_BYTES ((uint64_t)1 << 20)
#define MAP_LIMIT_BYTES ((uint64_t)32 << 20)
#define LIMIT_BYTES ((uint64_t)256 << 20)

struct data {
	const struct limpet_source *memory;
	void (*look)(void *context, const uint64_t *data, size_t bytes, uint64_t address);
	void *context;
	uint64_t left_bytes;
	uint64_t piece[PIECE_BYTES / 8];
};

static void read_range(struct data *data, uint64_t start, uint64_t end)
{
	while (start < end) {
		uint64_t bytes = end - start < PIECE_BYTES ? end - start : PIECE_BYTES;

		if (bytes > data->left_bytes)
			return;
		data->left_bytes -= bytes;
		if (limpet_source_read(data->memory, start, data->piece, bytes) == 0)
			data->look(data->context, data->piece, bytes, start);
		start += bytes == PIECE_BYTES ? bytes - LIMPET_DATA_OVERLAP_BYTES : bytes;
	}
}

/* Written data of a file, or the anonymous memory right after it, its .bss. */
static bool is_data(const struct limpet_maps *maps, size_t i)
{
	const struct limpet_map *map = &maps->list[i];

	if (map->perms[1] != 'w' || map->perms[3] != 'p')
		return false;
	return map->inode || (i && !map->path[0] && map[-1].inode && map[-1].end == map->start);
}

int limpet_data_read(const struct limpet_source *memory, const struct limpet_maps *maps,
		     struct limpet_pages *pages,
		     void (*look)(void *context, const uint64_t *data, size_t bytes,
				  uint64_t address),
		     void *context)
{
	LIMPET_FREE struct data *data = calloc(1, sizeof(*data));
	int error = 0;

	if (!data)
		return -ENOMEM;
	data->memory = memory;
	data->look = look;
	data->context = context;
	data->left_bytes = LIMIT_BYTES;
	for (size_t i = 0; i < maps->count && error != -ENOMEM; i++) {
		const struct limpet_map *map = &maps->list[i];
		struct limpet_present present = {0};

		if (!is_data(maps, i))
			continue;
		error = limpet_present_read(&present, pages, map->start,
					    map->end - map->start > MAP_LIMIT_BYTES
						    ? map->start + MAP_LIMIT_BYTES
						    : map->end);
		for (size_t k = 0; k < present.count && !error; k++)
			read_range(data, present.list[k].start, present.list[k].end);
		limpet_present_done(&present);
	}
	return error == -ENOMEM ? error : 0;
}
