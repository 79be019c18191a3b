/* The output file of an HTML page: as private as the trace; replaces no file but an earlier page;
 * complete or absent. */
#ifndef LIMPET_CLI_HTML_FILE_H
#define LIMPET_CLI_HTML_FILE_H

#include <stdbool.h>
#include <stdio.h>

#include "analyzer/export/export_sink.h"
#include "common/err.h"

struct limpet_html_file {
	const char *path;               /* borrowed; "-": standard output */
	struct limpet_export_sink sink; /* its `file` is the stream to write to */
};

/* The trace's name with `suffix` in place of .limpet; malloc'ed, NULL if out of memory. */
char *limpet_html_file_name(const char *trace, const char *suffix);

/* -EEXIST: there is a file that is no page. */
int limpet_html_file_open(const char *path, struct limpet_html_file *ret_page,
			  struct limpet_err *err) LIMPET_MUST_CHECK;
/* `result` is that of writing. Prints the path of a complete file; removes an incomplete one. */
int limpet_html_file_close(struct limpet_html_file *page, int result,
			   struct limpet_err *err) LIMPET_MUST_CHECK;

#endif
