/* The objects in V8's heaps, as `limpet explain --objects` prints them. */
#ifndef LIMPET_CLI_OBJECTS_PRINT_H
#define LIMPET_CLI_OBJECTS_PRINT_H

#include <stdint.h>

#include <jansson.h>

#include "explain/runtimes/v8_census.h"

/* One census, or two of one process: `before` is NULL, or the one `interval_ns` before. Borrowed.
 */
struct limpet_objects {
	const struct limpet_v8_census *now, *before;
	uint64_t interval_ns;
};

/* To stdout. */
void limpet_objects_print_text(const struct limpet_objects *objects);
/* NULL: no memory. */
json_t *limpet_objects_json(const struct limpet_objects *objects);

#endif
