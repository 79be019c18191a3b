#include "collector/record/live_table.h"

#include <stdlib.h>
#include <sys/mman.h>

_Static_assert(sizeof(struct limpet_live_entry) == 32, "two entries a cache line");

#define FIRST_BITS 6u
/* Set in a tick while the table grows: this entry is at its final place. */
#define SETTLED (1ull << 63)

static uint64_t capacity(const struct limpet_live_table *table)
{
	return 1ull << table->bits;
}

static uint64_t mask(const struct limpet_live_table *table)
{
	return capacity(table) - 1;
}

static void set_limit(struct limpet_live_table *table)
{
	/* In a table at most half full, most look-ups end, and most gaps are closed, in the first
	 * cache line. A table that cannot grow is filled further: that is better than unpaired
	 * blocks. */
	if (table->bits < table->max_bits)
		table->limit = capacity(table) / 2;
	else
		table->limit = capacity(table) / 8 * 7;
}

struct limpet_live_table *limpet_live_table_new(uint64_t memory_bytes)
{
	struct limpet_live_table *table = calloc(1, sizeof(*table));

	if (!table)
		return NULL;
	table->bits = FIRST_BITS;
	table->max_bits = FIRST_BITS;
	while (table->max_bits < 40 &&
	       sizeof(*table->entries) << (table->max_bits + 1) <= memory_bytes)
		table->max_bits++;
	set_limit(table);
	table->entries = mmap(NULL, sizeof(*table->entries) << table->bits, PROT_READ | PROT_WRITE,
			      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (table->entries == MAP_FAILED) {
		free(table);
		return NULL;
	}
	return table;
}

void limpet_live_table_free(struct limpet_live_table *table)
{
	if (!table)
		return;
	munmap(table->entries, sizeof(*table->entries) << table->bits);
	free(table);
}

/* Moves an entry to its place in the grown table. A place whose entry has not moved yet counts as
 * free, and that entry is moved next. Settled entries never move again, so that probe sequences
 * stay unbroken. */
static void settle(struct limpet_live_table *table, struct limpet_live_entry entry)
{
	for (;;) {
		uint64_t at = limpet_live_table_home(table, entry.address);
		struct limpet_live_entry pushed;

		while (table->entries[at].address && table->entries[at].tick & SETTLED)
			at = (at + 1) & mask(table);
		pushed = table->entries[at];
		entry.tick |= SETTLED;
		table->entries[at] = entry;
		if (!pushed.address)
			return;
		entry = pushed;
	}
}

/* Look-ups go to random places: with small pages most would also miss in the TLB. */
static void advise_huge_pages(struct limpet_live_table *table)
{
	const size_t huge = 2u << 20;
	size_t bytes = sizeof(*table->entries) << table->bits;

	if (bytes >= 2 * huge)
		madvise(table->entries, bytes, MADV_HUGEPAGE);
}

bool limpet_live_table_grow(struct limpet_live_table *table)
{
	size_t bytes = sizeof(*table->entries) << table->bits;
	uint64_t old_capacity = capacity(table);
	struct limpet_live_entry *entries;

	if (table->bits == table->max_bits)
		return false;
	entries = mremap(table->entries, bytes, bytes * 2, MREMAP_MAYMOVE);
	if (entries == MAP_FAILED) {
		/* Do not try again at each insertion. */
		table->max_bits = table->bits;
		set_limit(table);
		return table->count < table->limit;
	}
	table->entries = entries;
	table->bits++;
	advise_huge_pages(table);
	set_limit(table);
	for (uint64_t i = 0; i < old_capacity; i++) {
		struct limpet_live_entry entry = entries[i];

		if (!entry.address || entry.tick & SETTLED)
			continue;
		entries[i].address = 0;
		settle(table, entry);
	}
	for (uint64_t i = 0; i < capacity(table); i++)
		entries[i].tick &= ~SETTLED;
	return true;
}

/* Closes the gap instead of leaving a tombstone (Knuth 6.4, algorithm R): an entry moves into the
 * hole unless its home lies cyclically behind the hole. */
void limpet_live_table_close(struct limpet_live_table *table, struct limpet_live_entry *gap)
{
	const uint64_t most = mask(table);
	uint64_t at = (uint64_t)(gap - table->entries), next;

	for (next = (at + 1) & most; table->entries[next].address; next = (next + 1) & most) {
		uint64_t wanted = limpet_live_table_home(table, table->entries[next].address);

		if (((next - wanted) & most) < ((next - at) & most))
			continue;
		table->entries[at] = table->entries[next];
		at = next;
	}
	table->entries[at].address = 0;
}

uint64_t limpet_live_table_count(const struct limpet_live_table *table)
{
	return table->count;
}

static int compare(const void *a, const void *b)
{
	const struct limpet_live_entry *left = a, *right = b;

	return left->address < right->address ? -1 : left->address > right->address;
}

const struct limpet_live_entry *limpet_live_table_sort(struct limpet_live_table *table,
						       size_t *ret_count)
{
	uint64_t count = 0;

	if (!table->is_sorted) {
		for (uint64_t i = 0; i < capacity(table); i++)
			if (table->entries[i].address)
				table->entries[count++] = table->entries[i];
		qsort(table->entries, count, sizeof(*table->entries), compare);
		table->is_sorted = true;
	}
	*ret_count = table->count;
	return table->entries;
}
