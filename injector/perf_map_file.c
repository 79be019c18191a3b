#include "injector/perf_map_file.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/err.h"
#include "common/open_file.h"
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
	LIMPET_CLOSE int fd = -1;
	char root[PATH_MAX], name[64];
	struct limpet_proc_status status;
	struct stat file;
	int code = limpet_proc_status_read(pid, &status);

	if (code == 0)
		code = refuse_fuse(pid);
	if (code == 0)
		code = limpet_proc_path(root, pid, "root");
	if (code < 0)
		return code;
	snprintf(name, sizeof(name), "tmp/perf-%d.map", status.ns_pid);
	fd = limpet_open_regular(root, name, LIMPET_OPEN_NO_LINKS);
	if (fd < 0 || fstat(fd, &file) < 0)
		return fd < 0 ? limpet_take_fd(&fd) : -errno;
	if (file.st_uid != status.fsuid && file.st_uid != 0)
		return -EPERM;
	return limpet_take_fd(&fd);
}
