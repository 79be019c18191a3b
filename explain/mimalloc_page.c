#include "explain/mimalloc_page.h"

#include <string.h>

#define PAGE ((uint64_t)4096)
/* The least block that has a page to itself. */
#define ALONE_LEAST_BYTES ((uint64_t)64 << 10)
/* Of so many pages one may be wrong: it changes while it is read. */
#define WRONG_SHARE 50u

uint64_t limpet_mimalloc_get(const unsigned char *copy, size_t at, size_t bytes)
{
	uint64_t value = 0;

	memcpy(&value, copy + at, bytes);
	return value;
}

static bool is_in(uint64_t address, const struct limpet_mimalloc_page *page)
{
	return address >= page->start && address < page->end && address % 8 == 0;
}

/* page-queue.c: mi_bin. Sizes up to 64 bytes by 8, then four for each power of two. */
static bool is_size(uint64_t bytes, bool is_alone)
{
	uint64_t words = bytes / 8;

	if (!words || bytes % 8)
		return false;
	if (is_alone && bytes >= ALONE_LEAST_BYTES && bytes % PAGE == 0)
		return true;
	while (words > 8 && words % 2 == 0)
		words /= 2;
	return words <= 8;
}

bool limpet_mimalloc_page_is_right(const struct limpet_mimalloc_page *page)
{
	/* It is being made. */
	if (!page->capacity)
		return !page->used && !page->free && !page->waiting && !page->is_one_put &&
		       page->block_bytes <= page->end - page->start;
	return page->start < page->end && page->capacity <= page->reserved &&
	       page->used <= page->capacity &&
	       page->block_bytes <= (page->end - page->start) / page->reserved &&
	       is_size(page->block_bytes, page->reserved == 1) &&
	       (!page->free || is_in(page->free, page)) &&
	       (!page->waiting || is_in(page->waiting, page));
}

/* internal.h: mi_ptr_decode. The end is encoded as the address of the description. */
static uint64_t decode(const struct limpet_mimalloc_page *page, uint64_t word)
{
	const unsigned turn = page->keys[0] & 63;
	const uint64_t turned = word - page->keys[0];
	const uint64_t block =
		(turn ? turned >> turn | turned << (64 - turn) : turned) ^ page->keys[1];

	return block == page->address ? 0 : block;
}

bool limpet_mimalloc_count_page(struct limpet_mimalloc_count *count,
				const struct limpet_mimalloc_page *page)
{
	uint64_t freed = page->is_one_put, block = page->waiting;

	while (block) {
		uint64_t word;

		if (++freed > page->used || !is_in(block, page) ||
		    limpet_memory_reader_read(count->memory, block, &word, sizeof(word)) < 0)
			return false;
		block = page->keys[0] ? decode(page, word) : word;
	}
	if (freed > page->used)
		return false;
	limpet_class_tally_note(count->tally, page->block_bytes, page->used - freed);
	count->right++;
	return true;
}

void limpet_mimalloc_count_miss(struct limpet_mimalloc_count *count, uint64_t pages)
{
	count->wrong += pages;
	count->tally->is_cut = true;
}

void limpet_mimalloc_count_fail(struct limpet_mimalloc_count *count)
{
	if (limpet_memory_reader_is_spent(count->memory))
		count->tally->is_cut = true;
	else
		count->tally->is_unknown = true;
}

void limpet_mimalloc_count_end(struct limpet_mimalloc_count *count)
{
	count->tally->is_cut |= limpet_memory_reader_is_spent(count->memory);
	if (!count->right || count->wrong > count->right / WRONG_SHARE)
		limpet_mimalloc_count_fail(count);
}
