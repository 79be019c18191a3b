#include "injector/ptrace/watchdog.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "injector/ptrace/arch.h"

/* clone(2) by another name of glibc's: ThreadSanitizer takes the child of clone() for a fork with
 * memory of its own, and sees no lock of ours from then on. */
int __clone(int (*function)(void *argument), void *stack, int flags, void *argument, ...);

#define POLL_NS 100000000
/* During one hold: limpet is woken at the first two polls, and killed at the third. */
#define WAKES 2u
#define STACK_BYTES 16384u

/* Shared with the watchdog, which shares limpet's memory: nothing has to be copied for it, however
 * much memory the collector uses. */
static _Atomic uint32_t holds; /* odd: a thread is held */
static _Atomic bool is_over;
static char stat_path[64];
static pid_t limpet_pid;
static _Alignas(64) uint8_t stack[STACK_BYTES];

static pid_t watchdog; /* 0: none */
static bool must_end;

/* ---------------------------------------------------------------- in the watchdog
 *
 * It runs on limpet's thread-local storage: it makes raw system calls only, and calls nothing of
 * libc. */

#define RAW(number, ...) RAW_(number, __VA_ARGS__, 0, 0, 0, 0, 0)
#define RAW_(number, a, b, c, d, e, ...) \
	limpet_raw_call(number, (long)(a), (long)(b), (long)(c), (long)(d), (long)(e))

/* proc_pid_stat(5): the state follows the name, which may contain anything. 't' is a stop by a
 * debugger. */
static bool is_stopped(int stat)
{
	char text[128]; /* the name has at most 15 bytes */
	long bytes = RAW(SYS_pread64, stat, text, sizeof(text), 0);

	for (long i = bytes - 3; i >= 0; i--)
		if (text[i] == ')')
			return text[i + 2] == 'T';
	return false;
}

static int watch(void *unused)
{
	const struct timespec pause = {0, POLL_NS};
	uint32_t seen = 0;
	unsigned wakes = 0;
	long pidfd, stat;

	(void)unused;
	/* First, since by its memory it looks like a collector. */
	RAW(SYS_prctl, PR_SET_NAME, LIMPET_WATCHDOG_NAME);
	/* Until here the descriptor table is limpet's: at no moment does a second table keep a lock
	 * or the end of a pipe open. */
	if (RAW(SYS_close_range, 0, ~0u, CLOSE_RANGE_UNSHARE) < 0 ||
	    RAW(SYS_prctl, PR_SET_PDEATHSIG, SIGKILL) < 0 || RAW(SYS_setsid, 0) < 0)
		return 1;
	pidfd = RAW(SYS_pidfd_open, limpet_pid, 0);
	stat = RAW(SYS_openat, AT_FDCWD, stat_path, O_RDONLY | O_CLOEXEC);
	if (pidfd < 0 || stat < 0)
		return 1;
	/* limpet ended before the watchdog could ask to be told of it. */
	while (!atomic_load(&is_over) && RAW(SYS_getppid, 0) == limpet_pid) {
		uint32_t now = atomic_load(&holds);

		if (!(now & 1) || !is_stopped((int)stat)) {
			wakes = 0;
		} else {
			if (now != seen)
				wakes = 0;
			seen = now;
			RAW(SYS_pidfd_send_signal, pidfd, wakes++ < WAKES ? SIGCONT : SIGKILL);
		}
		RAW(SYS_nanosleep, &pause, 0);
	}
	return 0;
}

/* ---------------------------------------------------------------- in limpet */

void limpet_watchdog_begin(void)
{
	sigset_t all, kept;

	if (watchdog && !must_end)
		return;
	limpet_watchdog_bury(true);
	atomic_store(&is_over, false);
	limpet_pid = getpid();
	snprintf(stat_path, sizeof(stat_path), "/proc/%d/stat", limpet_pid);
	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, &kept);
	/* No signal reports its end, and only a wait for this very pid collects it. */
	watchdog = __clone(watch, stack + STACK_BYTES, CLONE_VM | CLONE_FILES, NULL);
	pthread_sigmask(SIG_SETMASK, &kept, NULL);
	if (watchdog < 0)
		watchdog = 0;
	must_end = false;
}

void limpet_watchdog_hold(bool held)
{
	if (held != (atomic_load(&holds) & 1))
		atomic_fetch_add(&holds, 1);
}

void limpet_watchdog_end(void)
{
	if (!watchdog || must_end)
		return;
	/* If the signal fails, it ends at its next poll. */
	atomic_store(&is_over, true);
	kill(watchdog, SIGKILL);
	must_end = true;
}

void limpet_watchdog_bury(bool wait)
{
	pid_t got;

	if (!watchdog || !must_end)
		return;
	do
		got = waitpid(watchdog, NULL, __WALL | (wait ? 0 : WNOHANG));
	while (got < 0 && errno == EINTR);
	if (got)
		watchdog = 0;
}
