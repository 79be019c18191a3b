/* `limpet run`: captures a program from its entry point on. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>

#include "cli/capture_command.h"
#include "cli/capture_signals.h"
#include "cli/commands.h"
#include "cli/ui.h"
#include "injector/preflight/preflight.h"
#include "injector/ptrace/launch.h"
#include "injector/ptrace/tracee.h"

/* The same as in env(1), nohup(1) and timeout(1). */
enum { EXIT_OWN_FAILURE = 125, EXIT_NOT_EXECUTABLE = 126, EXIT_NOT_FOUND = 127, EXIT_SIGNAL = 128 };

/* Not one instruction of the program has run: it can be ended here. */
static int give_up(pid_t pid, struct limpet_tracee *tracee, const struct limpet_err *err)
{
	limpet_ui_error(err);
	kill(pid, SIGKILL);
	limpet_tracee_release(tracee);
	limpet_launch_end(pid);
	return EXIT_OWN_FAILURE;
}

/* 0, or the exit status: then the program has been ended. */
static int adopt(pid_t pid, struct limpet_tracer **ret_tracer, struct limpet_tracee **ret)
{
	struct limpet_err err = {0};
	int error = limpet_tracer_new(ret_tracer);

	if (!error)
		error = limpet_tracee_adopt(*ret_tracer, pid, ret);
	if (!error)
		return 0;
	limpet_err_set(&err, error, "cannot trace: %s", strerror(-error));
	return give_up(pid, NULL, &err);
}

static int wait_for_command(struct limpet_tracer *tracer, pid_t pid)
{
	const struct timespec pause = {0, 2000000};
	int status;

	limpet_capture_signals_open();
	while (limpet_tracer_strays(tracer)) {
		nanosleep(&pause, NULL);
		limpet_tracer_release_strays(tracer);
	}
	while (waitpid(pid, &status, __WALL) < 0)
		if (errno != EINTR)
			return EXIT_OWN_FAILURE;
	return WIFSIGNALED(status) ? EXIT_SIGNAL + WTERMSIG(status) : WEXITSTATUS(status);
}

int limpet_cmd_run(int argc, char **argv)
{
	struct limpet_capture_options options;
	struct limpet_preflight_options wanted;
	struct limpet_preflight preflight;
	struct limpet_tracer *tracer;
	struct limpet_tracee *tracee;
	struct limpet_err err = {0};
	int status, error;
	pid_t pid;

	if (!limpet_capture_options_parse(LIMPET_CAPTURE_RUN, argc, argv, &options, &status))
		return status;
	error = limpet_launch(options.command, &pid, &err);
	if (error) {
		limpet_ui_error(&err);
		if (error == -ENOENT)
			return EXIT_NOT_FOUND;
		return error == -EACCES || error == -ENOEXEC || error == -EISDIR || error == -EPERM
			       ? EXIT_NOT_EXECUTABLE
			       : EXIT_OWN_FAILURE;
	}
	error = adopt(pid, &tracer, &tracee);
	if (error)
		return error;
	wanted = (struct limpet_preflight_options){
		.partial = options.partial,
		.assume_seccomp_ok = options.assume_seccomp_ok,
		.launched = true,
		.agent_memory_bytes = options.agent_memory_bytes,
		.load = options.load,
		.entry_list = options.entry_list,
	};
	if (limpet_preflight_run(pid, &wanted, &preflight, &err) < 0)
		return give_up(pid, tracee, &err);
	limpet_capture_warn(&preflight);
	limpet_capture_signals_setup(pid);
	status = limpet_capture_command(&options, pid, LIMPET_MODE_RUN, tracer, tracee, &preflight);
	if (status == LIMPET_EXIT_FAILED || status == LIMPET_EXIT_REFUSED) {
		limpet_launch_end(pid);
		return EXIT_OWN_FAILURE;
	}
	status = wait_for_command(tracer, pid);
	limpet_tracer_free(tracer);
	return status;
}
