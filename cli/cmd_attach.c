/* `limpet attach`: captures a running process. */
#include <stdio.h>
#include <string.h>

#include "cli/background.h"
#include "cli/capture_command.h"
#include "cli/capture_signals.h"
#include "cli/commands.h"
#include "cli/find_hidden.h"
#include "cli/ui.h"
#include "injector/preflight/preflight.h"
#include "injector/proc/target_process.h"
#include "injector/ptrace/tracer.h"

static int capture(const struct limpet_capture_options *options, const struct limpet_target *target,
		   struct limpet_preflight *preflight, uint64_t stop_ns)
{
	struct limpet_tracer *tracer;
	struct limpet_err err;
	int status, error = limpet_tracer_new(&tracer);

	if (error) {
		limpet_err_set(&err, error, "cannot trace: %s", strerror(-error));
		return limpet_ui_fail(&err, LIMPET_EXIT_FAILED);
	}
	limpet_tracer_note_stop_ns(tracer, stop_ns);
	limpet_capture_signals_setup(0);
	status = limpet_capture_command(options, target, LIMPET_MODE_ATTACH, tracer, NULL,
					preflight);
	limpet_tracer_free(tracer);
	return status;
}

static int attach(struct limpet_capture_options *options, const struct limpet_target *target)
{
	struct limpet_preflight_options wanted = {.config = options->config, .hurried = true};
	struct limpet_preflight preflight;
	struct limpet_err err = {0};
	int status, error = limpet_preflight_run(target, &wanted, &preflight, &err);
	uint64_t stop_ns = preflight.stop_ns;

	if (limpet_find_hidden(target, options, &preflight, &err)) {
		wanted.config = options->config;
		limpet_preflight_done(&preflight);
		error = limpet_preflight_run(target, &wanted, &preflight, &err);
		if (preflight.stop_ns > stop_ns)
			stop_ns = preflight.stop_ns;
	}
	if (error < 0)
		return limpet_ui_fail(&err, limpet_preflight_exit(&preflight));
	limpet_capture_warn(&preflight);
	if (!options->background || limpet_background_begin(target, &status))
		status = capture(options, target, &preflight, stop_ns);
	limpet_preflight_done(&preflight);
	return status;
}

int limpet_cmd_attach(int argc, char **argv)
{
	struct limpet_capture_options options;
	struct limpet_target target;
	int status;

	if (!limpet_capture_options_parse(LIMPET_CAPTURE_ATTACH, argc, argv, &options, &status))
		return status;
	(void)!limpet_target_open(options.pid, &target, NULL); /* preflight says why not */
	status = attach(&options, &target);
	limpet_target_close(&target);
	return status;
}
