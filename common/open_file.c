#include "common/open_file.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <linux/openat2.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

int limpet_open_name(const char *root, const char *path, unsigned flags)
{
	const unsigned enough = 16;
	struct open_how how = {.flags = O_PATH | O_CLOEXEC};
	LIMPET_CLOSE int folder = -1;
	int fd = -1;

	if (root)
		how.resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS;
	if (flags & LIMPET_OPEN_NO_LINKS)
		how.resolve |= RESOLVE_NO_SYMLINKS;
	if (!how.resolve) {
		fd = open(path, O_PATH | O_CLOEXEC);
		return fd < 0 ? -errno : fd;
	}
	if (root)
		folder = open(root, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (root && folder < 0)
		return -errno;
	/* EAGAIN: something was renamed meanwhile, so that nobody knows where the way leads. */
	for (unsigned i = 0; i < enough; i++) {
		fd = (int)syscall(SYS_openat2, root ? folder : AT_FDCWD, path, &how, sizeof(how));
		if (fd >= 0 || errno != EAGAIN)
			break;
	}
	return fd < 0 ? -errno : fd;
}

/* Of the kernel's own file systems some files look regular, and do something when they are read. */
static bool is_on_disk(int fd)
{
	static const uint64_t others[] = {PROC_SUPER_MAGIC,    SYSFS_MAGIC,      DEBUGFS_MAGIC,
					  TRACEFS_MAGIC,       SECURITYFS_MAGIC, CGROUP_SUPER_MAGIC,
					  CGROUP2_SUPER_MAGIC, BPF_FS_MAGIC,     SELINUX_MAGIC};
	struct statfs fs;

	if (fstatfs(fd, &fs) < 0)
		return false;
	for (size_t i = 0; i < LIMPET_COUNT_OF(others); i++)
		if ((uint64_t)fs.f_type == others[i])
			return false;
	return true;
}

int limpet_open_regular(const char *root, const char *path, unsigned flags)
{
	LIMPET_CLOSE int named = limpet_open_name(root, path, flags);
	LIMPET_CLOSE int fd = -1;
	struct stat before, after;
	char name[32];

	if (named < 0)
		return named;
	if (fstat(named, &before) < 0)
		return -errno;
	if (!S_ISREG(before.st_mode) || !is_on_disk(named))
		return -EINVAL;
	snprintf(name, sizeof(name), "/proc/self/fd/%d", named);
	fd = open(name, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	/* Nobody mounted /proc for us: by the name once more, which is ours. */
	if (fd < 0 && errno == ENOENT && !root && !flags)
		fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	if (fd < 0 || fstat(fd, &after) < 0)
		return -errno;
	if (after.st_dev != before.st_dev || after.st_ino != before.st_ino)
		return -EINVAL;
	return limpet_take_fd(&fd);
}
