/* Reads a thread's filters: PTRACE_SECCOMP_GET_FILTER requires a stopped tracee. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/subprocess.h"
#include "injector/preflight/seccomp_eval.h"
#include "injector/proc/proc.h"
#include "injector/ptrace/arch.h"

/* MAX_INSNS_PER_PATH in kernel/seccomp.c; each filter counts for four more instructions. */
#define INSTRUCTIONS_LIMIT 32768u
#define FILTERS_LIMIT (INSTRUCTIONS_LIMIT / 5)
/* A thread that does not stop in this time is in an uninterruptible sleep. */
#define STOP_TIMEOUT_MS 500

struct readout {
	int result; /* 0 or -errno; -EINPROGRESS until it is known */
	uint32_t arch;
	uint32_t count;
	uint32_t used;
	uint32_t sizes[FILTERS_LIMIT];
	uint64_t stop_ns;
	struct sock_filter instructions[INSTRUCTIONS_LIMIT + BPF_MAXINSNS];
};

/* Async-signal-safe: runs in a forked child of a process that may have threads. */
static int collect(pid_t tid, struct readout *readout)
{
	struct __ptrace_syscall_info info;

	if (ptrace(PTRACE_GET_SYSCALL_INFO, tid, (void *)sizeof(info), &info) < 0)
		return -errno;
	readout->arch = info.arch;
	for (;;) {
		void *room = &readout->instructions[readout->used];
		long got;

		if (readout->used > INSTRUCTIONS_LIMIT || readout->count == FILTERS_LIMIT)
			return -EFBIG;
		/* number 0 is the first one attached; after the last the answer is ENOENT */
		got = ptrace((enum __ptrace_request)PTRACE_SECCOMP_GET_FILTER, tid,
			     (void *)(uintptr_t)readout->count, room);
		if (got < 0)
			return errno == ENOENT ? 0 : -errno;
		readout->sizes[readout->count++] = (uint32_t)got;
		readout->used += (uint32_t)got;
	}
}

/* In an event stop: what the stop did to the thread's call is undone. Returns whether it was
 * detached for that. */
static bool mend(pid_t pid, pid_t tid, struct limpet_timed_wait *wait)
{
	struct user_regs_struct regs;
	struct limpet_rest *rest = NULL;

	if (ptrace(PTRACE_GETREGS, tid, NULL, &regs) == 0)
		rest = limpet_rest_new(pid, tid, &regs);
	if (rest && limpet_rest_start(rest) == 0) {
		limpet_rest_wait(rest);
		return true;
	}
	limpet_interrupted_mend(tid, wait);
	return false;
}

static __attribute__((noreturn)) void helper(pid_t pid, pid_t tid, pid_t parent,
					     struct readout *readout,
					     struct limpet_timed_wait *wait)
{
	int status, signal_number;
	uint64_t since_ns;
	pid_t got;

	/* if this process ends, for whatever reason, the thread is released */
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(1);
	since_ns = limpet_monotonic_ns();
	if (ptrace(PTRACE_SEIZE, tid, NULL, (void *)PTRACE_O_TRACESYSGOOD) < 0 ||
	    ptrace(PTRACE_INTERRUPT, tid, NULL, NULL) < 0) {
		readout->result = -errno;
		_exit(1);
	}
	do
		got = waitpid(tid, &status, __WALL);
	while (got < 0 && errno == EINTR);
	if (got != tid || !WIFSTOPPED(status)) {
		readout->result = -ESRCH;
		_exit(1);
	}
	readout->result = collect(tid, readout);
	/* a signal that came before our stop belongs to the program */
	signal_number = status >> 16 == PTRACE_EVENT_STOP ? 0 : WSTOPSIG(status);
	readout->stop_ns = limpet_monotonic_ns() - since_ns;
	if (signal_number || WSTOPSIG(status) != SIGTRAP || !mend(pid, tid, wait))
		ptrace(PTRACE_DETACH, tid, NULL, (void *)(uintptr_t)signal_number);
	_exit(0);
}

static int collect_by_helper(pid_t tid, struct readout *readout)
{
	struct pollfd ended = {.events = POLLIN};
	pid_t child, parent = getpid();
	LIMPET_CLOSE int fd = -1;
	struct limpet_timed_wait wait;
	struct limpet_proc_status status = {.tgid = tid};
	int ready, r = 0;

	(void)!limpet_proc_status_read(tid, &status);
	limpet_timed_wait_probe(status.tgid, tid, &wait);
	readout->result = -EINPROGRESS;
	child = fork();
	if (child < 0)
		return -errno;
	if (child == 0)
		helper(status.tgid, tid, parent, readout, &wait);
	fd = (int)syscall(SYS_pidfd_open, child, 0);
	ended.fd = fd;
	if (fd < 0)
		r = -errno;
	do
		ready = fd < 0 ? 0 : poll(&ended, 1, STOP_TIMEOUT_MS);
	while (ready < 0 && errno == EINTR);
	if (ready <= 0)
		kill(child, SIGKILL);
	(void)limpet_subprocess_wait(child);
	if (r < 0)
		return r;
	return readout->result == -EINPROGRESS ? -ETIMEDOUT : readout->result;
}

static int copy_out(const struct readout *readout, struct limpet_seccomp_filters *ret_filters)
{
	struct limpet_seccomp_filters filters = {.arch = readout->arch, .count = readout->count};
	struct sock_filter *instructions;
	size_t at = readout->used;

	filters.list = malloc(readout->count * sizeof(*filters.list) +
			      readout->used * sizeof(*instructions) + 1);
	if (!filters.list)
		return -ENOMEM;
	instructions = (struct sock_filter *)(void *)(filters.list + readout->count);
	memcpy(instructions, readout->instructions, readout->used * sizeof(*instructions));
	/* last attached first */
	for (size_t i = 0; i < filters.count; i++) {
		filters.list[i].count = readout->sizes[filters.count - 1 - i];
		at -= filters.list[i].count;
		filters.list[i].list = instructions + at;
	}
	filters.stop_ns = readout->stop_ns;
	*ret_filters = filters;
	return 0;
}

int limpet_seccomp_filters_read(pid_t tid, bool traced, struct limpet_seccomp_filters *ret_filters)
{
	struct readout *readout = mmap(NULL, sizeof(*readout), PROT_READ | PROT_WRITE,
				       MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	int r;

	ret_filters->stop_ns = 0;
	if (readout == MAP_FAILED)
		return -ENOMEM;
	r = traced ? collect(tid, readout) : collect_by_helper(tid, readout);
	ret_filters->stop_ns = readout->stop_ns;
	if (r == 0)
		r = copy_out(readout, ret_filters);
	munmap(readout, sizeof(*readout));
	return r;
}

void limpet_seccomp_filters_done(struct limpet_seccomp_filters *filters)
{
	free(filters->list);
	filters->list = NULL;
	filters->count = 0;
}
