/* The blocks among which pointers are followed: compact, and found by any address in them. */
#ifndef LIMPET_EXPLAIN_REACH_BLOCK_TABLE_H
#define LIMPET_EXPLAIN_REACH_BLOCK_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"

/* A block's number is a uint32_t below this: edges need a bit of it. */
#define LIMPET_BLOCKS_LIMIT ((size_t)1 << 31)
#define LIMPET_NO_BLOCK UINT32_MAX

/* Begins as all zeros. 13 bytes a block, and up to a MiB for each GiB with blocks. */
struct limpet_block_table {
	uint64_t *starts; /* sorted */
	uint32_t *words;  /* of 8 bytes, usable; larger blocks are cut */
	uint8_t *flags;   /* for the caller; 0 */
	size_t count, capacity;
	uint64_t low, high; /* all are within [low, high) */
	uint32_t **leaves;  /* one for each GiB; see block_table.c */
};
void limpet_block_table_done(struct limpet_block_table *table);

/* Room for so many. 0 or -ENOMEM. */
int limpet_block_table_begin(struct limpet_block_table *table, size_t most) LIMPET_MUST_CHECK;
/* In ascending order, without overlaps: what is not is left out, as is one more than there is room
 * for. */
void limpet_block_table_add(struct limpet_block_table *table, uint64_t start, uint64_t bytes);
/* After the last one. 0 or -ENOMEM. */
int limpet_block_table_end(struct limpet_block_table *table) LIMPET_MUST_CHECK;

static inline uint64_t limpet_block_bytes(const struct limpet_block_table *table, uint32_t block)
{
	return (uint64_t)table->words[block] * 8;
}
static inline uint64_t limpet_block_end(const struct limpet_block_table *table, uint32_t block)
{
	return table->starts[block] + limpet_block_bytes(table, block);
}
/* The one that holds this address, or LIMPET_NO_BLOCK. */
uint32_t limpet_block_table_find(const struct limpet_block_table *table, uint64_t address);
/* The same for a pointer, which may be one past the end, but of a block with a mapping of its own.
 */
uint32_t limpet_block_table_pointed(const struct limpet_block_table *table, uint64_t address);
/* The first one that ends above this address; `count` if there is none. */
size_t limpet_block_table_from(const struct limpet_block_table *table, uint64_t address);
/* The first part of [*at, end) that is in no block: from *at, which is moved there, to *ret_end.
 * False: there is none. */
bool limpet_block_table_gap(const struct limpet_block_table *table, uint64_t *at, uint64_t end,
			    uint64_t *ret_end);

#endif
