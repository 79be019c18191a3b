#include "cli/json_output.h"

#include <errno.h>
#include <string.h>

#include "cli/ui.h"

int limpet_json_output(json_t *root, int status)
{
	struct limpet_err err;
	int result = root ? json_dumpf(root, stdout, JSON_INDENT(1) | JSON_REAL_PRECISION(6)) : -1;

	json_decref(root);
	if (result < 0 && !ferror(stdout)) {
		limpet_err_set(&err, -ENOMEM, "cannot write the output: %s", strerror(ENOMEM));
		return limpet_ui_fail(&err, LIMPET_EXIT_FAILED);
	}
	putchar('\n');
	return limpet_ui_finish(status);
}
