#include "explain/page_map.h"

#include <errno.h>

#include "explain/data.h"
#include "explain/present.h"

#define PAGE ((uint64_t)4096)

struct best {
	struct limpet_page_map_search search;
	uint64_t root;
	unsigned explained;
};

static void scan(void *context, const uint64_t *data, size_t bytes, uint64_t address)
{
	struct best *best = context;
	const struct limpet_page_map_search *search = &best->search;
	const uint64_t index = search->samples->list[0] >> search->kind->root_shift;

	for (size_t i = 0; i < bytes / 8; i++) {
		const uint64_t root = address + 8 * i - 8 * index;
		unsigned explained;

		if (!data[i] || !search->kind->may_be_of_root(search, data, bytes / 8, i) ||
		    !limpet_data_has(search->maps, root, search->kind->root_bytes))
			continue;
		explained = search->kind->explained(search, data[i]);
		if (explained <= best->explained)
			continue;
		best->explained = explained;
		best->root = root;
	}
}

int limpet_page_map_find(const struct limpet_page_map_search *search, struct limpet_pages *pages,
			 uint64_t *ret_root, bool *ret_cut)
{
	struct best best = {.search = *search};
	struct limpet_memory_share share;
	int error;

	*ret_root = 0;
	*ret_cut = false;
	if (!search->samples->count)
		return 0;
	limpet_memory_share_begin(&share, search->memory, search->kind->reads);
	best.search.memory = &share.reader;
	error = limpet_data_read(&share.reader, search->maps, pages, scan, &best);
	if (!error && best.explained >= search->kind->least)
		*ret_root = best.root;
	else
		*ret_cut = share.was_cut;
	return error;
}

int limpet_page_map_read(const struct limpet_page_map_reader *reader, uint64_t table, size_t words,
			 limpet_page_map_visit_fn *visit, void *context)
{
	struct limpet_present present = {0};
	uint64_t copy[PAGE / 8], count;
	int64_t passed = 0;

	if (reader->pages)
		passed = limpet_present_read(&present, reader->pages, table & ~(PAGE - 1),
					     (table + 8 * words + PAGE - 1) & ~(PAGE - 1));
	/* It need not begin with a page. */
	for (uint64_t at = 0; at < words && passed >= 0 && !*reader->is_cut;
	     at += count + (uint64_t)passed) {
		const uint64_t address = table + 8 * at;
		int error;

		passed = 0;
		count = (PAGE - address % PAGE) / 8;
		if (count > words - at)
			count = words - at;
		if (reader->pages && !limpet_present_end(&present, address))
			continue;
		error = limpet_memory_reader_read(reader->memory, address, copy, 8 * count);
		*reader->is_cut |= error == -ETIME;
		*reader->missed |= error != 0;
		if (!error)
			passed = visit(context, copy, count, at);
	}
	limpet_present_done(&present);
	*reader->missed |= passed < 0;
	return passed == -ENOMEM ? -ENOMEM : 0;
}
