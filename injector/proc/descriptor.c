#include "injector/proc/descriptor.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/kcmp.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/err.h"
#include "injector/proc/proc.h"

/* <linux/pidfd.h> of Linux 6.9, which Debian 12 does not have yet. */
#define PIDFD_THREAD_FLAG O_EXCL

int limpet_descriptor_get(pid_t pid, int pidfd, int fd)
{
	struct pollfd process = {.fd = pidfd, .events = POLLIN};
	int copy = (int)syscall(SYS_pidfd_getfd, pidfd, fd, 0), error = copy < 0 ? -errno : 0;
	LIMPET_CLOSE int thread = -1;
	pid_t resident;

	if (!error || (error != -EBADF && error != -ESRCH))
		return error ? error : copy;
	resident = limpet_proc_resident(pid);
	if (resident == pid)
		return error;
	thread = (int)syscall(SYS_pidfd_open, resident, PIDFD_THREAD_FLAG);
	if (thread < 0)
		return -errno;
	/* Check that this is still a thread of the process, and not a stranger with a reused
	 * number. */
	if (limpet_proc_resident(pid) != resident || poll(&process, 1, 0) > 0)
		return -ESRCH;
	copy = (int)syscall(SYS_pidfd_getfd, thread, fd, 0);
	return copy < 0 ? -errno : copy;
}

int limpet_descriptor_get_of(pid_t pid, int pidfd, pid_t tid, int fd)
{
	LIMPET_CLOSE int thread = -1;
	int copy;

	if (tid == pid)
		return limpet_descriptor_get(pid, pidfd, fd);
	thread = (int)syscall(SYS_pidfd_open, tid, PIDFD_THREAD_FLAG);
	if (thread < 0)
		return errno == EINVAL ? limpet_descriptor_get(pid, pidfd, fd) : -errno;
	copy = (int)syscall(SYS_pidfd_getfd, thread, fd, 0);
	return copy < 0 ? -errno : copy;
}

bool limpet_descriptor_apart(pid_t tid, pid_t other)
{
	return tid != other && syscall(SYS_kcmp, tid, other, KCMP_FILES, 0, 0) > 0;
}

bool limpet_descriptor_reachable(pid_t pid)
{
	pid_t resident = limpet_proc_resident(pid);
	LIMPET_CLOSE int thread = -1;

	if (resident == pid)
		return true;
	thread = (int)syscall(SYS_pidfd_open, resident, PIDFD_THREAD_FLAG);
	return thread >= 0;
}

void limpet_descriptor_raise_limit(uint64_t count)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) < 0 || limit.rlim_cur >= count ||
	    limit.rlim_cur >= limit.rlim_max)
		return;
	limit.rlim_cur = limit.rlim_max < count ? limit.rlim_max : count;
	setrlimit(RLIMIT_NOFILE, &limit);
}
