/* Trying the calls instead of reading the filter: in a child of ours, under our own filter. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "injector/preflight/seccomp_eval.h"

#define SCRATCH_BYTES 65536
/* All calls together take microseconds; who waits longer waits for a supervisor. */
#define PROBE_TIMEOUT_MS 1000
#define PROBED_LIMIT 128

struct probe {
	volatile size_t at; /* the call that is being tried */
	int errors[PROBED_LIMIT];
};

static void on_signal(int number)
{
	(void)number;
}

/* Runs to its end, or to the call that the filter does not survive. Signal-safe, as any child of a
 * process that may have threads. */
static __attribute__((noreturn)) void child(struct probe *probe, char *scratch)
{
	const struct rlimit no_core = {0, 0};
	struct sigaction action = {.sa_handler = on_signal};
	const struct sigaction usual = {.sa_handler = SIG_DFL};
	sigset_t fatal;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	setrlimit(RLIMIT_CORE, &no_core);
	/* whatever our parent makes of it */
	sigaction(SIGSYS, &usual, NULL);
	sigemptyset(&fatal);
	sigaddset(&fatal, SIGSYS);
	sigprocmask(SIG_UNBLOCK, &fatal, NULL);
	for (size_t i = 0; i < limpet_seccomp_call_count; i++) {
		const struct limpet_seccomp_call *call = &limpet_seccomp_calls[i];
		uint64_t args[6];
		long answer;

		probe->at = i;
		if (call->number == SYS_rt_sigreturn) {
			/* the only honest way to it */
			sigaction(SIGUSR1, &action, NULL);
			raise(SIGUSR1);
			continue;
		}
		/* Its own memory instead of the table's address: what the calls do to it is all the
		 * same, and a descriptor that is not open turns the rest into EBADF. */
		for (int k = 0; k < 6; k++)
			args[k] = call->args[k] == LIMPET_SECCOMP_POINTER
					  ? (uint64_t)(uintptr_t)scratch
					  : call->args[k];
		answer =
			syscall(call->number, args[0], args[1], args[2], args[3], args[4], args[5]);
		probe->errors[i] = answer == -1 ? errno : 0;
	}
	probe->at = limpet_seccomp_call_count;
	_exit(0);
}

/* What no call of the table answers by itself, with such arguments. */
static bool is_a_filters_answer(int error)
{
	return error == EPERM || error == ENOSYS || error == EACCES;
}

static void judge(const struct probe *probe, uint32_t end,
		  struct limpet_seccomp_verdict *ret_verdict)
{
	struct limpet_seccomp_verdict verdict = {.action = SECCOMP_RET_ALLOW};
	size_t done = probe->at;

	if (done < limpet_seccomp_call_count) {
		verdict.call = &limpet_seccomp_calls[done];
		verdict.action = end;
	}
	for (size_t i = 0; !verdict.call && i < done; i++) {
		const struct limpet_seccomp_call *call = &limpet_seccomp_calls[i];

		if (call->optional || !is_a_filters_answer(probe->errors[i]))
			continue;
		verdict.call = call;
		verdict.action = SECCOMP_RET_ERRNO | (uint32_t)probe->errors[i];
	}
	*ret_verdict = verdict;
}

int limpet_seccomp_probe(struct limpet_seccomp_verdict *ret_verdict)
{
	struct probe *probe = mmap(NULL, sizeof(*probe), PROT_READ | PROT_WRITE,
				   MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	char *scratch = mmap(NULL, SCRATCH_BYTES, PROT_READ | PROT_WRITE,
			     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct pollfd ended = {.fd = -1, .events = POLLIN};
	int status = 0, ready = 0, r = 0;
	pid_t pid = -1;

	if (probe == MAP_FAILED || scratch == MAP_FAILED ||
	    limpet_seccomp_call_count > PROBED_LIMIT) {
		r = -ENOMEM;
		goto out;
	}
	pid = fork();
	if (pid < 0) {
		r = -errno;
		goto out;
	}
	if (pid == 0)
		child(probe, scratch);
	ended.fd = (int)syscall(SYS_pidfd_open, pid, 0);
	if (ended.fd < 0)
		r = -errno;
	while (r == 0 && (ready = poll(&ended, 1, PROBE_TIMEOUT_MS)) < 0 && errno == EINTR)
		;
	if (ready <= 0)
		kill(pid, SIGKILL);
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	if (r == 0)
		judge(probe, ready <= 0 ? SECCOMP_RET_USER_NOTIF : SECCOMP_RET_KILL_PROCESS,
		      ret_verdict);
out:
	if (ended.fd >= 0)
		close(ended.fd);
	if (scratch != MAP_FAILED)
		munmap(scratch, SCRATCH_BYTES);
	if (probe != MAP_FAILED)
		munmap(probe, sizeof(*probe));
	return r;
}
