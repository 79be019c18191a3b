/* The live table: the blocks whose allocation was recorded and that are not freed yet, by address.
 *
 * Open addressing, linear probing, entries of half a cache line, one cache miss per look-up. It
 * grows in place by doubling, up to its bound; then insertions fail. One thread. */
#ifndef LIMPET_COLLECTOR_RECORD_LIVE_TABLE_H
#define LIMPET_COLLECTOR_RECORD_LIVE_TABLE_H

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

/* Where the search for an address starts. Fibonacci hashing (Knuth 6.4): the low bits of an address
 * are always the same, and the top bits of the product depend on all others. Blocks of one size lie
 * at equal distances, whose products may come in bunches: the shift breaks long rows of blocks into
 * short ones. */
static inline uint64_t limpet_live_table_home(const struct limpet_live_table *table,
					      uint64_t address)
{
	return ((address ^ address >> 11) * 0x9E3779B97F4A7C15ull) >> (64 - table->bits);
}

/* The entry of an address or, if its own `address` is 0, the free place where one would be. The
 * address must not be 0. Valid until an entry is added or removed. */
static inline struct limpet_live_entry *limpet_live_table_find(
	const struct limpet_live_table *table, uint64_t address)
{
	const uint64_t mask = (1ull << table->bits) - 1;
	uint64_t at = limpet_live_table_home(table, address);

	while (table->entries[at].address && table->entries[at].address != address)
		at = (at + 1) & mask;
	return &table->entries[at];
}

/* Whether there is room for an entry without growing. */
static inline bool limpet_live_table_has_room(const struct limpet_live_table *table)
{
	return table->count < table->limit;
}

/* Grows the table. False: it is full. */
bool limpet_live_table_grow(struct limpet_live_table *table);

/* Adds an entry at the free place that limpet_live_table_find() returned; or, since the table may
 * have to grow, at another one. False: the table is full. */
static inline bool limpet_live_table_add(struct limpet_live_table *table,
					 struct limpet_live_entry *place,
					 const struct limpet_live_entry *entry)
{
	if (!limpet_live_table_has_room(table)) {
		if (!limpet_live_table_grow(table))
			return false;
		place = limpet_live_table_find(table, entry->address);
	}
	*place = *entry;
	table->count++;
	return true;
}

/* Closes the gap that a removed entry leaves. */
void limpet_live_table_close(struct limpet_live_table *table, struct limpet_live_entry *gap);

static inline void limpet_live_table_remove(struct limpet_live_table *table,
					    struct limpet_live_entry *entry)
{
	table->count--;
	limpet_live_table_close(table, entry);
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
