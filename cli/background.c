#include "cli/background.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/ui.h"
#include "common/stream_name.h"
#include "common/subprocess.h"
#include "injector/proc/target_process.h"

static int ready_pipe = -1;

static int wait_for_child(int pipe_fd, pid_t child, const struct limpet_target *target)
{
	char path[PATH_MAX];
	size_t got = 0;
	ssize_t more = 0;
	int status;

	do {
		more = read(pipe_fd, path + got, sizeof(path) - 1 - got);
		if (more > 0)
			got += (size_t)more;
	} while (more > 0 || (more < 0 && errno == EINTR));
	if (got) {
		path[got] = '\0';
		puts(path);
		status = limpet_ui_finish(LIMPET_EXIT_OK);
		limpet_ui_hint("`limpet stop %d` ends the capture, `limpet top %d` watches it",
			       target->pid, target->pid);
		if (!limpet_is_stream_name(path))
			limpet_ui_hint("limpet report %s", path);
		return status;
	}
	status = limpet_subprocess_wait(child);
	return WIFEXITED(status) ? WEXITSTATUS(status) : LIMPET_EXIT_FAILED;
}

bool limpet_background_begin(const struct limpet_target *target, int *ret_status)
{
	struct limpet_err err;
	int fds[2];
	pid_t child;

	if (pipe2(fds, O_CLOEXEC) < 0 || (child = fork()) < 0) {
		limpet_err_set(&err, -errno, "cannot go to the background: %s", strerror(errno));
		limpet_ui_error(&err);
		*ret_status = LIMPET_EXIT_FAILED;
		return false;
	}
	if (child) {
		close(fds[1]);
		*ret_status = wait_for_child(fds[0], child, target);
		close(fds[0]);
		return false;
	}
	close(fds[0]);
	setsid();
	ready_pipe = fds[1];
	return true;
}

void limpet_background_ready(const char *trace)
{
	int null;

	if (ready_pipe < 0)
		return;
	if (write(ready_pipe, trace, strlen(trace)) < 0)
		limpet_ui_warn("cannot report that the capture has begun");
	close(ready_pipe);
	ready_pipe = -1;
	/* Nobody reads messages from now on. */
	limpet_ui_set_quiet(true);
	null = open("/dev/null", O_RDWR | O_CLOEXEC);
	if (null >= 0) {
		dup2(null, STDIN_FILENO);
		dup2(null, STDOUT_FILENO);
		dup2(null, STDERR_FILENO);
		close(null);
	}
}
