#include "common/unix_path.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

int limpet_unix_path_open(const char *path, struct limpet_unix_path *ret)
{
	const char *slash = strrchr(path, '/');
	char directory[PATH_MAX] = ".";
	struct limpet_unix_path found = {.address.sun_family = AF_UNIX};
	int length;

	if (slash == path)
		strcpy(directory, "/");
	else if (slash && (size_t)(slash - path) < sizeof(directory))
		snprintf(directory, sizeof(directory), "%.*s", (int)(slash - path), path);
	else if (slash)
		return -ENAMETOOLONG;
	found.name = slash ? slash + 1 : path;
	if (!*found.name)
		return -EINVAL;
	found.dir_fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (found.dir_fd < 0 && errno == EACCES)
		found.dir_fd = open(directory, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (found.dir_fd < 0)
		return -errno;
	length = snprintf(found.address.sun_path, sizeof(found.address.sun_path),
			  "/proc/self/fd/%d/%s", found.dir_fd, found.name);
	if (length < 0 || (size_t)length >= sizeof(found.address.sun_path)) {
		close(found.dir_fd);
		return -ENAMETOOLONG;
	}
	*ret = found;
	return 0;
}

void limpet_unix_path_done(struct limpet_unix_path *path)
{
	close(path->dir_fd);
}
