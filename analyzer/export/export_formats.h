/* The list of formats, and what they share. */
#ifndef LIMPET_ANALYZER_EXPORT_EXPORT_FORMATS_H
#define LIMPET_ANALYZER_EXPORT_EXPORT_FORMATS_H

#include <stdio.h>

#include "analyzer/export/export.h"

/* The formats, in the order of the help: each export_NAME.c defines limpet_export_NAME. */
#define LIMPET_EXPORT_FORMATS(X) \
	X(heaptrack)             \
	X(pprof)                 \
	X(folded)                \
	X(massif)                \
	X(callgrind)             \
	X(csv)                   \
	X(fleet)                 \
	X(perfetto)              \
	X(firefox)

#define LIMPET_EXPORT_DECLARE(name) extern const struct limpet_export_format limpet_export_##name;
LIMPET_EXPORT_FORMATS(LIMPET_EXPORT_DECLARE)

/* A name for one line of a text format: harmless, and with `instead` for each byte of `reserved`.
 * malloc'ed. */
char *limpet_export_name(const char *name, const char *reserved, char instead);

/* A field of a table, quoted; NULL and "" are an empty one. 0 or -ENOMEM. */
int limpet_export_csv_text(FILE *file, const char *text);

/* The title of what is exported: `subject`, and which blocks, if only those of a part of the time
 * are in the figures. Valid UTF-8; malloc'ed. */
char *limpet_export_title(const struct limpet_model *model, const char *subject);

/* The build-id in hexadecimal; "" without one. */
#define LIMPET_EXPORT_BUILD_ID_BYTES 64u
#define LIMPET_EXPORT_BUILD_ID_TEXT (2 * LIMPET_EXPORT_BUILD_ID_BYTES + 1)
void limpet_export_build_id(const struct limpet_trace_module *module,
			    char ret_text[LIMPET_EXPORT_BUILD_ID_TEXT]);

#endif
