/* The live table: what the capture saw allocated and not yet freed, by address.
 *
 * Open addressing, linear probing, entries of half a cache line, one cache miss a look-up. It grows
 * in place by doubling up to its bound and then says no. One thread. */
#ifndef LIMPET_RECORDER_LIVE_TABLE_H
#define LIMPET_RECORDER_LIVE_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct limpet_live_entry {
	uint64_t address; /* 0: free entry */
	uint64_t size;
	uint64_t tick; /* of the allocation; below 2^63 */
	uint32_t site; /* the accounting's numbers */
	uint32_t thread;
};
/* Flag of `thread`: sampled in an overload. */
#define LIMPET_LIVE_ENTRY_SAMPLED (1u << 31)

/* Its insides are here for the sake of the functions below that each event calls. */
struct limpet_live_table {
	struct limpet_live_entry *entries;
	unsigned bits, max_bits;
	uint64_t count;
	uint64_t limit; /* entries at which it grows, or is full */
};

/* Uses at most `memory_bytes`, but room for 64 entries in any case. NULL: no memory. */
struct limpet_live_table *limpet_live_table_new(uint64_t memory_bytes);
void limpet_live_table_free(struct limpet_live_table *table);

/* 0: entered; 1: the address was there, *ret_old is what the new entry replaced; -ENOSPC: full. The
 * address is not 0. */
int limpet_live_table_insert(struct limpet_live_table *table, const struct limpet_live_entry *entry,
			     struct limpet_live_entry *ret_old);
/* Whether it was there; then *ret_entry is what was removed. */
bool limpet_live_table_remove(struct limpet_live_table *table, uint64_t address,
			      struct limpet_live_entry *ret_entry);

/* Whether an address is not there, and there is room for it without growing. */
bool limpet_live_table_would_take(const struct limpet_live_table *table, uint64_t address);

/* Where an address is looked for first. Fibonacci hashing (Knuth 6.4): the low bits of an address
 * are always the same, and the top bits of the product depend on all others. */
static inline uint64_t limpet_live_table_home(const struct limpet_live_table *table,
					      uint64_t address)
{
	return (address * 0x9E3779B97F4A7C15ull) >> (64 - table->bits);
}

/* Brings near what will be looked at for an address: some tens of events ahead of its use. */
static inline void limpet_live_table_prefetch(const struct limpet_live_table *table,
					      uint64_t address)
{
	const struct limpet_live_entry *entry =
		&table->entries[limpet_live_table_home(table, address)];

	__builtin_prefetch(entry, 1);
	__builtin_prefetch(entry + 1, 1);
}

/* The site of the block at an address, if it stands where it is looked for first; 0: not told. */
static inline uint32_t limpet_live_table_peek(const struct limpet_live_table *table,
					      uint64_t address)
{
	const struct limpet_live_entry *entry =
		&table->entries[limpet_live_table_home(table, address)];

	return entry->address == address ? entry->site : 0;
}

uint64_t limpet_live_table_count(const struct limpet_live_table *table);

/* Orders the entries by address, in place, and hands them out. Ends the table's use as such: only
 * _free may follow. */
const struct limpet_live_entry *limpet_live_table_sort(struct limpet_live_table *table,
						       size_t *ret_count);

#endif
