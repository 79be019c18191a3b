#include "injector/session/command.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>

#include "injector/ptrace/launch.h"
#include "injector/ptrace/tracee.h"

int limpet_command_start(char *const argv[], struct limpet_command *ret, struct limpet_err *err)
{
	struct limpet_tracer *tracer = NULL;
	pid_t pid;
	int error = limpet_launch(argv, &pid, err);

	if (error)
		return error;
	error = limpet_tracer_new(&tracer);
	if (!error)
		error = limpet_tracee_adopt(tracer, pid, &ret->tracee);
	if (error) {
		limpet_launch_end(pid);
		limpet_tracer_free(tracer);
		return limpet_err_set(err, error, "cannot trace: %s", strerror(-error));
	}
	ret->tracer = tracer;
	(void)!limpet_target_open(pid, &ret->target, NULL);
	return 0;
}

void limpet_command_end(struct limpet_command *command)
{
	if (command->tracee) {
		kill(command->target.pid, SIGKILL);
		limpet_tracee_release(command->tracee);
	}
	limpet_launch_end(command->target.pid);
	limpet_tracer_free(command->tracer);
	limpet_target_close(&command->target);
}

int limpet_command_wait(struct limpet_command *command)
{
	const struct timespec pause = {0, 2000000};
	int status, error = 0;

	while (limpet_tracer_strays(command->tracer)) {
		nanosleep(&pause, NULL);
		limpet_tracer_release_strays(command->tracer);
	}
	while (waitpid(command->target.pid, &status, __WALL) < 0 && !error)
		error = errno == EINTR ? 0 : -errno;
	limpet_tracer_free(command->tracer);
	limpet_target_close(&command->target);
	return error ? error : status;
}
