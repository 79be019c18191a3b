#include "common/number_table.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define FIRST_SLOTS 1024u

/* The key's slot, or the free one where it belongs. */
static uint32_t find_slot(const struct limpet_number_table *table, uint64_t key)
{
	uint32_t at = (uint32_t)(key * 0x9e3779b97f4a7c15ull >> 32) & (table->slot_count - 1);

	while (table->numbers[at] && table->keys[at] != key)
		at = (at + 1) & (table->slot_count - 1);
	return at;
}

static bool grow(struct limpet_number_table *table)
{
	struct limpet_number_table more = {
		.slot_count = table->slot_count ? table->slot_count * 2 : FIRST_SLOTS,
		.count = table->count,
	};

	if (more.slot_count)
		more.keys = malloc(more.slot_count * sizeof(*more.keys));
	if (more.keys)
		more.numbers = calloc(more.slot_count, sizeof(*more.numbers));
	if (!more.numbers) {
		free(more.keys);
		return false;
	}
	for (uint32_t i = 0; i < table->slot_count; i++) {
		uint32_t at;

		if (!table->numbers[i])
			continue;
		at = find_slot(&more, table->keys[i]);
		more.keys[at] = table->keys[i];
		more.numbers[at] = table->numbers[i];
	}
	limpet_number_table_done(table);
	*table = more;
	return true;
}

uint32_t limpet_number_table_of(struct limpet_number_table *table, uint64_t key)
{
	uint32_t at;

	/* At most three quarters are taken. */
	if (table->count >= table->slot_count - table->slot_count / 4 && !grow(table))
		return 0;
	at = find_slot(table, key);
	if (!table->numbers[at]) {
		table->keys[at] = key;
		table->numbers[at] = ++table->count;
	}
	return table->numbers[at];
}

uint32_t limpet_number_table_find(const struct limpet_number_table *table, uint64_t key)
{
	return table->slot_count ? table->numbers[find_slot(table, key)] : 0;
}

void limpet_number_table_clear(struct limpet_number_table *table)
{
	if (table->slot_count)
		memset(table->numbers, 0, table->slot_count * sizeof(*table->numbers));
	table->count = 0;
}

void limpet_number_table_done(struct limpet_number_table *table)
{
	free(table->keys);
	free(table->numbers);
	*table = (struct limpet_number_table){0};
}
