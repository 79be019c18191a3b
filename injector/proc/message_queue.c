#include "injector/proc/message_queue.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include "common/err.h"
#include "injector/proc/proc.h"

#define MQUEUE_MAGIC 0x19800202
#define QUEUE_FILE_BYTES 80 /* of each, whatever is in it (FILENT_SIZE in ipc/mqueue.c) */

/* Only what looks like a queue is opened. */
static bool is_queue(const char *path)
{
	LIMPET_CLOSE int file = -1;
	struct statx status;
	struct statfs system;

	if (statx(AT_FDCWD, path, AT_STATX_DONT_SYNC, STATX_TYPE | STATX_SIZE, &status) < 0 ||
	    !S_ISREG(status.stx_mode) || status.stx_size != QUEUE_FILE_BYTES)
		return false;
	file = open(path, O_PATH | O_CLOEXEC);
	return file >= 0 && fstatfs(file, &system) == 0 && system.f_type == MQUEUE_MAGIC;
}

static bool notifies(const char *path, pid_t pid)
{
	static const char key[] = "NOTIFY_PID:";
	LIMPET_CLOSE int file = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	char text[QUEUE_FILE_BYTES + 1], *value;
	ssize_t count = file < 0 ? -1 : read(file, text, sizeof(text) - 1);

	if (count < 0)
		return true;
	text[count] = '\0';
	value = strstr(text, key);
	return !value || strtol(value + strlen(key), NULL, 10) == pid;
}

int limpet_proc_notifying_queue(pid_t pid)
{
	const pid_t resident = limpet_proc_resident(pid);
	char path[PATH_MAX];

	for (int fd = 0; fd < LIMPET_DESCRIPTORS_COPIED; fd++) {
		snprintf(path, sizeof(path), "%s/%d/fd/%d", limpet_proc_root, resident, fd);
		if (is_queue(path) && notifies(path, pid))
			return fd;
	}
	return -1;
}
