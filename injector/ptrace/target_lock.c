#include "injector/ptrace/target_lock.h"

#include <errno.h>
#include <string.h>
#include <sys/file.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "common/clock.h"
#include "injector/proc/proc.h"
#include "injector/ptrace/tracer.h"

int limpet_target_lock_take(struct limpet_tracer *tracer, pid_t pid, uint64_t deadline_ns,
			    struct limpet_err *err)
{
	const struct timespec pause = {0, 1000000};
	int fd = (int)syscall(SYS_pidfd_open, pid, 0);

	if (fd < 0)
		return limpet_proc_explain(pid, -errno, "open", err);
	/* flock(2) has no timeout, and SIGALRM is left alone: so poll. */
	while (flock(fd, LOCK_EX | LOCK_NB) < 0) {
		int error = -errno;

		if (error == -EWOULDBLOCK && limpet_monotonic_ns() < deadline_ns) {
			nanosleep(&pause, NULL);
			limpet_tracer_release_strays(tracer);
			continue;
		}
		close(fd);
		if (error != -EWOULDBLOCK)
			return limpet_proc_explain(pid, error, "lock", err);
		limpet_err_set(err, -EALREADY, "another limpet is changing process %d", pid);
		limpet_err_hint(err,
				"look for one that is stopped or hangs, end it, and try again");
		return -EALREADY;
	}
	return fd;
}
