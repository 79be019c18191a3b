/* The one JSON object that a command answers with. */
#ifndef LIMPET_CLI_JSON_OUTPUT_H
#define LIMPET_CLI_JSON_OUTPUT_H

#include <jansson.h>

/* Names and paths are bytes, JSON is UTF-8: control characters and invalid bytes become '?', as in
 * text. Empty: null. */
json_t *limpet_json_clean_text(const char *value);

/* Prints and frees it. Returns `status`, or LIMPET_EXIT_FAILED after a message: it could not be
 * written, or is NULL for lack of memory. */
int limpet_json_output(json_t *root, int status);

#endif
