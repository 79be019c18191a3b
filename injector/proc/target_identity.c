#include "injector/proc/target_process.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "common/open_file.h"
#include "injector/proc/memory.h"
#include "injector/proc/proc.h"
#include "injector/proc/proc_files.h"

/* How often the bytes are compared, should the program be writing there. */
#define TRIES 8

int limpet_target_open(pid_t pid, struct limpet_target *ret, struct limpet_err *err)
{
	struct limpet_target target = {
		.pid = pid, .pidfd = (int)syscall(SYS_pidfd_open, pid, 0), .memory_fd = -1};
	int error = target.pidfd < 0 ? limpet_errno()
				     : limpet_proc_start_time(pid, &target.start_ticks);

	if (!error &&
	    (limpet_proc_auxv(pid, AT_RANDOM, &target.mark_address) < 0 ||
	     limpet_memory_read(pid, target.mark_address, target.mark, sizeof(target.mark)) < 0))
		target.mark_address = 0;
	/* It stays the file of this memory: after an exec it is empty, unless another process has
	 * the memory, too. Who may not open it cannot attach, and is told why later. */
	if (!error)
		target.memory_fd = limpet_proc_open_of(limpet_proc_resident(pid), "mem", O_RDONLY);
	if (target.memory_fd == -EMFILE || target.memory_fd == -ENFILE)
		error = target.memory_fd;
	if (error) {
		limpet_target_close(&target);
		*ret = (struct limpet_target){
			.pid = pid, .pidfd = -1, .memory_fd = -1, .error = error};
		return limpet_proc_explain(pid, error, "open", err);
	}
	*ret = target;
	return 0;
}

const struct limpet_target *limpet_target_self(void)
{
	static _Thread_local struct limpet_target self;

	self = (struct limpet_target){.pid = getpid(), .pidfd = -1, .memory_fd = -1};
	return &self;
}

void limpet_target_close(struct limpet_target *target)
{
	if (target->pidfd >= 0) {
		close(target->pidfd);
		if (target->memory_fd >= 0)
			close(target->memory_fd);
	}
	target->pidfd = target->memory_fd = -1;
}

/* If the mark is another: whether the program itself has written over it, or unmapped it. If its
 * memory may no longer be read, the first one decides, which is empty after an exec. */
static int check_memory(const struct limpet_target *target)
{
	for (int i = 0; i < TRIES; i++) {
		uint64_t first[2] = {0}, now[2] = {0};
		ssize_t bytes =
			pread(target->memory_fd, first, sizeof(first), (off_t)target->mark_address);
		bool unmapped = bytes < 0 && errno == EIO;
		int error =
			limpet_memory_read_own(target->pid, target->mark_address, now, sizeof(now));

		if (bytes <= 0 && !unmapped)
			break;
		if (error == -EACCES || error == -EPERM)
			return error;
		if (unmapped ? error == -EFAULT : !error && memcmp(first, now, sizeof(now)) == 0)
			return 0;
	}
	return -ESTALE;
}

int limpet_target_read(const struct limpet_target *target, uint64_t address, void *ret,
		       size_t bytes)
{
	int error = limpet_memory_read_own(target->pid, address, ret, bytes);
	ssize_t got;

	if ((error != -EACCES && error != -EPERM) || target->memory_fd < 0)
		return error;
	got = pread(target->memory_fd, ret, bytes, (off_t)address);
	if (got < 0)
		return errno == EIO ? -EFAULT : limpet_errno();
	return (size_t)got == bytes ? 0 : got ? -EFAULT : -ESTALE;
}

int limpet_target_still_has_pid(const struct limpet_target *target)
{
	/* A pid is free once its process has ended and was collected: a zombie has it. */
	return target->pidfd >= 0 &&
			       syscall(SYS_pidfd_send_signal, target->pidfd, 0, NULL, 0) < 0 &&
			       errno == ESRCH
		       ? -ESRCH
		       : 0;
}

int limpet_target_check(const void *context)
{
	const struct limpet_target *target = context;
	struct pollfd end = {.fd = target->pidfd, .events = POLLIN};
	uint64_t ticks, mark[2];
	int error;

	if (target->pidfd < 0)
		return target->error;
	if (poll(&end, 1, 0) > 0)
		return -ESRCH;
	error = limpet_proc_start_time(target->pid, &ticks);
	if (!error && ticks != target->start_ticks)
		error = -ESRCH;
	if (error || !target->mark_address)
		return error;
	error = limpet_memory_read(target->pid, target->mark_address, mark, sizeof(mark));
	if (error == -ESRCH)
		return error;
	if (!error && memcmp(mark, target->mark, sizeof(mark)) == 0)
		return 0;
	return check_memory(target);
}

bool limpet_target_root(const struct limpet_target *target, char ret[LIMPET_TARGET_ROOT_BYTES])
{
	snprintf(ret, LIMPET_TARGET_ROOT_BYTES, "/proc/%d/root", limpet_proc_resident(target->pid));
	return limpet_target_check(target) != -ESRCH && limpet_open_may_enter(ret);
}

int limpet_target_explain(const struct limpet_target *target, int error, struct limpet_err *err)
{
	const struct timespec pause = {0, 5000000};
	const unsigned most_tries = 40;
	int identity = error ? limpet_target_check(target) : 0;

	/* A thread that disappears may be the beginning of an exec or an exit. */
	for (unsigned i = 0; error == -ESRCH && !identity && i < most_tries; i++) {
		nanosleep(&pause, NULL);
		identity = limpet_target_check(target);
	}
	return identity ? limpet_proc_explain(target->pid, identity, "look at", err) : error;
}
