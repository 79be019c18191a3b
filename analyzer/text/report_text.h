/* The report as text, for people. ASCII, except for names. */
#ifndef LIMPET_ANALYZER_TEXT_REPORT_TEXT_H
#define LIMPET_ANALYZER_TEXT_REPORT_TEXT_H

#include <stdio.h>

#include "analyzer/text/report_printer.h"
#include "analyzer/views/report.h"

/* For samples, in place of the sites by temporary allocations. */
extern const char limpet_report_not_temporary[];

/* -ENOMEM; errors of `file` are found by ferror(). */
int limpet_report_text_print(struct limpet_report *report,
			     const struct limpet_report_text_options *options,
			     FILE *file) LIMPET_MUST_CHECK;

#endif
