/* How long an object of V8 is whose map does not tell it, by its first words: the rules of HeapObject::SizeFromMap
 * in src/objects/ of V8. */
#ifndef LIMPET_EXPLAIN_RUNTIMES_V8_SIZES_H
#define LIMPET_EXPLAIN_RUNTIMES_V8_SIZES_H

#include <stdbool.h>
#include <stdint.h>

#include "explain/runtimes/v8_objects.h"

struct limpet_v8_sizes_release;

#define LIMPET_V8_SIZES_TYPES 4096u

struct limpet_v8_sizes {
	const struct limpet_v8 *v8;
	const struct limpet_v8_sizes_release *release;
	uint8_t rules[LIMPET_V8_SIZES_TYPES]; /* by the instance types */
};

void limpet_v8_sizes_init(struct limpet_v8_sizes *sizes, const struct limpet_v8 *v8);
unsigned limpet_v8_sizes_rule(const struct limpet_v8_sizes *sizes, uint16_t type);
/* Whether such an object only fills what is not in use. */
bool limpet_v8_sizes_is_free(const struct limpet_v8_sizes *sizes, uint16_t type);
/* By a copy of its beginning, of `room` bytes; 0: not known. It may be more than `room`. */
uint64_t limpet_v8_sizes_of(const struct limpet_v8_sizes *sizes, unsigned rule,
			    const uint8_t *object, uint64_t room);

#endif
