/* A trace as one page: the template that the build has made of html/, with the figures in it. The
 * page computes every view itself, for any part of the time. */
#ifndef LIMPET_ANALYZER_HTML_H
#define LIMPET_ANALYZER_HTML_H

#include <stdio.h>

#include "analyzer/findings.h"
#include "analyzer/history.h"
#include "analyzer/model.h"
#include "common/err.h"

/* -ENOMEM; errors of `file` are found by ferror(). Names are hostile: in the page they are data. */
int limpet_html_print(const struct limpet_model *model, const struct limpet_history *history,
		      const struct limpet_findings *findings, FILE *file) LIMPET_MUST_CHECK;

#endif
