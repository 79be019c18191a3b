#include "cli/heap_findings.h"

#include <string.h>

int limpet_cli_find(const struct limpet_analysis *analysis, const struct limpet_history *history,
		    struct limpet_findings **ret_findings, struct limpet_err *err)
{
	int code = 0;

	if (!analysis->filtered)
		code = limpet_findings_new(&analysis->view, history, ret_findings);
	if (code == 0 && *ret_findings)
		code = limpet_findings_add_pools(*ret_findings, &analysis->view, analysis->reader);
	if (code == 0 && *ret_findings)
		code = limpet_findings_add_pages(*ret_findings, &analysis->view, analysis->reader);
	return code < 0 ? limpet_err_set(err, code, "cannot look for findings: %s", strerror(-code))
			: 0;
}

int limpet_cli_judge(const struct limpet_analysis *analysis, const struct limpet_history *history,
		     const char *file, struct limpet_verdict *ret_verdict, struct limpet_err *err)
{
	int code = 0;

	if (!analysis->filtered)
		code = limpet_verdict_new(&analysis->view, history, file, ret_verdict);
	return code < 0 ? limpet_err_set(err, code, "cannot judge the trace: %s", strerror(-code))
			: 0;
}
