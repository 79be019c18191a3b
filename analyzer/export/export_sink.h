/* A file that is written as a whole, or not at all: plain, or compressed as its name says. */
#ifndef LIMPET_ANALYZER_EXPORT_EXPORT_SINK_H
#define LIMPET_ANALYZER_EXPORT_EXPORT_SINK_H

#include <stdbool.h>
#include <stdio.h>

#include "common/err.h"

/* `path` "-" is `standard`. `.gz` and `.zst` at the end of the name compress. A file that exists is
 * replaced when the new one is whole: it is written beside, mode 0600, and that goes when a signal
 * ends the command. */
struct limpet_export_sink {
	FILE *file;
	char *path, *temporary; /* NULL: of a stream that is not ours */
};
int limpet_export_sink_open(const char *path, FILE *standard, struct limpet_export_sink *ret_sink,
			    struct limpet_err *err) LIMPET_MUST_CHECK;
/* Writes the rest and puts the file in its place; with `keep` false drops it. The first error of
 * writing, with words. */
int limpet_export_sink_close(struct limpet_export_sink *sink, bool keep, struct limpet_err *err);

#endif
