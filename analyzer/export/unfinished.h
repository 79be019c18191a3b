/* Files that are being written, and go when a signal ends the command: SIGINT, SIGTERM, SIGHUP,
 * unless these are ignored or handled otherwise. For commands of one thread. */
#ifndef LIMPET_ANALYZER_EXPORT_UNFINISHED_H
#define LIMPET_ANALYZER_EXPORT_UNFINISHED_H

#include "common/err.h"

/* Makes a file of a name that nobody has: `path` ends in XXXXXX, which become others, and is
 * borrowed until it is dropped. Of more than a few at a time the rest stays in an end. Answers a
 * descriptor or -errno. */
int limpet_unfinished_open(char *path) LIMPET_MUST_CHECK;
/* The file is whole, or gone. */
void limpet_unfinished_drop(const char *path);

#endif
