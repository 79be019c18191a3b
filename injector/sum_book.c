#include "injector/sum_book.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct limpet_sum_book {
	struct limpet_site *sites;
	size_t count, room;
	uint32_t *site_of_node; /* index + 1 */
	size_t node_room;
	bool sorted;
	struct limpet_ledger_size sizes[LIMPET_TRACE_SIZE_BUCKETS];
	struct limpet_ledger_peak peak;
	bool any;
};

struct limpet_sum_book *limpet_sum_book_new(void)
{
	return calloc(1, sizeof(struct limpet_sum_book));
}

void limpet_sum_book_free(struct limpet_sum_book *book)
{
	if (!book)
		return;
	free(book->sites);
	free(book->site_of_node);
	free(book);
}

static bool want_node(struct limpet_sum_book *book, uint32_t node)
{
	size_t room = book->node_room ? book->node_room : 1024;
	uint32_t *grown;

	if (node < book->node_room)
		return true;
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

static bool want_site(struct limpet_sum_book *book)
{
	size_t room = book->room ? book->room * 2 : 256;
	struct limpet_site *sites;

	if (book->count < book->room)
		return true;
	sites = aligned_alloc(_Alignof(struct limpet_site), room * sizeof(*sites));
	if (!sites)
		return false;
	if (book->count)
		memcpy(sites, book->sites, book->count * sizeof(*sites));
	free(book->sites);
	book->sites = sites;
	book->room = room;
	return true;
}

static struct limpet_site *find(struct limpet_sum_book *book, uint32_t node)
{
	if (!want_node(book, node))
		return NULL;
	if (!book->site_of_node[node]) {
		if (!want_site(book))
			return NULL;
		book->sites[book->count] = (struct limpet_site){.node = node};
		book->site_of_node[node] = (uint32_t)++book->count;
		book->sorted = false;
	}
	return &book->sites[book->site_of_node[node] - 1];
}

static void add_site(struct limpet_site *to, const struct limpet_site *from)
{
	to->allocations += from->allocations;
	to->allocated_bytes += from->allocated_bytes;
	to->frees += from->frees;
	to->freed_bytes += from->freed_bytes;
	to->temporary += from->temporary;
	to->untracked += from->untracked;
	to->untracked_bytes += from->untracked_bytes;
	to->mmaps += from->mmaps;
	to->mmap_bytes += from->mmap_bytes;
	to->unmapped_parts += from->unmapped_parts;
	to->unmapped_bytes += from->unmapped_bytes;
}

int limpet_sum_book_add(struct limpet_sum_book *book, struct limpet_ledger *ledger)
{
	const struct limpet_ledger_size *sizes = limpet_ledger_period_sizes(ledger);
	struct limpet_ledger_peak peak = limpet_ledger_peak(ledger);
	size_t count = limpet_ledger_period_sites(ledger);
	int code = 0;

	for (size_t i = 0; i < count; i++) {
		const struct limpet_site *from = limpet_ledger_site_at(ledger, i);
		struct limpet_site *to = find(book, from->node);

		if (to)
			add_site(to, from);
		else
			code = -ENOMEM;
	}
	for (unsigned i = 0; i < LIMPET_TRACE_SIZE_BUCKETS; i++) {
		book->sizes[i].allocations += sizes[i].allocations;
		book->sizes[i].bytes += sizes[i].bytes;
	}
	peak.rows = 0;
	if (!book->any || peak.bytes > book->peak.bytes) {
		book->peak = peak;
	} else {
		book->peak.capture_bytes = peak.capture_bytes;
		book->peak.capture_ns = peak.capture_ns;
	}
	book->any = true;
	return code;
}

void limpet_sum_book_clear(struct limpet_sum_book *book)
{
	for (size_t i = 0; i < book->count; i++)
		book->site_of_node[book->sites[i].node] = 0;
	book->count = 0;
	book->any = false;
	memset(book->sizes, 0, sizeof(book->sizes));
}

static int compare(const void *a, const void *b)
{
	const struct limpet_site *left = a, *right = b;

	return left->node < right->node ? -1 : left->node > right->node;
}

size_t limpet_sum_book_sort(struct limpet_sum_book *book)
{
	if (book->sorted || !book->count)
		return book->count;
	qsort(book->sites, book->count, sizeof(*book->sites), compare);
	for (size_t i = 0; i < book->count; i++)
		book->site_of_node[book->sites[i].node] = (uint32_t)i + 1;
	book->sorted = true;
	return book->count;
}

const struct limpet_site *limpet_sum_book_at(const struct limpet_sum_book *book, size_t index)
{
	return &book->sites[index];
}

const struct limpet_ledger_size *limpet_sum_book_sizes(const struct limpet_sum_book *book)
{
	return book->sizes;
}

struct limpet_ledger_peak limpet_sum_book_peak(const struct limpet_sum_book *book)
{
	return book->peak;
}
