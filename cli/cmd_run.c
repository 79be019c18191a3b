/* `limpet run`: captures a program from its entry point on. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include "cli/capture_command.h"
#include "cli/capture_signals.h"
#include "cli/commands.h"
#include "cli/ui.h"
#include "injector/preflight/preflight.h"
#include "injector/session/command.h"

/* The same as in env(1), nohup(1) and timeout(1). */
enum { EXIT_OWN_FAILURE = 125, EXIT_NOT_EXECUTABLE = 126, EXIT_NOT_FOUND = 127, EXIT_SIGNAL = 128 };

static int give_up(struct limpet_command *command, const struct limpet_err *err)
{
	limpet_ui_error(err);
	limpet_command_end(command);
	return EXIT_OWN_FAILURE;
}

static int wait_for(struct limpet_command *command)
{
	int status;

	limpet_capture_signals_open();
	status = limpet_command_wait(command);
	if (status < 0)
		return EXIT_OWN_FAILURE;
	return WIFSIGNALED(status) ? EXIT_SIGNAL + WTERMSIG(status) : WEXITSTATUS(status);
}

int limpet_cmd_run(int argc, char **argv)
{
	struct limpet_capture_options options;
	struct limpet_preflight_options wanted;
	struct limpet_preflight preflight;
	struct limpet_command command;
	struct limpet_tracee *tracee;
	struct limpet_err err = {0};
	int status, error;

	if (!limpet_capture_options_parse(LIMPET_CAPTURE_RUN, argc, argv, &options, &status))
		return status;
	error = limpet_command_start(options.command, &command, &err);
	if (error) {
		limpet_ui_error(&err);
		if (error == -ENOENT)
			return EXIT_NOT_FOUND;
		return error == -EACCES || error == -ENOEXEC || error == -EISDIR || error == -EPERM
			       ? EXIT_NOT_EXECUTABLE
			       : EXIT_OWN_FAILURE;
	}
	wanted = (struct limpet_preflight_options){.config = options.config, .launched = true};
	if (limpet_preflight_run(&command.target, &wanted, &preflight, &err) < 0)
		return give_up(&command, &err);
	limpet_capture_warn(&preflight);
	limpet_capture_signals_setup(command.target.pid);
	tracee = command.tracee;
	command.tracee = NULL;
	status = limpet_capture_command(&options, &command.target, LIMPET_MODE_RUN, command.tracer,
					tracee, &preflight);
	limpet_preflight_done(&preflight);
	if (status != LIMPET_EXIT_FAILED && status != LIMPET_EXIT_REFUSED)
		return wait_for(&command);
	limpet_command_end(&command);
	return EXIT_OWN_FAILURE;
}
