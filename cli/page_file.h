/* The file that a page goes to: as private as the trace it was made of, not over another one
 * unasked, whole or not there. */
#ifndef LIMPET_CLI_PAGE_FILE_H
#define LIMPET_CLI_PAGE_FILE_H

#include <stdbool.h>
#include <stdio.h>

#include "analyzer/export/export_sink.h"
#include "common/err.h"

struct limpet_page_file {
	const char *path;               /* borrowed; "-": standard output */
	struct limpet_export_sink sink; /* its `file` is to be written to */
};

/* The trace's name with `suffix` for .limpet; malloc'ed, NULL without memory. */
char *limpet_page_file_name(const char *trace, const char *suffix);

/* force: over what is there. `command` is for the hint. */
int limpet_page_file_open(const char *command, const char *path, bool force,
			  struct limpet_page_file *ret_page,
			  struct limpet_err *err) LIMPET_MUST_CHECK;
/* `result` is what writing answered. Prints the path of a file that is whole; takes away one that
 * is not. */
int limpet_page_file_close(struct limpet_page_file *page, int result,
			   struct limpet_err *err) LIMPET_MUST_CHECK;

#endif
