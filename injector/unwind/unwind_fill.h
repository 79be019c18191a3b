/* Adds rows to an unwind table where it has none: of code whose frames were found by reading it
 * (frame_code.h). Pure. */
#ifndef LIMPET_INJECTOR_UNWIND_UNWIND_FILL_H
#define LIMPET_INJECTOR_UNWIND_UNWIND_FILL_H

#include <stddef.h>
#include <stdint.h>

#include "common/err.h"
#include "common/unwind_table.h"
#include "injector/unwind/frame_code.h"

/* The parts of [start, end) without a row, sorted; to be freed. -ENOMEM. */
int limpet_unwind_holes(const struct limpet_unwind_table *table, uint32_t start, uint32_t end,
			struct limpet_frame_range **ret_holes, size_t *ret_count) LIMPET_MUST_CHECK;
/* A table with the rows of both; results as of limpet_unwind_builder_build(). */
int limpet_unwind_fill(const struct limpet_unwind_table *table,
		       const struct limpet_frame_rows *rows, void **ret_table,
		       size_t *ret_bytes) LIMPET_MUST_CHECK;

#endif
