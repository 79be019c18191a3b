#include "injector/site_book.h"

#include <assert.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

struct limpet_site_book *limpet_site_book_new(void)
{
	struct limpet_site_book *book = calloc(1, sizeof(*book));

	if (!book)
		return NULL;
	book->period = 1;
	book->site_count = 1;
	book->site_room = 256;
	book->node_room = 1024;
	book->sites =
		aligned_alloc(_Alignof(struct limpet_site), book->site_room * sizeof(*book->sites));
	book->touched_nodes = calloc(book->node_room / 64, sizeof(*book->touched_nodes));
	book->touched = calloc(book->site_room, sizeof(*book->touched));
	book->site_of_node = calloc(book->node_room, sizeof(*book->site_of_node));
	if (!book->sites || !book->touched || !book->site_of_node || !book->touched_nodes) {
		limpet_site_book_free(book);
		return NULL;
	}
	book->sites[0] = (struct limpet_site){0};
	return book;
}

void limpet_site_book_free(struct limpet_site_book *book)
{
	if (!book)
		return;
	free(book->sites);
	free(book->touched);
	free(book->touched_nodes);
	free(book->site_of_node);
	free(book);
}

/* Makes `*array` hold `room` words; the new ones are zero. */
static bool grow_words(void **array, size_t old_bytes, size_t bytes)
{
	uint8_t *grown = realloc(*array, bytes);

	if (!grown)
		return false;
	memset(grown + old_bytes, 0, bytes - old_bytes);
	*array = grown;
	return true;
}

static bool grow_nodes(struct limpet_site_book *book, uint32_t node)
{
	size_t old = book->node_room, room = old;
	void *sites = book->site_of_node, *bits = book->touched_nodes;
	bool grown;

	while (room <= node)
		room *= 2;
	grown = grow_words(&sites, old * sizeof(*book->site_of_node),
			   room * sizeof(*book->site_of_node));
	book->site_of_node = sites;
	grown = grown && grow_words(&bits, old / 8, room / 8);
	book->touched_nodes = bits;
	if (grown)
		book->node_room = room;
	return grown;
}

static bool grow_sites(struct limpet_site_book *book)
{
	size_t room = book->site_room * 2;
	struct limpet_site *sites =
		aligned_alloc(_Alignof(struct limpet_site), room * sizeof(*sites));
	uint32_t *touched;

	if (!sites)
		return false;
	memcpy(sites, book->sites, book->site_count * sizeof(*sites));
	free(book->sites);
	book->sites = sites;
	touched = reallocarray(book->touched, room, sizeof(*touched));
	if (!touched)
		return false;
	book->touched = touched;
	book->site_room = room;
	return true;
}

uint32_t limpet_site_book_enter(struct limpet_site_book *book, uint32_t node)
{
	uint32_t at;

	if (node >= book->node_room && !grow_nodes(book, node))
		return 0;
	at = book->site_of_node[node];
	if (at)
		return at;
	if (book->site_count == book->site_room && !grow_sites(book))
		return 0;
	at = (uint32_t)book->site_count++;
	book->site_of_node[node] = at;
	book->sites[at] = (struct limpet_site){.node = node};
	return at;
}

void limpet_site_book_begin(struct limpet_site_book *book, uint32_t number)
{
	struct limpet_site *site = &book->sites[number];

	*site = (struct limpet_site){.node = site->node,
				     .period = book->period,
				     .live_bytes = site->live_bytes,
				     .held_turn = site->held_turn,
				     .live_blocks = site->live_blocks,
				     .held_blocks = site->held_blocks,
				     .held_bytes = site->held_bytes};
	book->touched_nodes[site->node / 64] |= 1ull << (site->node % 64);
	book->touched[book->touched_count++] = number;
}

size_t limpet_site_book_touched(const struct limpet_site_book *book)
{
	return book->touched_count;
}

size_t limpet_site_book_sort(struct limpet_site_book *book)
{
	size_t count = 0;

	for (size_t word = 0; count < book->touched_count; word++)
		for (uint64_t bits = book->touched_nodes[word]; bits; bits &= bits - 1)
			book->touched[count++] =
				book->site_of_node[word * 64 + (unsigned)__builtin_ctzll(bits)];
	return count;
}

const struct limpet_site *limpet_site_book_at(const struct limpet_site_book *book, size_t index)
{
	assert(index < book->touched_count);
	return &book->sites[book->touched[index]];
}

const struct limpet_site *limpet_site_book_next(const struct limpet_site_book *book, uint32_t *node)
{
	for (uint32_t at = *node; at < book->node_room; at++)
		if (book->site_of_node[at]) {
			*node = at + 1;
			return &book->sites[book->site_of_node[at]];
		}
	return NULL;
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
	for (size_t i = 0; i < book->touched_count; i++)
		book->touched_nodes[book->sites[book->touched[i]].node / 64] = 0;
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
