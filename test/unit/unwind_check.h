/* Whether a block of bytes is a table of unwind rules that is safe to search. */
#ifndef LIMPET_TEST_UNIT_UNWIND_CHECK_H
#define LIMPET_TEST_UNIT_UNWIND_CHECK_H

#include <errno.h>
#include <stddef.h>
#include <stdint.h>

#include "common/unwind_table.h"

/* Of buckets, as the builder chooses them. */
#define UNWIND_CHECK_SHIFT_LEAST 8
#define UNWIND_CHECK_SHIFT_MOST 16

/* For limpet_unwind_table_find(). 0 or -EBADMSG. */
static inline int unwind_check(const void *table, size_t bytes)
{
	const struct limpet_unwind_table *head = table;
	const struct limpet_unwind_row *rows;
	const struct limpet_unwind_rule *rules;
	const uint32_t *index;
	uint64_t end;

	if (bytes < sizeof(*head) || head->magic != LIMPET_UNWIND_MAGIC ||
	    head->version != LIMPET_UNWIND_VERSION || head->bytes != bytes ||
	    head->bucket_shift < UNWIND_CHECK_SHIFT_LEAST ||
	    head->bucket_shift > UNWIND_CHECK_SHIFT_MOST ||
	    head->bucket_count != ((uint64_t)head->covered + (1u << head->bucket_shift) - 1) >>
					  head->bucket_shift ||
	    head->rule_count < 2 || head->rule_count > LIMPET_UNWIND_MAX_RULES ||
	    (head->covered != 0) != (head->row_count != 0) ||
	    (head->index_offset | head->rows_offset | head->rules_offset) % 16 != 0)
		return -EBADMSG;
	end = head->index_offset + 4 * ((uint64_t)head->bucket_count + 1);
	if (head->index_offset < sizeof(*head) || end > head->rows_offset)
		return -EBADMSG;
	end = head->rows_offset + sizeof(*rows) * (uint64_t)head->row_count;
	if (end > head->rules_offset ||
	    head->rules_offset + sizeof(*rules) * (uint64_t)head->rule_count > bytes)
		return -EBADMSG;
	index = (const uint32_t *)((const uint8_t *)table + head->index_offset);
	rows = (const struct limpet_unwind_row *)((const uint8_t *)table + head->rows_offset);
	rules = (const struct limpet_unwind_rule *)((const uint8_t *)table + head->rules_offset);
	if (rules[0].cfa != LIMPET_CFA_NONE || rules[1].cfa != LIMPET_CFA_UNKNOWN ||
	    index[0] != 0 || index[head->bucket_count] != head->row_count ||
	    (head->row_count && rows[0].low != 0))
		return -EBADMSG;
	for (uint32_t bucket = 0; bucket < head->bucket_count; bucket++) {
		if (index[bucket] > index[bucket + 1] || index[bucket + 1] > head->row_count ||
		    (bucket == 0 && head->row_count && index[1] == 0))
			return -EBADMSG;
		for (uint32_t i = index[bucket]; i < index[bucket + 1]; i++)
			if (rows[i].rule >= head->rule_count ||
			    rows[i].low >> head->bucket_shift != 0 ||
			    (i > index[bucket] && rows[i].low <= rows[i - 1].low))
				return -EBADMSG;
	}
	return 0;
}

#endif
