#include "cli/json_output.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "cli/ui.h"

json_t *limpet_json_clean_text(const char *value)
{
	char copy[PATH_MAX];

	snprintf(copy, sizeof(copy), "%s", value);
	return *copy ? json_string(limpet_ui_clean(copy)) : json_null();
}

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
