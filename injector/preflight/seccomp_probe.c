/* Tries the system calls instead of reading the filter: in a child of limpet, under limpet's own
 * filter. */
#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/subprocess.h"
#include "injector/preflight/seccomp_eval.h"

#define SCRATCH_BYTES 65536
/* All calls together take microseconds; a child that takes longer waits for a seccomp supervisor.
 */
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

static size_t index_of(long number)
{
	size_t i = 0;

	while (i < limpet_seccomp_call_count && limpet_seccomp_calls[i].number != number)
		i++;
	return i;
}

/* A thread that is made as in a target: it shares all memory, and does nothing but end. */
static int end_thread(void *context)
{
	struct probe *probe = context;

	probe->at = index_of(SYS_exit);
	syscall(SYS_exit, 0);
	/* An error: it cannot end but so. */
	__builtin_trap();
}

/* Runs to its end, or to the call for which the filter kills it. Async-signal-safe, since limpet
 * may have several threads. */
static __attribute__((noreturn)) void child(struct probe *probe, char *scratch)
{
	const struct rlimit no_core = {0, 0};
	struct sigaction action = {.sa_handler = on_signal};
	const struct sigaction usual = {.sa_handler = SIG_DFL};
	sigset_t fatal;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	setrlimit(RLIMIT_CORE, &no_core);
	/* whatever limpet has set */
	sigaction(SIGSYS, &usual, NULL);
	sigaction(SIGILL, &usual, NULL);
	sigemptyset(&fatal);
	sigaddset(&fatal, SIGSYS);
	sigprocmask(SIG_UNBLOCK, &fatal, NULL);
	for (size_t i = 0; i < limpet_seccomp_call_count; i++) {
		const struct limpet_seccomp_call *call = &limpet_seccomp_calls[i];
		uint64_t args[6];
		long answer;

		probe->at = i;
		if (call->number == SYS_rt_sigreturn) {
			/* the signal is the only proper way to make this call */
			sigaction(SIGUSR1, &action, NULL);
			raise(SIGUSR1);
			continue;
		}
		if (call->number == SYS_clone) {
			answer = clone(end_thread, scratch + SCRATCH_BYTES, (int)call->args[0],
				       probe);
			probe->errors[i] = answer == -1 ? errno : 0;
			continue;
		}
		if (call->number == SYS_exit)
			continue;
		/* Its own memory instead of the address in the table: what the calls do to it does
		 * not matter, and a descriptor that is not open turns the rest into EBADF. */
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

/* Errors that no call of the table returns by itself, with such arguments. */
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
	int ready = 0, r = 0;
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
	(void)limpet_subprocess_wait(pid);
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
