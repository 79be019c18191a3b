/* killstep PID N: enters and leaves a process, and is killed by SIGKILL at the Nth step (ptrace
 * call, remote call or write). Ends with 0 and the number of steps when there are fewer than N;
 * with 3 when it could not enter or leave. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "injector/session.h"
#include "injector/tracee.h"

static unsigned long step_count, last_step;

static void count_step(const char *step)
{
	(void)step;
	if (++step_count == last_step)
		kill(getpid(), SIGKILL);
}

int main(int argc, char **argv)
{
	const struct limpet_session_options options = {.agent_memory_bytes = 64u << 20,
						       .timeout_ns = 10000000000u};
	const struct timespec hold = {0, 2000000};
	struct limpet_session *session;
	struct limpet_err err = {0};
	pid_t pid = argc == 3 ? (pid_t)strtol(argv[1], NULL, 10) : 0;

	if (pid <= 0) {
		fprintf(stderr, "usage: killstep PID N\n");
		return 2;
	}
	last_step = strtoul(argv[2], NULL, 10);
	limpet_tracee_fault_point = count_step;
	limpet_tracee_setup();
	int error = limpet_session_prepare(pid, &options, &session, &err);
	if (!error)
		error = limpet_session_enter(session, NULL, &err);
	if (error) {
		fprintf(stderr, "killstep: enter: %s (%d)\n", err.message, error);
		return 3;
	}
	nanosleep(&hold, NULL);
	error = limpet_session_leave(session, &err);
	limpet_session_free(session);
	if (error) {
		fprintf(stderr, "killstep: leave: %s (%d)\n", err.message, error);
		return 3;
	}
	printf("%lu\n", step_count);
	return 0;
}
