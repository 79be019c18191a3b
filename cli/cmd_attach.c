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
#include "injector/ptrace/priority.h"
#include "injector/ptrace/tracer.h"

/* On a busy machine these hundredths of a second of a processor took up to two seconds. */
static int look_at(pid_t pid, const struct limpet_preflight_options *wanted,
		   struct limpet_preflight *ret, struct limpet_err *err)
{
	struct limpet_priority before;
	int error;

	if (limpet_priority_has_one_processor())
		return limpet_preflight_run(pid, wanted, ret, err);
	before = limpet_priority_raise(LIMPET_PRIORITY_WORK);
	error = limpet_preflight_run(pid, wanted, ret, err);
	limpet_priority_restore(before);
	return error;
}

int limpet_cmd_attach(int argc, char **argv)
{
	struct limpet_capture_options options;
	struct limpet_preflight_options wanted;
	struct limpet_preflight preflight;
	struct limpet_tracer *tracer;
	struct limpet_err err = {0};
	uint64_t first_stop_ns;
	int status, error;

	if (!limpet_capture_options_parse(LIMPET_CAPTURE_ATTACH, argc, argv, &options, &status))
		return status;
	wanted = (struct limpet_preflight_options){
		.partial = options.partial,
		.assume_seccomp_ok = options.assume_seccomp_ok,
		.forked = options.forked.start_ticks != 0,
		.agent_memory_bytes = options.agent_memory_bytes,
		.load = options.load,
		.entry_list = options.entry_list,
	};
	error = look_at(options.pid, &wanted, &preflight, &err);
	first_stop_ns = preflight.stop_ns;
	if (limpet_find_hidden(&options, &preflight, &err)) {
		wanted.entry_list = options.entry_list;
		error = look_at(options.pid, &wanted, &preflight, &err);
	}
	if (error < 0)
		return limpet_ui_fail(&err, limpet_preflight_exit(&preflight));
	limpet_capture_warn(&preflight);
	if (options.background && !limpet_background_begin(options.pid, &status))
		return status;
	error = limpet_tracer_new(&tracer);
	if (error < 0) {
		limpet_err_set(&err, error, "cannot trace: %s", strerror(-error));
		return limpet_ui_fail(&err, LIMPET_EXIT_FAILED);
	}
	limpet_tracer_note_stop_ns(tracer, first_stop_ns);
	limpet_tracer_note_stop_ns(tracer, preflight.stop_ns);
	limpet_capture_signals_setup(0);
	status = limpet_capture_command(&options, options.pid, LIMPET_MODE_ATTACH, tracer, NULL,
					&preflight);
	limpet_tracer_free(tracer);
	return status;
}
