#include "injector/perf_map_file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/err.h"
#include "injector/proc.h"
#include "injector/proc_files.h"

/* Whether a file system that the program itself may serve lies on the way: it could let us wait for
 * good. Mount points are seen from the process's root (proc(5)). */
static int refuse_fuse(pid_t pid)
{
	LIMPET_FREE char *text = NULL;
	char *save, *line;
	size_t bytes;
	int code = limpet_proc_file_read(pid, "mountinfo", &text, &bytes);

	if (code < 0)
		return code;
	for (line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
		const char *type = strstr(line, " - "), *point = line;

		/* "36 35 98:0 /root /point options - type source options" */
		for (int field = 0; field < 4 && point; field++) {
			point = strchr(point, ' ');
			point = point ? point + 1 : NULL;
		}
		if (!type || !point || strncmp(type + 3, "fuse", 4))
			continue;
		if (!strncmp(point, "/ ", 2) || !strncmp(point, "/tmp ", 5) ||
		    !strncmp(point, "/tmp/", 5))
			return -EOPNOTSUPP;
	}
	return 0;
}

int limpet_perf_map_open(pid_t pid)
{
	/* Its own root, and no link on the way. */
	struct open_how how = {.flags = O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK | O_NOFOLLOW,
			       .resolve = RESOLVE_IN_ROOT | RESOLVE_NO_SYMLINKS};
	LIMPET_CLOSE int root = -1;
	LIMPET_CLOSE int fd = -1;
	char path[PATH_MAX], name[64];
	struct stat file;
	struct limpet_proc_status status;
	int code = limpet_proc_status_read(pid, &status);

	if (code == 0)
		code = refuse_fuse(pid);
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
