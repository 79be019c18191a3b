#include "injector/perf_map_file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/err.h"
#include "injector/proc.h"
#include "injector/proc_files.h"

int limpet_perf_map_open(pid_t pid)
{
	/* Links are followed within its root only, and none in the last place. */
	struct open_how how = {.flags = O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK | O_NOFOLLOW,
			       .resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS};
	LIMPET_CLOSE int root = -1;
	LIMPET_CLOSE int fd = -1;
	char path[PATH_MAX], name[64];
	struct stat file;
	struct limpet_proc_status status;
	int code = limpet_proc_status_read(pid, &status);

	if (code == 0)
		code = limpet_proc_path(path, pid, "root");
	if (code < 0)
		return code;
	root = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (root < 0)
		return -errno;
	snprintf(name, sizeof(name), "tmp/perf-%d.map", status.ns_pid);
	fd = (int)syscall(SYS_openat2, root, name, &how, sizeof(how));
	if (fd < 0 || fstat(fd, &file) < 0)
		return -errno;
	if (!S_ISREG(file.st_mode))
		return -EINVAL;
	if (file.st_uid != status.fsuid && file.st_uid != 0)
		return -EPERM;
	return limpet_take_fd(&fd);
}
