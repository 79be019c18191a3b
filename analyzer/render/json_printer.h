/* Pieces of JSON, written one by one: a large capture is never held as one tree. */
#ifndef LIMPET_ANALYZER_RENDER_JSON_PRINTER_H
#define LIMPET_ANALYZER_RENDER_JSON_PRINTER_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "analyzer/model/model.h"

/* Beyond what JSON's readers bear: the largest they do. */
json_t *limpet_json_number(uint64_t value);
/* 0: null. */
json_t *limpet_json_known(uint64_t value);
json_t *limpet_json_seconds(uint64_t ns);
/* NULL or empty: null. Broken bytes are repaired. */
json_t *limpet_json_text(const char *string);
/* The figures of a site, as reports spell them; of samples, which allocations are temporary is not
 * known. NULL when memory is out. */
json_t *limpet_json_figures(const struct limpet_model_site *figures, bool sampled);

/* Writes `before` and the value, and drops it. -ENOMEM, also for a value that is NULL; errors of
 * `file` are found by ferror(). */
int limpet_json_print(FILE *file, const char *before, json_t *value);

#endif
