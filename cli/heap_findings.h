/* The findings and the verdict of a trace that is opened for views. */
#ifndef LIMPET_CLI_HEAP_FINDINGS_H
#define LIMPET_CLI_HEAP_FINDINGS_H

#include "analyzer/model/history.h"
#include "analyzer/views/analysis.h"
#include "analyzer/views/findings.h"
#include "analyzer/views/verdict.h"
#include "common/err.h"

/* `history`: of the whole capture. *ret_findings stays as it is, NULL, for a filtered heap:
 * findings about a part of its stacks would mislead. -ENOMEM, or the error of a read. */
int limpet_cli_find(const struct limpet_analysis *analysis, const struct limpet_history *history,
		    struct limpet_findings **ret_findings, struct limpet_err *err);
/* The verdict, under the same condition. `file`: the trace, as it is to be typed. */
int limpet_cli_judge(const struct limpet_analysis *analysis, const struct limpet_history *history,
		     const char *file, struct limpet_verdict *ret_verdict, struct limpet_err *err);

#endif
