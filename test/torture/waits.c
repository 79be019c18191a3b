/* waits PID COLLECTOR: counts the system calls of a process while another one stands still.
 *
 * All threads of PID but the first are traced, from "ready COUNT" on. "stop" stops COLLECTOR by
 * SIGSTOP, begins the counts anew once all of it stands, and is answered by "stopped"; "count" by
 * JSON: calls, waits, and of the waits how many of each number ("230": 7); "continue" lets
 * COLLECTOR go on, "continued"; "quit" ends it.
 *
 * A wait is a call that may sleep until somebody else does something or a time is over: every one
 * that is not known to be none. */
#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "test/targets/target.h"

enum { MAX_TRACED = 256, MAX_NUMBER = 512 };

static pid_t target, collector, traced[MAX_TRACED];
static unsigned traced_count;
static bool stopped;
static unsigned long calls, waits_of[MAX_NUMBER];

static bool waits(uint64_t number, const uint64_t *arguments)
{
	switch (number) {
	case SYS_brk:
	case SYS_clock_gettime:
	case SYS_fstat:
	case SYS_getpid:
	case SYS_getrusage:
	case SYS_gettid:
	case SYS_madvise:
	case SYS_mmap:
	case SYS_mprotect:
	case SYS_mremap:
	case SYS_munmap:
	case SYS_rt_sigprocmask:
	case SYS_rt_sigreturn:
		return false;
	case SYS_sendto:
		return !(arguments[3] & MSG_DONTWAIT);
	default:
		return true;
	}
}

static void let_go_on(void)
{
	if (stopped && kill(collector, SIGCONT))
		target_broken("the collector is gone");
	stopped = false;
}

static void note(pid_t tid)
{
	struct __ptrace_syscall_info info;

	if (ptrace(PTRACE_GET_SYSCALL_INFO, tid, (void *)sizeof(info), &info) <= 0 ||
	    info.op != PTRACE_SYSCALL_INFO_ENTRY)
		return;
	calls++;
	if (!waits(info.entry.nr, (const uint64_t *)info.entry.args))
		return;
	waits_of[info.entry.nr < MAX_NUMBER ? info.entry.nr : 0]++;
}

/* Of one stop; lets the thread run to its next system call, or for good. */
static void resume(pid_t tid, int status, bool for_good)
{
	int signal_number = WSTOPSIG(status);

	if (signal_number == (SIGTRAP | 0x80)) {
		note(tid);
		signal_number = 0;
	} else if (status >> 16) {
		signal_number = 0;
	}
	if (ptrace(for_good ? PTRACE_DETACH : PTRACE_SYSCALL, tid, NULL,
		   (void *)(intptr_t)signal_number))
		target_broken("thread %d: %s", tid, strerror(errno));
}

static void look_at_stops(void)
{
	int status;
	pid_t tid;

	while ((tid = waitpid(-1, &status, __WALL | WNOHANG)) > 0) {
		if (!WIFSTOPPED(status))
			target_broken("thread %d ended", tid);
		resume(tid, status, false);
	}
}

static void trace_all(void)
{
	char path[64];
	struct dirent *entry;
	DIR *tasks;

	snprintf(path, sizeof(path), "/proc/%d/task", target);
	tasks = opendir(path);
	while (tasks && (entry = readdir(tasks))) {
		pid_t tid = atoi(entry->d_name);

		if (tid <= 0 || tid == target)
			continue;
		if (traced_count == MAX_TRACED ||
		    ptrace(PTRACE_SEIZE, tid, NULL, (void *)PTRACE_O_TRACESYSGOOD))
			target_broken("seize %d: %s", tid, strerror(errno));
		traced[traced_count++] = tid;
	}
	if (!tasks)
		target_broken("%s: %s", path, strerror(errno));
	closedir(tasks);
	/* From its first stop on a thread is followed from call to call. */
	for (unsigned i = 0; i < traced_count; i++) {
		int status;

		if (ptrace(PTRACE_INTERRUPT, traced[i], NULL, NULL) ||
		    waitpid(traced[i], &status, __WALL) != traced[i] || !WIFSTOPPED(status))
			target_broken("stop %d: %s", traced[i], strerror(errno));
		resume(traced[i], status, false);
	}
}

static void leave_all(void)
{
	for (unsigned i = 0; i < traced_count; i++) {
		int status;

		if (ptrace(PTRACE_INTERRUPT, traced[i], NULL, NULL))
			target_broken("stop %d: %s", traced[i], strerror(errno));
		/* Whichever stop comes first: an interrupt that is left over goes with the tracer.
		 */
		if (waitpid(traced[i], &status, __WALL) != traced[i] || !WIFSTOPPED(status))
			target_broken("wait for %d: %s", traced[i], strerror(errno));
		resume(traced[i], status, true);
	}
}

static bool all_of_it_stands(void)
{
	char path[300], line[512], *end;
	struct dirent *entry;
	bool all = true;
	DIR *tasks;

	snprintf(path, sizeof(path), "/proc/%d/task", collector);
	tasks = opendir(path);
	if (!tasks)
		target_broken("the collector is gone");
	while (all && (entry = readdir(tasks))) {
		FILE *file;

		if (entry->d_name[0] == '.')
			continue;
		snprintf(path, sizeof(path), "/proc/%d/task/%s/stat", collector, entry->d_name);
		file = fopen(path, "re");
		end = file && fgets(line, sizeof(line), file) ? strrchr(line, ')') : NULL;
		all = end && end[1] == ' ' && end[2] == 'T';
		if (file)
			fclose(file);
	}
	closedir(tasks);
	return all;
}

static void stop_collector(void)
{
	if (kill(collector, SIGSTOP))
		target_broken("the collector is gone");
	while (!all_of_it_stands()) {
		look_at_stops();
		usleep(1000);
	}
	stopped = true;
	calls = 0;
	memset(waits_of, 0, sizeof(waits_of));
	target_say("stopped");
}

static void answer_count(void)
{
	unsigned long all = 0;
	char line[900], *at = line;

	for (unsigned i = 0; i < MAX_NUMBER; i++) {
		all += waits_of[i];
		if (waits_of[i] && at < line + sizeof(line) - 64)
			at += sprintf(at, ",\"%u\":%lu", i, waits_of[i]);
	}
	*at = '\0';
	target_say("{\"calls\":%lu,\"waits\":%lu%s}", calls, all, line);
}

/* False: quit. */
static bool obey(void)
{
	char line[64];

	if (!target_listen(line, sizeof(line)) || !strcmp(line, "quit"))
		return false;
	if (!strcmp(line, "stop")) {
		stop_collector();
	} else if (!strcmp(line, "count")) {
		answer_count();
	} else if (!strcmp(line, "continue")) {
		let_go_on();
		target_say("continued");
	} else {
		target_broken("unknown command '%s'", line);
	}
	return true;
}

int main(int argc, char **argv)
{
	struct pollfd inputs[2] = {{STDIN_FILENO, POLLIN, 0}, {-1, POLLIN, 0}};
	sigset_t child;

	target = argc >= 3 ? atoi(argv[1]) : 0;
	collector = argc >= 3 ? atoi(argv[2]) : 0;
	if (target <= 0 || collector <= 0 || argc != 3)
		target_broken("usage: waits PID COLLECTOR");
	sigemptyset(&child);
	sigaddset(&child, SIGCHLD);
	sigprocmask(SIG_BLOCK, &child, NULL);
	inputs[1].fd = signalfd(-1, &child, SFD_CLOEXEC | SFD_NONBLOCK);
	if (inputs[1].fd < 0)
		target_broken("signalfd: %s", strerror(errno));
	trace_all();
	target_say("ready %d %u", getpid(), traced_count);
	for (;;) {
		struct signalfd_siginfo info;

		look_at_stops();
		poll(inputs, 2, -1);
		while (read(inputs[1].fd, &info, sizeof(info)) > 0)
			;
		look_at_stops();
		if (inputs[0].revents && !obey())
			break;
	}
	leave_all();
	let_go_on();
	return 0;
}
