/* The report as Markdown, as trackers of issues show it: a heading, the findings, a table of the
 * sites, and the text report's parts as blocks of code. */
#ifndef LIMPET_ANALYZER_TEXT_REPORT_MARKDOWN_H
#define LIMPET_ANALYZER_TEXT_REPORT_MARKDOWN_H

#include <stdbool.h>
#include <stdio.h>

#include "analyzer/views/report.h"

/* `full` as of the text report. -ENOMEM; errors of `file` are found by ferror(). */
int limpet_report_markdown_print(struct limpet_report *report, bool full,
				 FILE *file) LIMPET_MUST_CHECK;

/* A text in which nothing is markup, as one block of code. */
void limpet_markdown_print_code(const char *text, FILE *file);

#endif
