#include "injector/ptrace/target_lock.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "common/clock.h"
#include "injector/proc/proc.h"
#include "injector/ptrace/tracer.h"

/* A byte that nobody else has a use for: "limpet". */
#define LOCKED_BYTE INT64_C(0x6c696d706574)

static bool lock(int fd)
{
	struct flock byte = {
		.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = LOCKED_BYTE, .l_len = 1};

	return fcntl(fd, F_OFD_SETLK, &byte) == 0;
}

int limpet_target_lock_acquire(struct limpet_tracer *tracer, pid_t pid, uint64_t deadline_ns,
			       struct limpet_err *err)
{
	const struct timespec pause = {0, 1000000};
	int fd = (int)syscall(SYS_pidfd_open, pid, 0);

	if (fd < 0)
		return limpet_proc_explain(pid, -errno, "open", err);
	/* Waiting for a lock has no timeout, and SIGALRM is left alone: so poll. */
	while (!lock(fd)) {
		int error = errno == EACCES ? -EAGAIN : -errno;

		if (error == -EAGAIN && limpet_monotonic_ns() < deadline_ns) {
			nanosleep(&pause, NULL);
			limpet_tracer_release_strays(tracer);
			continue;
		}
		close(fd);
		if (error != -EAGAIN)
			return limpet_proc_explain(pid, error, "lock", err);
		limpet_err_set(err, -EALREADY, "another limpet is changing process %d", pid);
		limpet_err_hint(err,
				"look for one that is stopped or hangs, end it, and try again");
		return -EALREADY;
	}
	return fd;
}
