/* Files that are being written. They are removed if SIGINT, SIGTERM or SIGHUP ends the command,
 * unless these are ignored or handled otherwise. For single-threaded commands. */
#ifndef LIMPET_ANALYZER_EXPORT_UNFINISHED_H
#define LIMPET_ANALYZER_EXPORT_UNFINISHED_H

#include "common/err.h"

/* Creates a file with a unique name, by mkostemp(3): `path` ends in XXXXXX, which is replaced, and
 * is borrowed until it is dropped. Of more than four files at a time, a signal leaves the rest.
 * Returns a descriptor or -errno. */
int limpet_unfinished_open(char *path) LIMPET_MUST_CHECK;
/* Call this when the file is whole or removed. */
void limpet_unfinished_drop(const char *path);

#endif
