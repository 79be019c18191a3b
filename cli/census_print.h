/* The blocks in use in the heaps of glibc and of jemalloc, as `limpet explain --census` prints
 * them. */
#ifndef LIMPET_CLI_CENSUS_PRINT_H
#define LIMPET_CLI_CENSUS_PRINT_H

#include <jansson.h>

#include "explain/census.h"

/* To stdout. `jemalloc`: NULL, if there is no such heap. */
void limpet_census_print_text(const struct limpet_census *census,
			      const struct limpet_jemalloc_census *jemalloc);
/* NULL: no memory. */
json_t *limpet_census_json(const struct limpet_census *census);
json_t *limpet_jemalloc_census_json(const struct limpet_jemalloc_census *census);

#endif
