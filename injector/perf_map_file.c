#include "injector/perf_map_file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/err.h"
#include "injector/proc.h"
#include "injector/proc_files.h"

/* The last number of "NSpid:\t4711\t7" is its own; and the user whose rights it has on files. */
static int read_identity(pid_t pid, pid_t *ret_own, uid_t *ret_uid)
{
	LIMPET_FREE char *text = NULL;
	const char *numbers, *users;
	size_t bytes;
	long own = pid;
	int code = limpet_proc_file_read(pid, "status", &text, &bytes);

	if (code < 0)
		return code;
	numbers = limpet_proc_status_value(text, "NSpid");
	while (numbers && *numbers >= '0' && *numbers <= '9') {
		char *stop;

		own = strtol(numbers, &stop, 10);
		numbers = stop + strspn(stop, "\t ");
	}
	/* "Uid:\treal\teffective\tsaved\tof files" */
	users = limpet_proc_status_value(text, "Uid");
	for (int i = 0; users && i < 3; i++) {
		users = strchr(users, '\t');
		users = users ? users + 1 : NULL;
	}
	if (own <= 0 || own > INT_MAX || !users || *users < '0' || *users > '9')
		return -EBADMSG;
	*ret_own = (pid_t)own;
	*ret_uid = (uid_t)strtoul(users, NULL, 10);
	return 0;
}

int limpet_perf_map_open(pid_t pid)
{
	/* Links are followed within its root only, and none in the last place. */
	struct open_how how = {.flags = O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK | O_NOFOLLOW,
			       .resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS};
	LIMPET_CLOSE int root = -1;
	LIMPET_CLOSE int fd = -1;
	char path[PATH_MAX], name[64];
	struct stat file;
	pid_t own;
	uid_t uid;
	int code = read_identity(pid, &own, &uid);

	if (code == 0)
		code = limpet_proc_path(path, pid, "root");
	if (code < 0)
		return code;
	root = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (root < 0)
		return -errno;
	snprintf(name, sizeof(name), "tmp/perf-%d.map", own);
	fd = (int)syscall(SYS_openat2, root, name, &how, sizeof(how));
	if (fd < 0 || fstat(fd, &file) < 0)
		return -errno;
	if (!S_ISREG(file.st_mode))
		return -EINVAL;
	if (file.st_uid != uid && file.st_uid != 0)
		return -EPERM;
	return limpet_take_fd(&fd);
}
