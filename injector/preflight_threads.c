/* Preflight: threads on which a foreign call would do harm. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "injector/memory.h"
#include "injector/modules.h"
#include "injector/preflight_check.h"
#include "injector/proc_files.h"
#include "injector/tracee.h"

#define LOOK_TIMEOUT_MS 2000
/* How long a thread that has ended may still be listed. */
#define RAW_LOOKS 20
#define RAW_PAUSE_NS 5000000

#ifndef PTRACE_GET_SYSCALL_USER_DISPATCH_CONFIG /* Linux 6.4 */
#define PTRACE_GET_SYSCALL_USER_DISPATCH_CONFIG 0x4211
#endif
#define DISPATCH_ON 1u /* PR_SYS_DISPATCH_ON */

/* ------------------------------------------------------------------ syscall user dispatch */

/* struct ptrace_sud_config */
struct dispatch_config {
	uint64_t mode, selector, offset, length;
};

struct look {
	int result; /* 1: a thread has it on; 0: none; -errno; -EINPROGRESS until it is known */
	uint64_t longest_stop_ns;
};

/* Without a handler of SIGSYS it would be the program's end at the first call. */
static bool handles_sigsys(const struct limpet_check *check)
{
	LIMPET_FREE char *text = NULL;
	const char *value;
	size_t bytes;

	if (limpet_proc_file_read(check->resident, "status", &text, &bytes) < 0)
		return true;
	value = limpet_proc_status_value(text, "SigCgt");
	return !value || strtoull(value, NULL, 16) >> (SIGSYS - 1) & 1;
}

/* Signal-safe, as all below it: runs in a forked child. Answers as look.result. */
static int look_at(pid_t tid, uint64_t *longest_stop_ns)
{
	struct dispatch_config config = {0};
	uint64_t since_ns = limpet_monotonic_ns();
	int status, answer, signal_number;
	pid_t got;

	if (ptrace(PTRACE_SEIZE, tid, NULL, NULL) < 0 ||
	    ptrace(PTRACE_INTERRUPT, tid, NULL, NULL) < 0)
		return errno == ESRCH || errno == EPERM ? 0 : -errno;
	do
		got = waitpid(tid, &status, __WALL);
	while (got < 0 && errno == EINTR);
	if (got != tid || !WIFSTOPPED(status))
		return 0; /* it has ended */
	answer = ptrace((enum __ptrace_request)PTRACE_GET_SYSCALL_USER_DISPATCH_CONFIG, tid,
			(void *)sizeof(config), &config) < 0
			 ? -ENOSYS
			 : config.mode == DISPATCH_ON;
	/* A signal that came before our stop is the program's own. */
	signal_number = status >> 16 == PTRACE_EVENT_STOP ? 0 : WSTOPSIG(status);
	ptrace(PTRACE_DETACH, tid, NULL, (void *)(uintptr_t)signal_number);
	since_ns = limpet_monotonic_ns() - since_ns;
	if (since_ns > *longest_stop_ns)
		*longest_stop_ns = since_ns;
	return answer;
}

static __attribute__((noreturn)) void helper(const pid_t *tids, int count, pid_t parent,
					     struct look *look)
{
	int result = 0;

	/* Our end is the target's way out, whatever happens to whom. */
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(1);
	for (int i = 0; i < count && !result; i++)
		result = look_at(tids[i], &look->longest_stop_ns);
	look->result = result;
	_exit(0);
}

static int look_by_helper(const pid_t *tids, int count, struct look *look)
{
	struct pollfd ended = {.events = POLLIN};
	pid_t child, parent = getpid();
	LIMPET_CLOSE int fd = -1;
	int ready;

	child = fork();
	if (child < 0)
		return -errno;
	if (child == 0)
		helper(tids, count, parent, look);
	fd = (int)syscall(SYS_pidfd_open, child, 0);
	ended.fd = fd;
	do
		ready = fd < 0 ? 0 : poll(&ended, 1, LOOK_TIMEOUT_MS);
	while (ready < 0 && errno == EINTR);
	if (ready <= 0)
		kill(child, SIGKILL);
	while (waitpid(child, NULL, 0) < 0 && errno == EINTR)
		;
	limpet_tracee_note_stop_ns(look->longest_stop_ns);
	return look->result;
}

/* Those that can be stopped; answers their number. */
static int list_threads(const struct limpet_check *check, pid_t **ret_tids)
{
	LIMPET_FREE pid_t *tids = NULL;
	int count = limpet_proc_tasks(check->pid, &tids), kept = 0;

	for (int i = 0; i < count; i++) {
		struct limpet_proc_status status;

		if (limpet_proc_status_read(tids[i], &status) == 0 && !status.kernel_thread &&
		    !strchr("DZX", status.state))
			tids[kept++] = tids[i];
	}
	if (count >= 0)
		*ret_tids = LIMPET_TAKE(tids);
	return count < 0 ? count : kept;
}

static void check_dispatch(struct limpet_check *check)
{
	struct look *look = mmap(NULL, sizeof(*look), PROT_READ | PROT_WRITE,
				 MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	LIMPET_FREE pid_t *tids = NULL;
	int count = list_threads(check, &tids), answer = -ENOMEM;

	if (look != MAP_FAILED && count > 0) {
		look->result = -EINPROGRESS;
		answer = look_by_helper(tids, count, look);
	}
	if (look != MAP_FAILED)
		munmap(look, sizeof(*look));
	if (answer == 1) {
		limpet_check_refuse(
			check, -ENOTSUP, "syscall-dispatch", "syscall dispatch",
			"it hands system calls to its own handler (syscall user dispatch, "
			"as Wine does), and would take limpet's for its own");
		limpet_check_hint(check, "Windows programs under Wine cannot be captured");
	} else if (answer < 0 && answer != -ENOSYS) {
		limpet_check_add(check, LIMPET_FINDING_WARNING, "syscall-dispatch", "",
				 "it handles SIGSYS, and whether it hands system calls to that "
				 "handler could not be seen in time");
	}
}

/* ------------------------------------------------------------------ threads that libc does not
 * know */

/* True: libc takes no locks, since it knows of one thread alone. glibc has the word since 2.32. */
static bool libc_sees_one(pid_t pid, uint64_t address)
{
	char is_single = 0;

	return limpet_memory_read(pid, address, &is_single, 1) == 0 && is_single;
}

static int count_threads(const struct limpet_check *check)
{
	LIMPET_FREE pid_t *tids = NULL;
	int count = limpet_proc_tasks(check->pid, &tids), kept = 0;

	for (int i = 0; i < count; i++) {
		struct limpet_proc_status status;

		kept += limpet_proc_status_read(tids[i], &status) == 0 && !status.kernel_thread &&
			!strchr("ZX", status.state);
	}
	return kept;
}

/* In a program whose libc believes in one thread nothing is locked: what we call there would meet
 * another thread in the middle of malloc. One that libc has joined may be listed for a moment. */
static void check_raw_threads(struct limpet_check *check)
{
	const struct timespec pause = {0, RAW_PAUSE_NS};
	struct limpet_modules modules;
	uint64_t address;
	unsigned looks = 0;

	if (check->status.threads < 2 || limpet_modules_read(check->pid, &modules, NULL) < 0)
		return;
	address = limpet_modules_symbol(&modules, "__libc_single_threaded", NULL);
	limpet_modules_done(&modules);
	while (address && libc_sees_one(check->pid, address) && count_threads(check) > 1) {
		if (++looks < RAW_LOOKS) {
			nanosleep(&pause, NULL);
			continue;
		}
		limpet_check_refuse(check, -ENOTSUP, "raw-thread", "raw threads",
				    "it has a thread that its C library knows nothing of (a bare "
				    "clone(2)): the library takes no locks, and limpet's calls "
				    "would meet that thread in the middle of malloc");
		limpet_check_hint(check, "threads made by pthread_create are captured");
		return;
	}
}

void limpet_check_threads(struct limpet_check *check)
{
	/* No stop for a program that will not be entered anyway; one that has done nothing yet has
	 * done none of this. */
	if (check->options.quick || check->options.launched ||
	    check->out->verdict != LIMPET_PREFLIGHT_OK)
		return;
	check_raw_threads(check);
	if (check->out->verdict == LIMPET_PREFLIGHT_OK && handles_sigsys(check))
		check_dispatch(check);
}
