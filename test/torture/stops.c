/* stops idle|limpet PID COUNT: stops and resumes the threads of a process COUNT times, and does
 * nothing else (idle), or attaches to it and detaches COUNT times. Prints "STOPS US": how often a
 * thread was stopped at most, and the sum of the time for which it was. What a call answers after
 * the idle tracer's stops is what the kernel gives after any stop. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <time.h>

#include "common/clock.h"
#include "injector/proc/proc.h"
#include "injector/ptrace/tracer.h"
#include "injector/session/session.h"

/* To enter, to put the slots back, to be seen outside, to unload. */
#define STOPS_A_ROUND 4u

static uint64_t stopped_ns;

static void wait_until_asleep(pid_t pid, pid_t tid)
{
	const struct timespec nap = {0, 1000000};
	struct limpet_proc_syscall call;

	while (limpet_proc_syscall_read(pid, tid, &call) == 0 && call.running)
		nanosleep(&nap, NULL);
}

static int stop_idly(pid_t pid, pid_t tid)
{
	uint64_t since;
	int status;

	wait_until_asleep(pid, tid);
	if (ptrace(PTRACE_SEIZE, tid, NULL, NULL) < 0)
		return -errno;
	since = limpet_monotonic_ns();
	if (ptrace(PTRACE_INTERRUPT, tid, NULL, NULL) < 0 || waitpid(tid, &status, __WALL) != tid ||
	    !WIFSTOPPED(status) || ptrace(PTRACE_CONT, tid, NULL, NULL) < 0)
		return -errno;
	stopped_ns += limpet_monotonic_ns() - since;
	/* Only a stopped thread can be let go: a second stop. */
	wait_until_asleep(pid, tid);
	since = limpet_monotonic_ns();
	if (ptrace(PTRACE_INTERRUPT, tid, NULL, NULL) < 0 || waitpid(tid, &status, __WALL) != tid ||
	    !WIFSTOPPED(status) || ptrace(PTRACE_DETACH, tid, NULL, NULL) < 0)
		return -errno;
	stopped_ns += limpet_monotonic_ns() - since;
	return 0;
}

static int stop_all_idly(pid_t pid)
{
	LIMPET_FREE pid_t *tids = NULL;
	int count = limpet_proc_tasks(pid, &tids), error = 0;

	for (int i = 0; i < count && !error; i++)
		error = stop_idly(pid, tids[i]);
	return count < 0 ? count : error;
}

static struct limpet_tracer *tracer;

static int enter_and_leave(pid_t pid, struct limpet_err *err)
{
	const struct limpet_capture_config options = {.agent_memory_bytes = 64u << 20,
						      .attach_timeout_ns = 600000000000u};
	const struct limpet_session_stats *stats;
	struct limpet_target target;
	struct limpet_session *session;
	int error = limpet_target_open(pid, &target, err);

	if (!error)
		error = limpet_session_prepare(tracer, &target, &options, NULL, &session, err);
	if (error)
		return error;
	error = limpet_session_attach(session, NULL, err);
	if (!error)
		error = limpet_session_detach(session, err);
	stats = limpet_session_stats(session);
	stopped_ns += stats->attach_stop_ns + (STOPS_A_ROUND - 1) * stats->detach_stop_ns;
	limpet_session_free(session);
	limpet_target_close(&target);
	return error;
}

int main(int argc, char **argv)
{
	bool idle = argc == 4 && !strcmp(argv[1], "idle");
	pid_t pid = argc == 4 ? atoi(argv[2]) : 0;
	int count = argc == 4 ? atoi(argv[3]) : 0, error = 0;
	struct limpet_err err = {0};

	if (pid <= 0 || count <= 0 || (!idle && strcmp(argv[1], "limpet") != 0)) {
		fprintf(stderr, "usage: stops idle|limpet PID COUNT\n");
		return 2;
	}
	if (!idle && limpet_tracer_new(&tracer) < 0)
		return 1;
	for (int i = 0; i < count && !error; i++)
		error = idle ? stop_all_idly(pid) : enter_and_leave(pid, &err);
	/* Threads may still be making the rest of a call. */
	limpet_tracer_free(tracer);
	if (error) {
		fprintf(stderr, "stops: %s\n", err.message[0] ? err.message : strerror(-error));
		return 1;
	}
	printf("%u %llu\n", (unsigned)count * (idle ? 2 : STOPS_A_ROUND),
	       (unsigned long long)stopped_ns / 1000);
	return 0;
}
