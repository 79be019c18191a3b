/* Copies pages of V8's heap. Those of the young generation are copied at once and first: from one
 * collection to the next its objects are in other pages, so that copies from before and after one
 * are of different objects, or of none. */
#ifndef LIMPET_EXPLAIN_RUNTIMES_V8_COPY_H
#define LIMPET_EXPLAIN_RUNTIMES_V8_COPY_H

#include <stdint.h>

#include "common/err.h"
#include "explain/runtimes/v8_wire.h"

struct limpet_v8_copies;

/* Brings the young generation in `heap` up to date, and copies it. Both are borrowed. */
int limpet_v8_copies_new(const struct limpet_memory_reader *memory, struct limpet_v8_heap *heap,
			 struct limpet_v8_copies **ret) LIMPET_MUST_CHECK;
void limpet_v8_copies_free(struct limpet_v8_copies *copies);
/* A copy of the area of a page, of this moment if it is not of the young generation. Valid until
 * the next one is asked for. */
const uint8_t *limpet_v8_copies_get(struct limpet_v8_copies *copies, size_t index,
				    struct limpet_v8_copied *ret);

#endif
