/* The report as JSON, for programs: exact numbers, stable keys (cli/limpet.schema.json lists
 * them), unknown is null. */
#ifndef LIMPET_ANALYZER_TEXT_REPORT_JSON_H
#define LIMPET_ANALYZER_TEXT_REPORT_JSON_H

#include <stdio.h>

#include "analyzer/text/json_printer.h"
#include "analyzer/views/report.h"

/* One object and a newline, one site per line. -ENOMEM; errors of `file` are found by ferror(). */
int limpet_report_json_print(struct limpet_report *report, FILE *file) LIMPET_MUST_CHECK;
/* The members before the sites, from the target to the findings. */
void limpet_report_json_print_head(struct limpet_report *report,
				   struct limpet_json_printer *printer);

#endif
