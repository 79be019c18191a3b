/* Builds a table of common/unwind_table.h from rows in ascending order. */
#ifndef LIMPET_INJECTOR_UNWIND_UNWIND_BUILDER_H
#define LIMPET_INJECTOR_UNWIND_UNWIND_BUILDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"
#include "common/unwind_table.h"

struct limpet_unwind_builder;

/* For a range of `covered` bytes; 0, or -EFBIG (4 GiB or nearly), -ENOMEM. */
int limpet_unwind_builder_new(uint64_t covered,
			      struct limpet_unwind_builder **ret_builder) LIMPET_MUST_CHECK;
void limpet_unwind_builder_free(struct limpet_unwind_builder *builder);

/* Allocation failure is sticky: the next two functions do nothing then, and build returns -ENOMEM.
 */
bool limpet_unwind_builder_failed(const struct limpet_unwind_builder *builder);
/* The number of a rule; the number of "unknown" if there are more than a row can refer to. */
uint16_t limpet_unwind_builder_intern(struct limpet_unwind_builder *builder,
				      const struct limpet_unwind_rule *rule);
/* From `offset` on the rule holds. Offsets ascend; a row at the offset of the last row replaces it.
 */
void limpet_unwind_builder_add_row(struct limpet_unwind_builder *builder, uint32_t offset,
				   uint16_t rule);

uint32_t limpet_unwind_builder_rows(const struct limpet_unwind_builder *builder);
uint32_t limpet_unwind_builder_rules(const struct limpet_unwind_builder *builder);

/* Returns the table, malloc'ed. The first row must be at offset 0 unless nothing is covered. */
int limpet_unwind_builder_build(const struct limpet_unwind_builder *builder, void **ret_table,
				size_t *ret_bytes) LIMPET_MUST_CHECK;

#endif
