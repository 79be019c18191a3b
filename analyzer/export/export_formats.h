/* What writes each format, for limpet_export(), which has checked what it may be asked for, and
 * what the formats share. Each returns 0, -ENOMEM or -ENODATA; errors of `file` are found by
 * ferror(). */
#ifndef LIMPET_ANALYZER_EXPORT_EXPORT_FORMATS_H
#define LIMPET_ANALYZER_EXPORT_EXPORT_FORMATS_H

#include <stdio.h>

#include "analyzer/model/history.h"
#include "analyzer/views/analysis.h"

int limpet_export_heaptrack(struct limpet_analysis *analysis, FILE *file);
int limpet_export_pprof(struct limpet_analysis *analysis, FILE *file);
int limpet_export_folded(struct limpet_analysis *analysis, FILE *file);
int limpet_export_massif(struct limpet_analysis *analysis, FILE *file);
int limpet_export_callgrind(struct limpet_analysis *analysis, FILE *file);
int limpet_export_csv(struct limpet_analysis *analysis, unsigned table, FILE *file);
int limpet_export_perfetto(struct limpet_analysis *analysis, const struct limpet_history *history,
			   FILE *file);
int limpet_export_firefox(struct limpet_analysis *analysis, const struct limpet_history *history,
			  FILE *file);

/* A name for one line of a text format: harmless, and with `instead` for each byte of `reserved`.
 * malloc'ed. */
char *limpet_export_name(const char *name, const char *reserved, char instead);

/* The title of what is exported: `subject`, and which blocks, if only those of a part of the time
 * are in the figures. Valid UTF-8; malloc'ed. */
char *limpet_export_title(const struct limpet_model *model, const char *subject);

/* The build-id in hexadecimal; "" without one. */
#define LIMPET_EXPORT_BUILD_ID_BYTES 64u
#define LIMPET_EXPORT_BUILD_ID_TEXT (2 * LIMPET_EXPORT_BUILD_ID_BYTES + 1)
void limpet_export_build_id(const struct limpet_trace_module *module,
			    char ret_text[LIMPET_EXPORT_BUILD_ID_TEXT]);

#endif
