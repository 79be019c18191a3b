/* A heap in the formats of other tools. Each is written whole, or not at all: no option of theirs
 * is guessed. limpet-export(1) lists the contents of each. */
#ifndef LIMPET_ANALYZER_EXPORT_EXPORT_H
#define LIMPET_ANALYZER_EXPORT_EXPORT_H

#include <stdio.h>

#include "analyzer/model/history.h"
#include "analyzer/views/heap.h"
#include "common/err.h"

enum limpet_export_format {
	LIMPET_EXPORT_HEAPTRACK = 0,
	LIMPET_EXPORT_PPROF,
	LIMPET_EXPORT_FOLDED,
	LIMPET_EXPORT_MASSIF,
	LIMPET_EXPORT_CALLGRIND,
	LIMPET_EXPORT_CSV,
	LIMPET_EXPORT_PERFETTO,
	LIMPET_EXPORT_FIREFOX,
	LIMPET_EXPORT_COUNT
};
/* The words of --format, in the order of the enum; ends with NULL. */
extern const char *const limpet_export_words[LIMPET_EXPORT_COUNT + 1];
/* The three tables of CSV; ends with NULL. */
extern const char *const limpet_export_tables[];

/* Number of moments in a massif file, and of dumps of Perfetto. */
#define LIMPET_EXPORT_MOMENTS 80

/* heaptrack, CSV, Perfetto and Firefox get a whole capture: a window is -ENOTSUP, with a message.
 * So is a filter by threads for the first two, a sampled capture for heaptrack, and one for stacks
 * by temporary allocations. -ENODATA: the trace has no single events, or not all. -ENOMEM; errors
 * of `file` are found by ferror(). `table`: the table of CSV to write. */
int limpet_export(struct limpet_heap *heap, enum limpet_export_format format, unsigned table,
		  FILE *file, struct limpet_err *err) LIMPET_MUST_CHECK;

/* The formats. Internal to export.c. */
int limpet_export_heaptrack(struct limpet_heap *heap, FILE *file);
int limpet_export_pprof(struct limpet_heap *heap, FILE *file);
int limpet_export_folded(struct limpet_heap *heap, FILE *file);
int limpet_export_massif(struct limpet_heap *heap, FILE *file);
int limpet_export_callgrind(struct limpet_heap *heap, FILE *file);
int limpet_export_csv(struct limpet_heap *heap, unsigned table, FILE *file);
int limpet_export_perfetto(struct limpet_heap *heap, const struct limpet_history *history,
			   FILE *file);
int limpet_export_firefox(struct limpet_heap *heap, const struct limpet_history *history,
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
