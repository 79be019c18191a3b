#include "injector/session/command.h"

#include <errno.h>
#include <signal.h>
#include <sys/wait.h>
#include <time.h>

#include "injector/ptrace/launch.h"
#include "injector/ptrace/tracee.h"

int limpet_command_start(char *const argv[], struct limpet_command *ret, struct limpet_err *err)
{
	pid_t pid;
	int error = limpet_launch(argv, &pid, &ret->tracee, err);

	if (!error)
		(void)!limpet_target_open(pid, &ret->target, NULL);
	return error;
}

void limpet_command_end(struct limpet_command *command)
{
	if (command->tracee) {
		kill(command->target.pid, SIGKILL);
		limpet_tracee_release(command->tracee);
	}
	limpet_launch_end(command->target.pid);
	limpet_target_close(&command->target);
}

int limpet_command_wait(struct limpet_command *command)
{
	const struct timespec pause = {0, 2000000};
	int status, error = 0;

	while (limpet_tracee_strays()) {
		nanosleep(&pause, NULL);
		limpet_tracee_release_strays();
	}
	while (waitpid(command->target.pid, &status, __WALL) < 0 && !error)
		error = errno == EINTR ? 0 : -errno;
	limpet_target_close(&command->target);
	return error ? error : status;
}
