#include "cli/heap_findings.h"

#include <string.h>

int limpet_cli_judge(const struct limpet_analysis *analysis, const struct limpet_history *history,
		     bool blocks, const char *file, struct limpet_verdict *ret_verdict,
		     struct limpet_err *err)
{
	int code = 0;

	if (!analysis->filtered)
		code = limpet_verdict_new(&analysis->view, history,
					  blocks ? analysis->reader : NULL, file, ret_verdict);
	return code < 0 ? limpet_err_set(err, code, "cannot judge the trace: %s", strerror(-code))
			: 0;
}
