/* The verdict of a trace that is opened for views. */
#ifndef LIMPET_CLI_HEAP_FINDINGS_H
#define LIMPET_CLI_HEAP_FINDINGS_H

#include "analyzer/model/history.h"
#include "analyzer/views/analysis.h"
#include "analyzer/views/verdict.h"
#include "common/err.h"

/* `history`: of the whole capture; `file`: the trace, as it is to be typed. *ret_verdict stays as
 * it is for a filtered heap: a verdict on a part of its stacks would mislead. `blocks`: whether
 * single blocks are read, too. -ENOMEM, or the error of a read. */
int limpet_cli_judge(const struct limpet_analysis *analysis, const struct limpet_history *history,
		     bool blocks, const char *file, struct limpet_verdict *ret_verdict,
		     struct limpet_err *err);
/* The verdict of a trace whose history nobody else needs: of the whole capture, also for a window.
 * *ret_verdict stays as it is if nothing can be judged. */
int limpet_cli_judge_alone(const struct limpet_analysis *analysis, bool blocks, const char *file,
			   struct limpet_verdict *ret_verdict, struct limpet_err *err);

#endif
