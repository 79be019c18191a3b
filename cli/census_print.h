/* The blocks in use in glibc's heap, as `limpet explain --census` prints them. */
#ifndef LIMPET_CLI_CENSUS_PRINT_H
#define LIMPET_CLI_CENSUS_PRINT_H

#include <jansson.h>

#include "explain/census.h"

/* To stdout. */
void limpet_census_print_text(const struct limpet_census *census);
/* NULL: no memory. */
json_t *limpet_census_json(const struct limpet_census *census);

#endif
