#include "cli/received.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>

#include "common/array.h"
#include "common/err.h"

/* Whether somebody writes it. */
static bool is_growing(int dir_fd, const char *name, struct stat *ret_stat)
{
	LIMPET_CLOSE int fd =
		openat(dir_fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);

	return fd >= 0 && fstat(fd, ret_stat) == 0 && S_ISREG(ret_stat->st_mode) &&
	       flock(fd, LOCK_SH | LOCK_NB) < 0 && errno == EWOULDBLOCK;
}

static int compare_paths(const void *a, const void *b)
{
	return strcmp(((const struct limpet_received *)a)->path,
		      ((const struct limpet_received *)b)->path);
}

int limpet_received_list(const char *directory, struct limpet_received **ret_list)
{
	struct limpet_received *list = NULL;
	size_t count = 0, capacity = 0;
	DIR *dir = opendir(directory);
	const struct dirent *entry;
	int code = dir ? 0 : limpet_errno();
	struct stat stat;

	while (dir && code == 0 && (entry = readdir(dir))) {
		if (!strstr(entry->d_name, ".limpet") ||
		    !is_growing(dirfd(dir), entry->d_name, &stat))
			continue;
		code = limpet_reserve(&list, &capacity, count + 1, sizeof(*list));
		if (code < 0)
			break;
		list[count].bytes = (uint64_t)stat.st_size;
		snprintf(list[count++].path, sizeof(list->path), "%s/%s", directory, entry->d_name);
	}
	if (dir)
		closedir(dir);
	if (code < 0) {
		free(list);
		return code;
	}
	if (count)
		qsort(list, count, sizeof(*list), compare_paths);
	*ret_list = list;
	return (int)count;
}
