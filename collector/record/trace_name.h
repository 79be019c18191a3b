/* New files of traces: their names, and the lock by which readers see a writer. */
#ifndef LIMPET_COLLECTOR_RECORD_TRACE_NAME_H
#define LIMPET_COLLECTOR_RECORD_TRACE_NAME_H

#include <stddef.h>

#include "common/err.h"

#define LIMPET_TRACE_NAME_BYTES 256

/* Makes a part of a name of what a program, or another machine, calls itself: it must not become a
 * path, an option or control codes for a terminal. Never "". */
void limpet_trace_name_clean(const char *text, char *ret, size_t bytes);

/* Creates the file, with mode 0600. Never opens an existing one, never follows a symbolic link.
 * Returns a descriptor, or -errno. */
int limpet_trace_create(int dir_fd, const char *path) LIMPET_MUST_CHECK;
/* The same for the first of STEM.limpet, STEM.limpet.1... that does not exist. */
int limpet_trace_create_numbered(int dir_fd, const char *stem,
				 char ret_name[LIMPET_TRACE_NAME_BYTES]) LIMPET_MUST_CHECK;

/* Locks a file that is to be written: 0, or -1 and errno. Without locks in the file system, readers
 * cannot distinguish a running capture from a lost one; the writer is not affected. */
int limpet_trace_lock(int fd) LIMPET_MUST_CHECK;

#endif
