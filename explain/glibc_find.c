#include "explain/glibc_find.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "explain/present.h"

/* Data is looked at in pieces that overlap by more than the state of an arena. */
#define PIECE_BYTES ((uint64_t)1 << 20)
#define OVERLAP_BYTES ((uint64_t)8192)
#define SEARCH_LIMIT_BYTES ((uint64_t)128 << 20)

struct search {
	const struct limpet_glibc_memory *memory;
	struct limpet_glibc_found *found;
	uint64_t left_bytes;
	uint64_t piece[PIECE_BYTES / 8];
};

static bool is_known(const struct limpet_glibc_found *found, uint64_t address)
{
	for (size_t i = 0; i < found->count; i++)
		if (found->mains[i].address == address)
			return true;
	return false;
}

static void look_at(struct search *search, uint64_t start, size_t bytes)
{
	struct limpet_glibc_found *found = search->found;
	struct limpet_glibc_state state;
	size_t from = 0;

	if (search->memory->read(search->memory->context, start, search->piece, bytes) < 0)
		return;
	while (found->count < LIMPET_GLIBC_COPIES &&
	       limpet_glibc_main_find(search->piece, bytes, start, from, search->memory, &state)) {
		if (!is_known(found, state.address))
			found->mains[found->count++] = state;
		from = state.address - start + 8;
	}
	if (!found->has_parameters && found->brk_end &&
	    limpet_glibc_parameters_find(search->piece, bytes, found->brk_start, found->brk_end,
					 &found->parameters))
		found->has_parameters = true;
}

static void look_through(struct search *search, const struct limpet_present *present)
{
	for (size_t i = 0; i < present->count; i++)
		for (uint64_t at = present->list[i].start; at < present->list[i].end;) {
			uint64_t bytes = present->list[i].end - at;

			if (bytes > PIECE_BYTES)
				bytes = PIECE_BYTES;
			if (bytes > search->left_bytes)
				return;
			search->left_bytes -= bytes;
			look_at(search, at, bytes);
			at += bytes == PIECE_BYTES ? bytes - OVERLAP_BYTES : bytes;
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

static void find_brk(const struct limpet_maps *maps, struct limpet_glibc_found *found)
{
	for (size_t i = 0; i < maps->count; i++) {
		if (strcmp(maps->list[i].path, "[heap]"))
			continue;
		if (!found->brk_start)
			found->brk_start = maps->list[i].start;
		found->brk_end = maps->list[i].end;
	}
}

int limpet_glibc_find(const struct limpet_glibc_memory *memory, const struct limpet_maps *maps,
		      struct limpet_pages *pages, struct limpet_glibc_found *ret_found)
{
	LIMPET_FREE struct search *search = calloc(1, sizeof(*search));
	struct limpet_glibc_found found = {.count = 0};
	int error = 0;

	if (!search)
		return -ENOMEM;
	search->memory = memory;
	search->found = &found;
	search->left_bytes = SEARCH_LIMIT_BYTES;
	find_brk(maps, &found);
	for (size_t i = 0; i < maps->count && !error; i++) {
		struct limpet_present present = {0};

		if (!is_data(maps, i))
			continue;
		error = limpet_present_read(&present, pages, maps->list[i].start,
					    maps->list[i].end);
		if (!error)
			look_through(search, &present);
		limpet_present_done(&present);
		/* What cannot be read now may be gone. */
		if (error != -ENOMEM)
			error = 0;
	}
	if (!error)
		*ret_found = found;
	return error;
}
