/* A file that is written whole, or not at all; compressed if its name says so. */
#ifndef LIMPET_ANALYZER_EXPORT_EXPORT_SINK_H
#define LIMPET_ANALYZER_EXPORT_EXPORT_SINK_H

#include <stdbool.h>
#include <stdio.h>

#include "common/err.h"

/* `path` "-" is `standard`. The suffixes `.gz` and `.zst` select compression. The new file is
 * written beside `path`, with mode 0600, and replaces it when it is whole; if a signal ends the
 * command, it is removed. */
struct limpet_export_sink {
	FILE *file;
	char *path, *temporary; /* NULL: the caller's stream */
};
int limpet_export_sink_open(const char *path, FILE *standard, struct limpet_export_sink *ret_sink,
			    struct limpet_err *err) LIMPET_MUST_CHECK;
/* Writes the rest and renames the file to `path`; with `keep` false removes it. Returns the first
 * error of writing, with a message. */
int limpet_export_sink_close(struct limpet_export_sink *sink, bool keep, struct limpet_err *err);

#endif
