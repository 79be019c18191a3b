/* Numbers for keys, given from 1 in the order in which the keys first appear. Open addressing; a
 * key takes 16 to 32 bytes. A zeroed table is an empty one. One thread. */
#ifndef LIMPET_COMMON_NUMBER_TABLE_H
#define LIMPET_COMMON_NUMBER_TABLE_H

#include <stdint.h>

struct limpet_number_table {
	uint64_t *keys;
	uint32_t *numbers; /* of the key in the same slot, 0: free */
	uint32_t slot_count;
	uint32_t count; /* keys, and so the last number given */
};

/* The key's number; a new key gets the next one. 0: no memory. */
uint32_t limpet_number_table_of(struct limpet_number_table *table, uint64_t key);
/* The same, without giving a number: 0 if the key has none. */
uint32_t limpet_number_table_find(const struct limpet_number_table *table, uint64_t key);
/* Forgets all keys and keeps the memory. */
void limpet_number_table_clear(struct limpet_number_table *table);
/* Releases the memory; leaves an empty table. */
void limpet_number_table_done(struct limpet_number_table *table);

#endif
