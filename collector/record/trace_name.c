#include "collector/record/trace_name.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>

#define NUMBERS 10000
#define LOCK_TRIES 50
#define LOCK_WAIT_NS 2000000

void limpet_trace_name_clean(const char *text, char *ret, size_t bytes)
{
	size_t at = 0;

	for (; text && *text && at + 1 < bytes; text++) {
		char c = *text;
		bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
			     (c >= '0' && c <= '9') || strchr("_+-.", c);

		if (at == 0 && (c == '-' || c == '.'))
			plain = false;
		ret[at++] = plain ? c : '_';
	}
	if (at == 0)
		ret[at++] = '_';
	ret[at] = '\0';
}

int limpet_trace_create(int dir_fd, const char *path)
{
	int fd = openat(dir_fd, path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);

	return fd < 0 ? -errno : fd;
}

int limpet_trace_create_numbered(int dir_fd, const char *stem,
				 char ret_name[LIMPET_TRACE_NAME_BYTES])
{
	int fd = -EEXIST;

	for (int i = 0; fd == -EEXIST && i < NUMBERS; i++) {
		if (i == 0)
			snprintf(ret_name, LIMPET_TRACE_NAME_BYTES, "%s.limpet", stem);
		else
			snprintf(ret_name, LIMPET_TRACE_NAME_BYTES, "%s.limpet.%d", stem, i);
		fd = limpet_trace_create(dir_fd, ret_name);
	}
	return fd;
}

/* Retries, since a reader that checks whether a writer is alive takes the lock for an instant. */
int limpet_trace_lock(int fd)
{
	for (int i = 0; i < LOCK_TRIES; i++) {
		if (flock(fd, LOCK_EX | LOCK_NB) == 0 || errno == ENOLCK || errno == ENOSYS ||
		    errno == EOPNOTSUPP)
			return 0;
		if (errno != EWOULDBLOCK)
			return -1;
		nanosleep(&(struct timespec){.tv_nsec = LOCK_WAIT_NS}, NULL);
	}
	return -1;
}
