#include "cli/live_names.h"

#include <errno.h>
#include <stdio.h>

#include "analyzer/text/report_printer.h"
#include "cli/live_target.h"
#include "cli/ui.h"
#include "injector/proc/target_process.h"

/* A report is not to wait for hundreds of MiB of debug information. */
#define WAIT_SECONDS 20

int limpet_cli_namer_new(const struct limpet_trace_target *target, struct limpet_namer **ret_namer)
{
	struct limpet_namer_options options = {.perf_map_fd = -1};
	char root[LIMPET_TARGET_ROOT_BYTES];
	struct limpet_target live;

	if (limpet_cli_target_open(target, &live)) {
		if (limpet_target_root(&live, root))
			options.root = root;
		options.perf_map_fd = limpet_target_open_perf_map(&live);
		limpet_target_close(&live);
	}
	return limpet_namer_new(&options, ret_namer);
}

int limpet_cli_look_up_names(struct limpet_model *model)
{
	struct limpet_namer *namer;
	int code = limpet_cli_namer_new(model->target, &namer);

	if (code < 0)
		return code == -ENOMEM ? code : 0;
	limpet_ui_busy("looking up names: the capture still runs");
	code = limpet_namer_name_model(namer, model, WAIT_SECONDS);
	limpet_ui_busy(NULL);
	limpet_namer_free(namer);
	return code;
}

void limpet_cli_note_names(const struct limpet_model *model)
{
	char words[LIMPET_PRINTER_NAMES];

	if (limpet_printer_format_names(model, words))
		limpet_ui_note("names are %s", words);
}
