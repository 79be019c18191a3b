/* heaptrack's data files, as heaptrack_interpret writes them: format versions 1 to 3.
 *
 * Figures are those that heaptrack_print prints. Sources: heaptrack's reader
 * (src/analyze/accumulatedtracedata.cpp) and writer (src/interpret/heaptrack_interpret.cpp). */
#ifndef LIMPET_ANALYZER_IMPORT_HEAPTRACK_FILE_H
#define LIMPET_ANALYZER_IMPORT_HEAPTRACK_FILE_H

#include "analyzer/import/imported.h"
#include "analyzer/import/text_lines.h"

/* Whether a text that begins with these bytes is such a file. */
bool limpet_heaptrack_begins(const char *text, size_t bytes);

enum limpet_heaptrack_kind {
	LIMPET_HEAPTRACK_INTERPRETED, /* *ret was set */
	LIMPET_HEAPTRACK_RAW /* addresses without names: heaptrack_interpret has to read it first */
};
/* Reads it to its end: what it is, or -errno with a message that names `path`. */
int limpet_heaptrack_read(struct limpet_text_lines *lines, const char *path,
			  struct limpet_imported *ret, struct limpet_err *err) LIMPET_MUST_CHECK;

#endif
