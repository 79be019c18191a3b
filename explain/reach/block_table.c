#include "explain/reach/block_table.h"

#include <stdlib.h>

#include "common/array.h"
#include "explain/reach/large_array.h"

/* Two levels: a leaf for each GiB, with the number + 1 of the first block that starts in each page;
 * 0: none does. A search starts from there; in a page where none starts, it goes over all. */
#define CHUNK_ALIGN 16u /* of glibc's malloc: a block ends 8 bytes beyond a multiple of it */
#define PAGE_SHIFT 12u
#define LEAF_SHIFT 30u
#define LEAF_PAGES ((size_t)1 << (LEAF_SHIFT - PAGE_SHIFT))
#define LEAVES ((size_t)1 << 17) /* addresses of 47 bits */
/* Blocks are multiples of 16 bytes. */
#define PAGE_BLOCKS 256u

void limpet_block_table_done(struct limpet_block_table *table)
{
	for (size_t i = 0; table->leaves && i < LEAVES; i++)
		free(table->leaves[i]);
	free(table->leaves);
	free(table->starts);
	free(table->words);
	free(table->flags);
	*table = (struct limpet_block_table){0};
}

int limpet_block_table_begin(struct limpet_block_table *table, size_t most)
{
	if (most >= LIMPET_BLOCKS_LIMIT)
		return -ENOMEM;
	table->starts = limpet_large_new(most + 1, sizeof(*table->starts));
	table->words = limpet_large_new(most + 1, sizeof(*table->words));
	table->flags = limpet_large_new(most + 1, sizeof(*table->flags));
	table->leaves = calloc(LEAVES, sizeof(*table->leaves));
	table->capacity = most;
	return table->starts && table->words && table->flags && table->leaves ? 0 : -ENOMEM;
}

void limpet_block_table_add(struct limpet_block_table *table, uint64_t start, uint64_t bytes)
{
	const size_t i = table->count;
	const uint64_t words = bytes / 8 < UINT32_MAX ? bytes / 8 : UINT32_MAX;

	if (i == table->capacity || !words || start % 8 || start >> LEAF_SHIFT >= LEAVES ||
	    (i && start < limpet_block_end(table, (uint32_t)i - 1)))
		return;
	table->starts[i] = start;
	table->words[i] = (uint32_t)words;
	table->count++;
}

int limpet_block_table_end(struct limpet_block_table *table)
{
	for (size_t i = 0; i < table->count; i++) {
		const uint64_t start = table->starts[i];
		uint32_t **leaf = &table->leaves[start >> LEAF_SHIFT], *entry;

		if (!*leaf)
			*leaf = calloc(LEAF_PAGES, sizeof(**leaf));
		if (!*leaf)
			return -ENOMEM;
		entry = &(*leaf)[start >> PAGE_SHIFT & (LEAF_PAGES - 1)];
		if (!*entry)
			*entry = (uint32_t)i + 1;
	}
	table->low = table->count ? table->starts[0] : 0;
	table->high = table->count ? limpet_block_end(table, (uint32_t)table->count - 1) : 0;
	return 0;
}

/* How many blocks start at or below this address. */
static size_t count_up_to(const struct limpet_block_table *table, uint64_t address)
{
	const uint32_t *leaf =
		address >> LEAF_SHIFT < LEAVES ? table->leaves[address >> LEAF_SHIFT] : NULL;
	const uint32_t entry = leaf ? leaf[address >> PAGE_SHIFT & (LEAF_PAGES - 1)] : 0;
	size_t from = 0, count = table->count;

	if (entry) {
		from = entry - 1;
		count -= from;
		count = count < PAGE_BLOCKS ? count : PAGE_BLOCKS;
	}
	/* cppcheck-suppress constStatement */
	return from + LIMPET_PARTITION_POINT(i, count, table->starts[from + i] <= address);
}

uint32_t limpet_block_table_find(const struct limpet_block_table *table, uint64_t address)
{
	size_t above;

	if (address < table->low || address >= table->high)
		return LIMPET_NO_BLOCK;
	above = count_up_to(table, address);
	return above && address < limpet_block_end(table, (uint32_t)above - 1) ? (uint32_t)above - 1
									       : LIMPET_NO_BLOCK;
}

uint32_t limpet_block_table_pointed(const struct limpet_block_table *table, uint64_t address)
{
	const uint32_t block = limpet_block_table_find(table, address);
	size_t above;

	/* Where a block with a mapping of its own ends, another mapping begins. */
	if (block != LIMPET_NO_BLOCK || address % CHUNK_ALIGN == 0 || address < table->low ||
	    address > table->high)
		return block;
	above = count_up_to(table, address);
	return above && address == limpet_block_end(table, (uint32_t)above - 1)
		       ? (uint32_t)above - 1
		       : LIMPET_NO_BLOCK;
}

size_t limpet_block_table_from(const struct limpet_block_table *table, uint64_t address)
{
	const size_t above = count_up_to(table, address);

	return above && limpet_block_end(table, (uint32_t)above - 1) > address ? above - 1 : above;
}

bool limpet_block_table_gap(const struct limpet_block_table *table, uint64_t *at, uint64_t end,
			    uint64_t *ret_end)
{
	size_t i = limpet_block_table_from(table, *at);

	for (; i < table->count && table->starts[i] <= *at; i++)
		*at = limpet_block_end(table, (uint32_t)i);
	*ret_end = i < table->count && table->starts[i] < end ? table->starts[i] : end;
	return *at < end;
}
