/* The live table: the blocks whose allocation was recorded and that are not freed yet, by address.
 *
 * Open addressing, linear probing, entries of half a cache line, one cache miss per look-up. It
 * grows in place by doubling, up to its bound; then insertions fail. One thread. */
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

/* Public only for the inline functions below, which are called for each event. */
struct limpet_live_table {
	struct limpet_live_entry *entries;
	unsigned bits, max_bits;
	uint64_t count;
	uint64_t limit; /* entries at which it grows, or is full */
	bool is_sorted; /* by _sort(): it is a table no more */
};

/* Uses at most `memory_bytes`, but always has 64 places. NULL: no memory. */
struct limpet_live_table *limpet_live_table_new(uint64_t memory_bytes);
void limpet_live_table_free(struct limpet_live_table *table);

/* 0: inserted; 1: replaced the entry of this address, which is in *ret_old; -ENOSPC: full. The
 * address must not be 0. */
int limpet_live_table_insert(struct limpet_live_table *table, const struct limpet_live_entry *entry,
			     struct limpet_live_entry *ret_old);
/* Whether there was an entry; if so, it is in *ret_entry. */
bool limpet_live_table_remove(struct limpet_live_table *table, uint64_t address,
			      struct limpet_live_entry *ret_entry);

/* Whether an address has no entry, and there is room for it without growing. */
bool limpet_live_table_would_take(const struct limpet_live_table *table, uint64_t address);

/* Where the search for an address starts. Fibonacci hashing (Knuth 6.4): the low bits of an address
 * are always the same, and the top bits of the product depend on all others. Blocks of one size lie
 * at equal distances, whose products may come in bunches: the shift breaks long rows of blocks into
 * short ones. */
static inline uint64_t limpet_live_table_home(const struct limpet_live_table *table,
					      uint64_t address)
{
	return ((address ^ address >> 11) * 0x9E3779B97F4A7C15ull) >> (64 - table->bits);
}

/* Prefetches the entries for an address, some tens of events before they are used. */
static inline void limpet_live_table_prefetch(const struct limpet_live_table *table,
					      uint64_t address)
{
	const struct limpet_live_entry *entry =
		&table->entries[limpet_live_table_home(table, address)];

	__builtin_prefetch(entry, 1);
	__builtin_prefetch(entry + 1, 1);
}

/* The site of the block at an address, if its entry is where the search starts; 0: unknown. */
static inline uint32_t limpet_live_table_peek(const struct limpet_live_table *table,
					      uint64_t address)
{
	const struct limpet_live_entry *entry =
		&table->entries[limpet_live_table_home(table, address)];

	return entry->address == address ? entry->site : 0;
}

uint64_t limpet_live_table_count(const struct limpet_live_table *table);

/* Sorts the entries by address, in place, and returns them. The table is unusable afterwards: only
 * this function again, _count() and _free() may follow. */
const struct limpet_live_entry *limpet_live_table_sort(struct limpet_live_table *table,
						       size_t *ret_count);

#endif
