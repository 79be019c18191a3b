#include "injector/unwind/unwind_fill.h"

#include <errno.h>
#include <stdlib.h>

#include "common/array.h"
#include "injector/unwind/unwind_builder.h"

/* The rows of a table, one after the other. */
struct cursor {
	const struct limpet_unwind_table *table;
	const uint32_t *index;
	const struct limpet_unwind_row *rows;
	uint32_t next, bucket;
};

static struct cursor cursor_of(const struct limpet_unwind_table *table)
{
	const uint8_t *base = (const uint8_t *)table;

	return (struct cursor){
		.table = table,
		.index = (const uint32_t *)(const void *)(base + table->index_offset),
		.rows = (const struct limpet_unwind_row *)(const void *)(base +
									 table->rows_offset)};
}

/* Where the next row begins; past it `next` counts on. UINT32_MAX: there is none. */
static uint32_t next_offset(struct cursor *cursor)
{
	if (cursor->next >= cursor->table->row_count)
		return UINT32_MAX;
	while (cursor->index[cursor->bucket + 1] <= cursor->next)
		cursor->bucket++;
	return (cursor->bucket << cursor->table->bucket_shift) + cursor->rows[cursor->next].low;
}

int limpet_unwind_holes(const struct limpet_unwind_table *table, uint32_t start, uint32_t end,
			struct limpet_frame_range **ret_holes, size_t *ret_count)
{
	struct cursor cursor = cursor_of(table);
	struct limpet_frame_range *holes = NULL;
	size_t count = 0, capacity = 0;
	uint32_t at = start;

	while (at < end) {
		const uint32_t next = next_offset(&cursor);

		if (next <= at && next != UINT32_MAX) {
			cursor.next++;
			continue;
		}
		if (limpet_unwind_table_find(table, at)->cfa == LIMPET_CFA_NONE) {
			if (limpet_reserve(&holes, &capacity, count + 1, sizeof(*holes)) < 0) {
				free(holes);
				return -ENOMEM;
			}
			holes[count++] = (struct limpet_frame_range){at, next < end ? next : end};
		}
		at = next < end ? next : end;
	}
	*ret_holes = holes;
	*ret_count = count;
	return 0;
}

int limpet_unwind_fill(const struct limpet_unwind_table *table,
		       const struct limpet_frame_rows *rows, void **ret_table, size_t *ret_bytes)
{
	static const struct limpet_unwind_rule none = {.cfa = LIMPET_CFA_NONE};
	const struct limpet_unwind_rule *described = &none, *read = &none;
	const struct limpet_unwind_rule *rules =
		(const struct limpet_unwind_rule *)(const void *)((const uint8_t *)table +
								  table->rules_offset);
	struct cursor cursor = cursor_of(table);
	struct limpet_unwind_builder *builder;
	size_t next = 0;
	int error = limpet_unwind_builder_new(table->covered, &builder);

	if (error)
		return error;
	for (;;) {
		const uint32_t of_table = next_offset(&cursor);
		const uint32_t of_read = next < rows->count ? rows->list[next].offset : UINT32_MAX;
		const uint32_t at = of_table < of_read ? of_table : of_read;

		if (at >= table->covered)
			break;
		if (at == of_table)
			described = &rules[cursor.rows[cursor.next++].rule];
		if (at == of_read)
			read = &rows->list[next++].rule;
		limpet_unwind_builder_add_row(
			builder, at,
			limpet_unwind_builder_intern(
				builder, described->cfa == LIMPET_CFA_NONE ? read : described));
	}
	error = limpet_unwind_builder_build(builder, ret_table, ret_bytes);
	limpet_unwind_builder_free(builder);
	return error;
}
