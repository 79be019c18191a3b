#include "injector/proc/target_end.h"

#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "common/err.h"
#include "injector/proc/proc.h"
#include "injector/proc/target_process.h"

/* <linux/pidfd.h> of Linux 6.15, which Debian 12 does not have yet. */
struct pidfd_info {
	uint64_t mask, cgroup;
	uint32_t pid, tgid, ppid, ruid, rgid, euid, egid, suid, sgid, fsuid, fsgid;
	int32_t exit_code;
};
#define INFO_EXIT (1ull << 3)
#define PIDFD_GET_INFO_CALL _IOWR(0xff, 11, struct pidfd_info)

static int status_of_zombie(pid_t pid)
{
	char path[64], text[1024];
	LIMPET_CLOSE int fd = -1;
	const char *last;
	ssize_t bytes;

	snprintf(path, sizeof(path), "%s/%d/stat", limpet_proc_root, pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	bytes = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
	if (bytes <= 0)
		return -1;
	text[bytes] = '\0';
	last = strrchr(text, ')');
	if (!last || strncmp(last, ") Z", 3) != 0)
		return -1;
	last = strrchr(text, ' '); /* field 52: exit_code */
	return last ? (int)strtol(last + 1, NULL, 10) : -1;
}

int limpet_target_end_status(const struct limpet_target *target)
{
	struct pidfd_info info = {.mask = INFO_EXIT};
	int status = status_of_zombie(target->pid);

	if (status >= 0 && limpet_target_still_has_pid(target) == 0)
		return status;
	if (ioctl(target->pidfd, PIDFD_GET_INFO_CALL, &info) == 0 && info.mask & INFO_EXIT)
		return info.exit_code;
	return -1;
}
