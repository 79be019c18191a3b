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
#include "injector/proc/target_process.h"
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

static int wait_for_command(pid_t pid)
{
	const struct timespec pause = {0, 2000000};
	int status;

	limpet_capture_signals_open();
	while (limpet_tracee_strays()) {
		nanosleep(&pause, NULL);
		limpet_tracee_release_strays();
	}
	while (waitpid(pid, &status, __WALL) < 0)
		if (errno != EINTR)
			return EXIT_OWN_FAILURE;
	return WIFSIGNALED(status) ? EXIT_SIGNAL + WTERMSIG(status) : WEXITSTATUS(status);
}

static int capture(const struct limpet_capture_options *options, const struct limpet_target *target,
		   struct limpet_tracee *tracee)
{
	const struct limpet_preflight_options wanted = {
		.partial = options->partial,
		.assume_seccomp_ok = options->assume_seccomp_ok,
		.launched = true,
		.agent_memory_bytes = options->agent_memory_bytes,
		.load = options->load,
		.entry_list = options->entry_list,
	};
	struct limpet_preflight preflight;
	struct limpet_err err = {0};
	int status, error;

	if (limpet_preflight_run(target, &wanted, &preflight, &err) < 0)
		return give_up(target->pid, tracee, &err);
	limpet_capture_warn(&preflight);
	error = limpet_tracee_setup();
	if (error < 0) {
		limpet_err_set(&err, error, "cannot trace: %s", strerror(-error));
		return give_up(target->pid, tracee, &err);
	}
	limpet_capture_signals_setup(target->pid);
	status = limpet_capture_command(options, target, LIMPET_MODE_RUN, tracee, &preflight);
	if (status == LIMPET_EXIT_FAILED || status == LIMPET_EXIT_REFUSED) {
		limpet_launch_end(target->pid);
		return EXIT_OWN_FAILURE;
	}
	return wait_for_command(target->pid);
}

int limpet_cmd_run(int argc, char **argv)
{
	struct limpet_capture_options options;
	struct limpet_target target;
	struct limpet_tracee *tracee;
	struct limpet_err err = {0};
	int status, error;
	pid_t pid;

	if (!limpet_capture_options_parse(LIMPET_CAPTURE_RUN, argc, argv, &options, &status))
		return status;
	error = limpet_launch(options.command, &pid, &tracee, &err);
	if (error) {
		limpet_ui_error(&err);
		if (error == -ENOENT)
			return EXIT_NOT_FOUND;
		return error == -EACCES || error == -ENOEXEC || error == -EISDIR || error == -EPERM
			       ? EXIT_NOT_EXECUTABLE
			       : EXIT_OWN_FAILURE;
	}
	(void)!limpet_target_open(pid, &target, NULL); /* preflight says why not */
	status = capture(&options, &target, tracee);
	limpet_target_close(&target);
	return status;
}
