/* A comparison as text, as JSON and as a page. */
#ifndef LIMPET_ANALYZER_TEXT_DIFF_PRINT_H
#define LIMPET_ANALYZER_TEXT_DIFF_PRINT_H

#include <stdio.h>

#include "analyzer/text/report_text.h"
#include "analyzer/views/diff.h"

/* -ENOMEM; errors of `file` are found by ferror(). The names are those that the user gave. */
int limpet_diff_text_print(const struct limpet_diff *diff, const char *old_name,
			   const char *new_name, size_t limit,
			   const struct limpet_report_text_options *text,
			   FILE *file) LIMPET_MUST_CHECK;
int limpet_diff_json_print(const struct limpet_diff *diff, const char *old_name,
			   const char *new_name, size_t limit, FILE *file) LIMPET_MUST_CHECK;
/* A page that compares the heaps by each figure, and whole stacks as well as folded ones. */
int limpet_diff_html_print(const struct limpet_diff *diff, const char *old_name,
			   const char *new_name, FILE *file) LIMPET_MUST_CHECK;

#endif
