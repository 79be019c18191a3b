#include "collector/pages/page_set.h"

#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/number_table.h"

#define BLOCK_BYTES (UINT64_C(2) << 20)
#define PAGES (BLOCK_BYTES / LIMPET_PAGE_SET_PAGE)
#define WORDS (PAGES / 64)

struct block {
	uint64_t number; /* address / BLOCK_BYTES */
	uint64_t there[WORDS];
	uint64_t now[WORDS];      /* of the scan under way */
	uint64_t expected[WORDS]; /* in it */
	uint64_t touched_ns;      /* by a fault, last */
	/* Of faults on pages that were not there, since the last scan but young ones: if one of
	 * them brought the whole block, it was a huge page. */
	uint32_t faults, node;
};

struct limpet_page_set {
	struct limpet_number_table numbers; /* of a block's number: its index + 1 */
	struct block *blocks;
	size_t count, capacity;
	uint32_t most_blocks;
	uint64_t pages;
	uint64_t young_ns;
};

struct limpet_page_set *limpet_page_set_new(uint32_t most_blocks)
{
	struct limpet_page_set *set = calloc(1, sizeof(*set));

	if (set)
		set->most_blocks = most_blocks;
	return set;
}

void limpet_page_set_free(struct limpet_page_set *set)
{
	if (!set)
		return;
	limpet_number_table_done(&set->numbers);
	free(set->blocks);
	free(set);
}

uint64_t limpet_page_set_count(const struct limpet_page_set *set)
{
	return set->pages;
}

static struct block *block_of(struct limpet_page_set *set, uint64_t address)
{
	const uint64_t number = address / BLOCK_BYTES;
	uint32_t index = limpet_number_table_find(&set->numbers, number + 1);

	if (index)
		return &set->blocks[index - 1];
	/* Checked before the number is given: each number has a block. */
	if (set->count >= set->most_blocks ||
	    limpet_reserve(&set->blocks, &set->capacity, set->count + 1, sizeof(*set->blocks)) < 0)
		return NULL;
	index = limpet_number_table_of(&set->numbers, number + 1);
	if (!index)
		return NULL;
	set->blocks[set->count++] = (struct block){.number = number};
	return &set->blocks[index - 1];
}

static unsigned page_of(uint64_t address)
{
	return (unsigned)(address % BLOCK_BYTES / LIMPET_PAGE_SET_PAGE);
}

int limpet_page_set_touch(struct limpet_page_set *set, uint64_t address, uint32_t node,
			  uint64_t time_ns)
{
	struct block *block = block_of(set, address);
	const unsigned page = page_of(address);
	const uint64_t bit = UINT64_C(1) << page % 64;
	uint64_t *there;

	if (!block)
		return -ENOMEM;
	there = &block->there[page / 64];
	if (time_ns > block->touched_ns)
		block->touched_ns = time_ns;
	if (*there & bit)
		return 1;
	*there |= bit;
	set->pages++;
	block->faults++;
	block->node = node;
	return 0;
}

/* ---------------------------------------------------------------- scans */

void limpet_page_set_scan_begin(struct limpet_page_set *set, uint64_t young_ns)
{
	for (size_t i = 0; i < set->count; i++) {
		memset(set->blocks[i].now, 0, sizeof(set->blocks[i].now));
		memset(set->blocks[i].expected, 0, sizeof(set->blocks[i].expected));
	}
	set->young_ns = young_ns;
}

void limpet_page_set_expect(struct limpet_page_set *set, uint64_t address)
{
	struct block *block = block_of(set, address);

	if (block)
		block->expected[page_of(address) / 64] |= UINT64_C(1) << page_of(address) % 64;
}

int limpet_page_set_present(struct limpet_page_set *set, uint64_t start, uint64_t end)
{
	int error = 0;

	for (uint64_t at = start; at < end;) {
		struct block *block = block_of(set, at);
		const uint64_t block_end = (at / BLOCK_BYTES + 1) * BLOCK_BYTES;

		if (!block) {
			error = -ENOMEM;
			at = block_end;
			continue;
		}
		for (; at < end && at < block_end; at += LIMPET_PAGE_SET_PAGE)
			block->now[page_of(at) / 64] |= UINT64_C(1) << page_of(at) % 64;
	}
	return error;
}

static bool is_whole(const struct block *block)
{
	for (unsigned i = 0; i < WORDS; i++)
		if (block->now[i] != UINT64_MAX)
			return false;
	return true;
}

static void report(const struct block *block, unsigned word, uint64_t bits, bool came,
		   const struct limpet_page_set_changes *changes)
{
	const uint32_t node = block->faults == 1 && is_whole(block) ? block->node : 0;

	for (; bits; bits &= bits - 1) {
		const uint64_t page = block->number * BLOCK_BYTES +
				      (word * 64 + (unsigned)__builtin_ctzll(bits)) *
					      (uint64_t)LIMPET_PAGE_SET_PAGE;

		if (came)
			changes->unfaulted(changes->context, page, node);
		else
			changes->gone(changes->context, page);
	}
}

static bool compare(struct limpet_page_set *set, struct block *block,
		    const struct limpet_page_set_changes *changes)
{
	bool is_young = block->touched_ns > set->young_ns;
	bool any = false;

	for (unsigned i = 0; i < WORDS; i++) {
		const uint64_t gone =
			is_young ? 0 : block->there[i] & ~block->now[i] & ~block->expected[i];
		const uint64_t came = block->now[i] & ~block->there[i];

		report(block, i, gone, false, changes);
		report(block, i, came, true, changes);
		block->there[i] = (block->there[i] & ~gone) | came;
		set->pages += (uint64_t)__builtin_popcountll(came);
		set->pages -= (uint64_t)__builtin_popcountll(gone);
		any |= block->there[i] != 0;
	}
	for (unsigned i = 0; i < WORDS; i++)
		is_young |= (block->expected[i] & ~block->now[i]) != 0;
	if (!is_young)
		block->faults = 0;
	return any;
}

/* Gives the empty blocks' places to others. If there is no memory for the numbers, all stay. */
static void forget_empty(struct limpet_page_set *set, size_t empty)
{
	size_t kept = 0;

	if (empty * 2 < set->count)
		return;
	limpet_number_table_clear(&set->numbers);
	for (size_t i = 0; i < set->count; i++) {
		const struct block *block = &set->blocks[i];
		bool any = false;

		for (unsigned k = 0; k < WORDS; k++)
			any |= block->there[k] != 0;
		/* The table had room for all of these before. */
		if (any && limpet_number_table_of(&set->numbers, block->number + 1) == kept + 1)
			set->blocks[kept++] = *block;
	}
	set->count = kept;
}

void limpet_page_set_scan_end(struct limpet_page_set *set,
			      const struct limpet_page_set_changes *changes)
{
	size_t empty = 0;

	for (size_t i = 0; i < set->count; i++)
		empty += !compare(set, &set->blocks[i], changes);
	forget_empty(set, empty);
}
