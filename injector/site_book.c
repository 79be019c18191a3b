#include "injector/site_book.h"

#include <assert.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

struct limpet_site_book {
	uint32_t period;           /* from 1 */
	struct limpet_site *sites; /* entry 0 stands for none */
	size_t site_count, site_room;
	uint32_t *site_of_node; /* 0: none yet */
	size_t node_room;
	uint32_t *touched; /* sites that were looked up in this period; has room for all */
	size_t touched_count;
	uint32_t growing;
	uint64_t growing_bytes;
};

struct limpet_site_book *limpet_site_book_new(void)
{
	struct limpet_site_book *book = calloc(1, sizeof(*book));

	if (!book)
		return NULL;
	book->period = 1;
	book->site_count = 1;
	book->site_room = 256;
	book->node_room = 1024;
	book->sites = calloc(book->site_room, sizeof(*book->sites));
	book->touched = calloc(book->site_room, sizeof(*book->touched));
	book->site_of_node = calloc(book->node_room, sizeof(*book->site_of_node));
	if (!book->sites || !book->touched || !book->site_of_node) {
		limpet_site_book_free(book);
		return NULL;
	}
	return book;
}

void limpet_site_book_free(struct limpet_site_book *book)
{
	if (!book)
		return;
	free(book->sites);
	free(book->touched);
	free(book->site_of_node);
	free(book);
}

static bool grow_nodes(struct limpet_site_book *book, uint32_t node)
{
	size_t room = book->node_room;
	uint32_t *grown;

	while (room <= node)
		room *= 2;
	grown = reallocarray(book->site_of_node, room, sizeof(*grown));
	if (!grown)
		return false;
	memset(grown + book->node_room, 0, (room - book->node_room) * sizeof(*grown));
	book->site_of_node = grown;
	book->node_room = room;
	return true;
}

static bool grow_sites(struct limpet_site_book *book)
{
	size_t room = book->site_room * 2;
	struct limpet_site *sites = reallocarray(book->sites, room, sizeof(*sites));
	uint32_t *touched;

	if (!sites)
		return false;
	book->sites = sites;
	touched = reallocarray(book->touched, room, sizeof(*touched));
	if (!touched)
		return false;
	book->touched = touched;
	book->site_room = room;
	return true;
}

struct limpet_site *limpet_site_book_find(struct limpet_site_book *book, uint32_t node)
{
	struct limpet_site *site;
	uint32_t at;

	if (node >= book->node_room && !grow_nodes(book, node))
		return NULL;
	at = book->site_of_node[node];
	if (!at) {
		if (book->site_count == book->site_room && !grow_sites(book))
			return NULL;
		at = (uint32_t)book->site_count++;
		book->site_of_node[node] = at;
		book->sites[at] = (struct limpet_site){.node = node};
	}
	site = &book->sites[at];
	if (site->period != book->period) {
		*site = (struct limpet_site){
			.node = node, .period = book->period, .live_bytes = site->live_bytes};
		book->touched[book->touched_count++] = at;
	}
	return site;
}

static int compare_nodes(const void *a, const void *b, void *data)
{
	const struct limpet_site *sites = data;
	uint32_t left = sites[*(const uint32_t *)a].node, right = sites[*(const uint32_t *)b].node;

	return left < right ? -1 : left > right;
}

size_t limpet_site_book_sort(struct limpet_site_book *book)
{
	qsort_r(book->touched, book->touched_count, sizeof(*book->touched), compare_nodes,
		book->sites);
	return book->touched_count;
}

const struct limpet_site *limpet_site_book_at(const struct limpet_site_book *book, size_t index)
{
	assert(index < book->touched_count);
	return &book->sites[book->touched[index]];
}

static void update_growing(struct limpet_site_book *book)
{
	uint32_t best = book->growing;
	/* When the leader fell, one that was not touched may lead now. */
	bool all = book->sites[best].live_bytes < book->growing_bytes;
	size_t count = all ? book->site_count : book->touched_count;

	for (size_t i = 0; i < count; i++) {
		uint32_t at = all ? (uint32_t)i : book->touched[i];

		if (book->sites[at].live_bytes > book->sites[best].live_bytes)
			best = at;
	}
	book->growing = best;
	book->growing_bytes = book->sites[best].live_bytes;
}

void limpet_site_book_turn(struct limpet_site_book *book)
{
	update_growing(book);
	book->touched_count = 0;
	book->period++;
}

uint32_t limpet_site_book_growing(const struct limpet_site_book *book, uint64_t *ret_bytes)
{
	const struct limpet_site *site = &book->sites[book->growing];

	if (!site->live_bytes)
		return 0;
	*ret_bytes = site->live_bytes;
	return site->node;
}
