#include "explain/runtimes/v8_copy.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* A collection takes longer than what is then in use takes to copy. */
#define TRIES 8u
/* Of copies that are kept; what is beyond is copied when it is asked for. */
#define KEPT_BYTES ((uint64_t)256 << 20)

struct kept {
	struct limpet_v8_copied copied;
	uint8_t *bytes; /* NULL: not kept */
};

struct limpet_v8_copies {
	const struct limpet_memory_reader *memory;
	struct limpet_v8_heap *heap;
	struct kept *kept; /* for each page */
	uint64_t kept_bytes;
	uint8_t copy[LIMPET_V8_PAGE_BYTES];
};

/* Block by block, if not all are present. */
static void copy_area(const struct limpet_memory_reader *memory, const struct limpet_v8_page *page,
		      uint8_t *copy, struct limpet_v8_copied *copied)
{
	copied->bytes =
		limpet_v8_page_is_large(page) && LIMPET_V8_LARGE_BYTES < page->end - page->start
			? LIMPET_V8_LARGE_BYTES
			: page->end - page->start;
	copied->start = page->start;
	copied->end = page->end;
	if (limpet_memory_reader_read(memory, page->start, copy, copied->bytes) == 0)
		return;
	memset(copy, 0, copied->bytes);
	for (uint64_t at = 0, bytes; at < copied->bytes; at += bytes) {
		const uint64_t address = page->start + at;

		bytes = LIMPET_V8_BLOCK_BYTES - address % LIMPET_V8_BLOCK_BYTES;
		if (bytes > copied->bytes - at)
			bytes = copied->bytes - at;
		if (limpet_memory_reader_read(memory, address, copy + at, bytes) < 0)
			copied->absent_bytes += bytes;
	}
}

/* Nothing, if nothing in it is in use. */
static void copy_page(struct limpet_v8_copies *copies, size_t index,
		      struct limpet_v8_copied *copied)
{
	const struct limpet_v8_heap_page *it = &copies->heap->pages[index];
	struct limpet_v8_page page;

	memset(copied, 0, sizeof(*copied));
	if (it->is_unused || !limpet_v8_page_read(copies->memory, it->page.address, &page) ||
	    page.bytes != it->page.bytes || (page.flags & LIMPET_V8_FLAG_FROM))
		return;
	copied->gap_count = limpet_v8_heap_gaps(copies->memory, copies->heap, &page, copied->gaps);
	copy_area(copies->memory, &page, copies->copy, copied);
}

/* ------------------------------------------------------------------ the young generation */

static bool is_young(const struct limpet_v8_heap_page *page)
{
	return page->page.flags & LIMPET_V8_FLAGS_YOUNG;
}

static void forget(struct limpet_v8_copies *copies)
{
	for (size_t i = 0; i < copies->heap->count; i++) {
		free(copies->kept[i].bytes);
		copies->kept[i].bytes = NULL;
	}
	copies->kept_bytes = 0;
}

static int keep(struct limpet_v8_copies *copies, size_t index)
{
	struct kept *kept = &copies->kept[index];

	copy_page(copies, index, &kept->copied);
	kept->bytes = malloc(kept->copied.bytes + 1);
	if (!kept->bytes)
		return -ENOMEM;
	memcpy(kept->bytes, copies->copy, kept->copied.bytes);
	copies->kept_bytes += kept->copied.bytes;
	return 0;
}

/* Each collection exchanges the two semispaces. */
static bool was_collected(const struct limpet_v8_copies *copies)
{
	for (size_t i = 0; i < copies->heap->count; i++) {
		const struct limpet_v8_heap_page *it = &copies->heap->pages[i];
		struct limpet_v8_page page;

		if (is_young(it) &&
		    (!limpet_v8_page_read(copies->memory, it->page.address, &page) ||
		     ((page.flags ^ it->page.flags) & LIMPET_V8_FLAGS_YOUNG)))
			return true;
	}
	return false;
}

static int copy_young(struct limpet_v8_copies *copies)
{
	struct limpet_v8_heap *heap = copies->heap;
	int error = 0;

	for (unsigned tries = 0; tries < TRIES && !error; tries++) {
		forget(copies);
		limpet_v8_heap_refresh(copies->memory, heap);
		for (size_t i = 0; i < heap->count && !error; i++)
			if (is_young(&heap->pages[i]) && !heap->pages[i].is_unused &&
			    copies->kept_bytes < KEPT_BYTES)
				error = keep(copies, i);
		if (!was_collected(copies))
			break;
	}
	return error;
}

int limpet_v8_copies_new(const struct limpet_memory_reader *memory, struct limpet_v8_heap *heap,
			 struct limpet_v8_copies **ret)
{
	struct limpet_v8_copies *copies = calloc(1, sizeof(*copies));
	int error;

	if (!copies)
		return -ENOMEM;
	copies->memory = memory;
	copies->heap = heap;
	copies->kept = calloc(heap->count + 1, sizeof(*copies->kept));
	error = copies->kept ? copy_young(copies) : -ENOMEM;
	if (error)
		limpet_v8_copies_free(copies);
	else
		*ret = copies;
	return error;
}

void limpet_v8_copies_free(struct limpet_v8_copies *copies)
{
	if (!copies)
		return;
	if (copies->kept)
		forget(copies);
	free(copies->kept);
	free(copies);
}

const uint8_t *limpet_v8_copies_get(struct limpet_v8_copies *copies, size_t index,
				    struct limpet_v8_copied *ret)
{
	const struct kept *kept = &copies->kept[index];

	if (kept->bytes) {
		*ret = kept->copied;
		return kept->bytes;
	}
	copy_page(copies, index, ret);
	return copies->copy;
}
