/* Files of other heap profilers, as traces: heaptrack's.
 *
 * The file is hostile input, as a trace is: every number is checked, memory and time are bounded,
 * and damage costs the lines that it hits, or what follows it. */
#ifndef LIMPET_ANALYZER_IMPORT_IMPORT_H
#define LIMPET_ANALYZER_IMPORT_IMPORT_H

#include "analyzer/import/imported.h"
#include "common/err.h"

/* Recognizes the file by its contents. 1: it is one, and was read; 0: it is not; or -errno, with
 * a message that names `path`: it is one that cannot be read. `fd` stays open; its offset is not
 * used. */
int limpet_import(int fd, const char *path, struct limpet_imported *ret,
		  struct limpet_err *err) LIMPET_MUST_CHECK;

#endif
