/* A heap in the formats of other tools. Each is written whole, or not at all: no option of theirs
 * is guessed. limpet-export(1) lists the contents of each. */
#ifndef LIMPET_ANALYZER_EXPORT_EXPORT_H
#define LIMPET_ANALYZER_EXPORT_EXPORT_H

#include <stdio.h>

#include "analyzer/model/history.h"
#include "analyzer/views/analysis.h"
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
int limpet_export(struct limpet_analysis *analysis, enum limpet_export_format format,
		  unsigned table, FILE *file, struct limpet_err *err) LIMPET_MUST_CHECK;

#endif
