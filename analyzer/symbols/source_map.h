/* Where generated code comes from: source maps, revision 3 (ECMA-426), index maps too.
 *
 * A map is hostile input of any length; it is read in a confined process (symbol_worker.h). */
#ifndef LIMPET_ANALYZER_SYMBOLS_SOURCE_MAP_H
#define LIMPET_ANALYZER_SYMBOLS_SOURCE_MAP_H

#include <stddef.h>
#include <stdint.h>

#include "common/err.h"

/* A place in generated code, both from 1. */
#define LIMPET_SCRIPT_PLACE(line, column) ((uint64_t)(line) << 32 | (column))

struct limpet_source_place {
	char *file;    /* as the map has it, with its root; NULL: no mapping is at this place */
	uint32_t line; /* from 1 */
};

/* Looks up ascending places. ret_places has room for as many; each file is malloc'ed. Returns 0,
 * -ENOMEM, or -EBADMSG: not a source map; what was found until then stands. */
int limpet_source_map_look_up(const char *json, size_t bytes, const uint64_t *places, size_t count,
			      struct limpet_source_place *ret_places) LIMPET_MUST_CHECK;

/* The last `//# sourceMappingURL=` of a script's end: its length, and *ret_url; 0: there is none.
 */
size_t limpet_source_map_url(const char *script, size_t bytes, const char **ret_url);
/* Decodes a `data:` URL with base64. Returns malloc'ed bytes; NULL: it is none, or no memory. */
char *limpet_source_map_inline(const char *url, size_t bytes, size_t *ret_bytes);

#endif
