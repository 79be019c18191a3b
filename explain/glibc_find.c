#include "explain/glibc_find.h"

#include <string.h>

#include "explain/data.h"

#define TRIES 4

struct search {
	const struct limpet_source *memory;
	struct limpet_glibc_found *found;
};

static bool is_known(const struct limpet_glibc_found *found, uint64_t address)
{
	for (size_t i = 0; i < found->count; i++)
		if (found->mains[i].address == address)
			return true;
	return false;
}

static void look(void *context, const uint64_t *data, size_t bytes, uint64_t address)
{
	const struct search *search = context;
	struct limpet_glibc_found *found = search->found;
	struct limpet_glibc_state state;
	size_t from = 0;

	while (found->count < LIMPET_GLIBC_COPIES &&
	       limpet_glibc_main_find(data, bytes, address, from, search->memory, &state)) {
		if (!is_known(found, state.address))
			found->mains[found->count++] = state;
		from = state.address - address + 8;
	}
	if (!found->has_parameters && found->brk_end &&
	    limpet_glibc_parameters_find(data, bytes, found->brk_start, found->brk_end,
					 &found->parameters))
		found->has_parameters = true;
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

int limpet_glibc_find(const struct limpet_source *memory, const struct limpet_maps *maps,
		      struct limpet_pages *pages, struct limpet_glibc_found *ret_found)
{
	struct limpet_glibc_found found = {.count = 0};
	struct search search = {.memory = memory, .found = &found};
	int error = 0;

	limpet_glibc_find_brk(maps, &found);
	/* While the process allocates, its lists may be seen in the middle of a change. */
	for (int i = 0; i < TRIES && !error && !found.count; i++)
		error = limpet_data_read(memory, maps, pages, look, &search);
	if (!error)
		*ret_found = found;
	return error;
}
