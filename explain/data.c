#include "explain/data.h"

#include <errno.h>
#include <stdlib.h>

#include "explain/present.h"

#define PART_BYTES ((uint64_t)1 << 20)
#define MAP_LIMIT_BYTES ((uint64_t)32 << 20)
#define LIMIT_BYTES ((uint64_t)256 << 20)
#define NEIGHBOURS 8u

struct data {
	const struct limpet_memory_reader *memory;
	void (*scan)(void *context, const uint64_t *data, size_t bytes, uint64_t address);
	void *context;
	uint64_t left_bytes;
	uint64_t part[PART_BYTES / 8];
};

static void read_range(struct data *data, uint64_t start, uint64_t end)
{
	while (start < end) {
		uint64_t bytes = end - start < PART_BYTES ? end - start : PART_BYTES;

		if (bytes > data->left_bytes)
			return;
		data->left_bytes -= bytes;
		if (limpet_memory_reader_read(data->memory, start, data->part, bytes) == 0)
			data->scan(data->context, data->part, bytes, start);
		start += bytes == PART_BYTES ? bytes - LIMPET_DATA_OVERLAP_BYTES : bytes;
	}
}

/* Written data of a file, or the anonymous memory right after it, its .bss, which may have a name.
 */
static bool is_data(const struct limpet_maps *maps, size_t i)
{
	const struct limpet_map *map = &maps->list[i];

	if (map->perms[1] != 'w' || map->perms[3] != 'p')
		return false;
	return map->inode ||
	       (i && limpet_map_is_anonymous(map) && map[-1].inode && map[-1].end == map->start);
}

bool limpet_data_has(const struct limpet_maps *maps, uint64_t address, uint64_t bytes)
{
	const struct limpet_map *map = limpet_proc_maps_find(maps, address);
	const uint64_t end = address + bytes;

	if (!map || end < address)
		return false;
	/* A structure may begin on the last page of a file and go on in the memory behind it. */
	for (size_t i = (size_t)(map - maps->list); is_data(maps, i); i++) {
		if (end <= maps->list[i].end)
			return true;
		if (i + 1 == maps->count || maps->list[i + 1].start != maps->list[i].end)
			break;
	}
	return false;
}

/* Whether the file right before, or after, the mapping is mapped with code: its segments are
 * neighbours. */
static bool is_of_code(const struct limpet_maps *maps, size_t i)
{
	const struct limpet_map *map = &maps->list[i], *file = map->inode ? map : &map[-1];

	for (size_t k = i > NEIGHBOURS ? i - NEIGHBOURS : 0; k < maps->count && k <= i + NEIGHBOURS;
	     k++)
		if (limpet_map_is_code_of(maps, k, file))
			return true;
	return false;
}

static int read_map(struct data *data, struct limpet_pages *pages, const struct limpet_map *map)
{
	struct limpet_present present = {0};
	int error = limpet_present_read(
		&present, pages, map->start,
		map->end - map->start > MAP_LIMIT_BYTES ? map->start + MAP_LIMIT_BYTES : map->end);

	for (size_t k = 0; k < present.count && !error; k++)
		read_range(data, present.list[k].start, present.list[k].end);
	limpet_present_done(&present);
	return error;
}

int limpet_data_read(const struct limpet_memory_reader *memory, const struct limpet_maps *maps,
		     struct limpet_pages *pages,
		     void (*scan)(void *context, const uint64_t *data, size_t bytes,
				  uint64_t address),
		     void *context)
{
	LIMPET_FREE struct data *data = calloc(1, sizeof(*data));
	int error = 0;

	if (!data)
		return -ENOMEM;
	data->memory = memory;
	data->scan = scan;
	data->context = context;
	data->left_bytes = LIMIT_BYTES;
	/* First the data of programs and libraries, then that of other files. */
	for (int others = 0; others < 2; others++)
		for (size_t i = 0; i < maps->count && error != -ENOMEM; i++)
			if (is_data(maps, i) && is_of_code(maps, i) == !others)
				error = read_map(data, pages, &maps->list[i]);
	return error == -ENOMEM ? error : 0;
}
