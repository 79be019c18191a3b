#include "explain/glibc_find.h"

#include <errno.h>
#include <string.h>

#include "explain/data.h"
#include "explain/glibc_wait.h"
#include "injector/proc/target_process.h"

#define PAGE 4096u

struct search {
	const struct limpet_memory_reader *memory;
	struct limpet_glibc_found *found;
	bool refused; /* something that may be a main arena that was changing */
	/* From the parameters that were found to the next main arena. */
	uint64_t distance;
};

/* Parts of data overlap; two arenas never do. */
static bool is_known(const struct limpet_glibc_found *found, const struct limpet_glibc_state *state)
{
	for (size_t i = 0; i < found->count; i++)
		if (state->address < found->mains[i].end && found->mains[i].address < state->end)
			return true;
	return false;
}

/* To the next main arena that is known by now. malloc/malloc.c defines both, so they follow each
 * other, and are found in one part of data. */
static uint64_t distance_to_main(const struct limpet_glibc_found *found, uint64_t address)
{
	uint64_t least = UINT64_MAX;

	for (size_t i = 0; i < found->count; i++) {
		const uint64_t main = found->mains[i].address;
		const uint64_t distance = address > main ? address - main : main - address;

		if (distance < least)
			least = distance;
	}
	return least;
}

static void find_parameters(struct search *search, const struct limpet_glibc_data *data)
{
	struct limpet_glibc_found *found = search->found;
	struct limpet_glibc_parameters parameters;
	size_t end = 0;

	while (limpet_glibc_parameters_find(data, end, found->brk_start, found->brk_end,
					    &parameters, &end)) {
		const uint64_t distance = distance_to_main(found, data->address + end);

		if (found->has_parameters && distance >= search->distance)
			continue;
		found->has_parameters = true;
		found->parameters = parameters;
		search->distance = distance;
	}
}

static void scan(void *context, const uint64_t *words, size_t bytes, uint64_t address)
{
	const struct limpet_glibc_data data = {words, bytes, address};
	struct search *search = context;
	struct limpet_glibc_found *found = search->found;
	struct limpet_glibc_state state;
	unsigned refused = 0;
	size_t from = 0;

	while (found->count < LIMPET_GLIBC_COPIES &&
	       limpet_glibc_main_find(&data, from, search->memory, &state, &refused)) {
		if (!is_known(found, &state))
			found->mains[found->count++] = state;
		from = state.end - address;
	}
	search->refused |= refused > 0;
	if (found->brk_end)
		find_parameters(search, &data);
}

void limpet_glibc_find_brk(const struct limpet_maps *maps, struct limpet_glibc_found *found)
{
	found->brk_start = found->brk_end = 0;
	for (size_t i = 0; i < maps->count; i++) {
		if (strcmp(maps->list[i].path, "[heap]"))
			continue;
		if (!found->brk_start)
			found->brk_start = maps->list[i].start;
		found->brk_end = maps->list[i].end;
	}
}

/* Whether a page that the process has written to is not present. */
static bool is_swapped(struct limpet_pages *pages, const struct limpet_memory_reader *memory,
		       const struct limpet_map *map)
{
	struct limpet_page_range ranges[LIMPET_PAGES_RANGES];
	uint64_t word;

	for (uint64_t at = map->start; at < map->end;) {
		int count = limpet_pages_next(pages, at, map->end, true, ranges, &at);

		if (count < 0)
			return false;
		for (int i = 0; i < count; i++)
			for (uint64_t page = ranges[i].start; page < ranges[i].end; page += PAGE)
				if (limpet_memory_reader_read(memory, page, &word, sizeof(word)) ==
				    -ENODATA)
					return true;
	}
	return false;
}

enum limpet_glibc_library limpet_glibc_find_library(const struct limpet_target *target,
						    const struct limpet_memory_reader *memory,
						    const struct limpet_maps *maps)
{
	enum limpet_glibc_library library = LIMPET_GLIBC_NO_LIBRARY;
	struct limpet_pages *pages;

	if (limpet_pages_new(target, LIMPET_PAGES_SCAN, &pages) < 0)
		return library;
	for (size_t i = 0; i < maps->count; i++) {
		const struct limpet_map *map = &maps->list[i];
		const char *name = strrchr(map->path, '/');

		if (!map->inode || !name ||
		    (strncmp(name, "/libc.so.6", strlen("/libc.so.6")) != 0 &&
		     strncmp(name, "/libc-2.", strlen("/libc-2.")) != 0))
			continue;
		if (!library)
			library = LIMPET_GLIBC_LIBRARY;
		if (!strncmp(map->perms, "rw-p", 4) && is_swapped(pages, memory, map))
			library = LIMPET_GLIBC_LIBRARY_ABSENT;
	}
	limpet_pages_free(pages);
	return library;
}

int limpet_glibc_find(const struct limpet_memory_reader *memory, const struct limpet_maps *maps,
		      struct limpet_pages *pages, struct limpet_glibc_found *ret_found)
{
	struct limpet_glibc_found found = {.count = 0};
	struct search search = {.memory = memory, .found = &found};
	struct limpet_glibc_wait wait = LIMPET_GLIBC_WAIT(LIMPET_GLIBC_WAIT_NS);
	int error = 0;

	limpet_glibc_find_brk(maps, &found);
	/* While the process allocates, its lists may be seen in the middle of a change. */
	do {
		search.refused = false;
		error = limpet_data_read(memory, maps, pages, scan, &search);
	} while (!error && !found.count && search.refused && limpet_glibc_wait(&wait, memory));
	if (!error)
		*ret_found = found;
	return error;
}
