#include "cli/heap_findings.h"

#include <string.h>

int limpet_cli_find(const struct limpet_heap *heap, const struct limpet_history *history,
		    struct limpet_findings **ret_findings, struct limpet_err *err)
{
	int code = 0;

	if (!heap->filtered)
		code = limpet_findings_new(&heap->view, history, ret_findings);
	if (code == 0 && *ret_findings)
		code = limpet_findings_add_pools(*ret_findings, &heap->view, heap->reader);
	if (code == 0 && *ret_findings)
		code = limpet_findings_add_pages(*ret_findings, &heap->view, heap->reader);
	return code < 0 ? limpet_err_set(err, code, "cannot look for findings: %s", strerror(-code))
			: 0;
}
