/* The blocks in use in the heaps of glibc and of allocators by size classes, as `limpet explain
 * --objects` prints them. */
#ifndef LIMPET_CLI_CENSUS_PRINT_H
#define LIMPET_CLI_CENSUS_PRINT_H

#include <jansson.h>

#include "explain/census.h"
#include "explain/class_census.h"

/* To stdout. */
void limpet_census_print_text(const struct limpet_census *census,
			      const struct limpet_class_censuses *classes);
/* NULL: no memory. */
json_t *limpet_census_json(const struct limpet_census *census);
json_t *limpet_class_censuses_json(const struct limpet_class_censuses *classes);

#endif
