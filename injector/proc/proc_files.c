#include "injector/proc/proc_files.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/array.h"
#include "common/err.h"
#include "injector/proc/proc.h"
#include "injector/proc/target_process.h"

/* Limits the memory that a substitute or hostile file can take: 1 M maps of 256 bytes each. */
#define FILE_LIMIT_BYTES ((size_t)256 << 20)

int limpet_proc_missing(pid_t pid)
{
	char path[PATH_MAX];
	struct stat st;

	snprintf(path, sizeof(path), "%s/%d", limpet_proc_root, pid);
	if (pid > 0 && stat(path, &st) && errno == ENOENT)
		return -ESRCH;
	return -ENOENT;
}

/* Whether a thread releases this when it ends, so that its /proc directory loses it. */
static bool goes_with_thread(const char *name)
{
	static const char *const names[] = {
		"maps", "smaps", "mem", "pagemap", "auxv",      "cmdline", "environ",   "exe",
		"cwd",  "root",  "fd",  "fdinfo",  "map_files", "ns",      "mountinfo", "cgroup"};
	size_t length = strcspn(name, "/");

	for (size_t i = 0; i < LIMPET_COUNT_OF(names); i++)
		if (strlen(names[i]) == length && !strncmp(name, names[i], length))
			return true;
	return false;
}

int limpet_proc_path(char *ret_path, pid_t pid, const char *format, ...)
{
	char name[256];
	va_list args;
	int bytes;

	va_start(args, format);
	bytes = vsnprintf(name, sizeof(name), format, args);
	va_end(args);
	if (bytes < 0 || bytes >= (int)sizeof(name))
		return -ENAMETOOLONG;
	if (pid > 0 && goes_with_thread(name))
		pid = limpet_proc_resident(pid);
	if (pid > 0)
		bytes = snprintf(ret_path, PATH_MAX, "%s/%d/%s", limpet_proc_root, pid, name);
	else
		bytes = snprintf(ret_path, PATH_MAX, "%s/%s", limpet_proc_root, name);
	return bytes < 0 || bytes >= PATH_MAX ? -ENAMETOOLONG : 0;
}

int limpet_proc_open_of(pid_t pid, const char *name, int flags)
{
	char path[PATH_MAX];
	int fd = limpet_proc_path(path, pid, "%s", name);

	if (fd < 0)
		return fd;
	fd = open(path, flags | O_CLOEXEC | O_NOCTTY);
	if (fd >= 0)
		return fd;
	return errno == ENOENT ? limpet_proc_missing(pid) : limpet_errno();
}

int limpet_proc_open(const struct limpet_target *target, const char *name, int flags)
{
	LIMPET_CLOSE int fd = limpet_proc_open_of(target->pid, name, flags);
	int error = fd < 0 ? fd : limpet_target_still_has_pid(target);

	return error ? error : limpet_take_fd(&fd);
}

static int read_all(int fd, char **ret_text, size_t *ret_bytes)
{
	LIMPET_FREE char *text = NULL;
	size_t capacity = 0, used = 0;

	for (;;) {
		ssize_t got;

		if (capacity - used < 2) {
			/* proc files report no size; start with what most of them need */
			if (capacity >= FILE_LIMIT_BYTES)
				return -EFBIG;
			if (limpet_reserve(&text, &capacity, capacity + 16384, 1) < 0)
				return -ENOMEM;
		}
		got = read(fd, text + used, capacity - used - 1);
		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return -errno;
		if (got == 0)
			break;
		used += (size_t)got;
	}
	text[used] = '\0';
	*ret_bytes = used;
	*ret_text = LIMPET_TAKE(text);
	return 0;
}

int limpet_proc_file_read(pid_t pid, const char *name, char **ret_text, size_t *ret_bytes)
{
	LIMPET_CLOSE int fd = limpet_proc_open_of(pid, name, O_RDONLY);
	int r;

	if (fd < 0)
		return fd;
	r = read_all(fd, ret_text, ret_bytes);
	return r == -ENOENT ? limpet_proc_missing(pid) : r;
}

int limpet_proc_number_read(const char *name, uint64_t *ret_value)
{
	LIMPET_FREE char *text = NULL;
	uint64_t value;
	size_t bytes;
	char *stop;
	int r = limpet_proc_file_read(0, name, &text, &bytes);

	if (r < 0)
		return r;
	assert(text);
	errno = 0;
	value = strtoull(text, &stop, 10);
	if (errno || stop == text)
		return -EBADMSG;
	*ret_value = value;
	return 0;
}

int limpet_proc_link_read(pid_t pid, const char *name, char *ret, size_t bytes)
{
	char path[PATH_MAX];
	ssize_t got;
	int r;

	if (!bytes)
		return -EINVAL;
	ret[0] = '\0';
	r = limpet_proc_path(path, pid, "%s", name);
	if (r < 0)
		return r;
	got = readlink(path, ret, bytes - 1);
	if (got < 0)
		return errno == ENOENT ? limpet_proc_missing(pid) : -errno;
	ret[got] = '\0';
	return 0;
}

static int compare_ints(const void *a, const void *b)
{
	int x = *(const int *)a, y = *(const int *)b;

	return (x > y) - (x < y);
}

int limpet_proc_list_numbers(pid_t pid, const char *name, int **ret_list)
{
	LIMPET_FREE int *list = NULL;
	char path[PATH_MAX];
	size_t capacity = 0, count = 0;
	struct dirent *entry;
	DIR *directory;
	int r = limpet_proc_path(path, pid, "%s", name);

	if (r < 0)
		return r;
	directory = opendir(path);
	if (!directory)
		return errno == ENOENT ? limpet_proc_missing(pid) : -errno;
	for (;;) {
		char *stop;
		long number;

		errno = 0;
		entry = readdir(directory);
		if (!entry)
			break;
		number = strtol(entry->d_name, &stop, 10);
		if (entry->d_name[0] < '0' || entry->d_name[0] > '9' || *stop || number > INT_MAX)
			continue;
		if (limpet_reserve(&list, &capacity, count + 1, sizeof(*list)) < 0) {
			closedir(directory);
			return -ENOMEM;
		}
		list[count++] = (int)number;
	}
	r = -errno;
	closedir(directory);
	if (r < 0)
		/* a task or fd directory returns ENOENT if its process is reaped meanwhile */
		return r == -ENOENT ? -ESRCH : r;
	if (!list) /* callers free and index the list: it is never NULL */
		list = malloc(sizeof(*list));
	if (!list)
		return -ENOMEM;
	qsort(list, count, sizeof(*list), compare_ints);
	*ret_list = LIMPET_TAKE(list);
	return (int)count;
}

const char *limpet_proc_status_value(const char *text, const char *key)
{
	size_t length = strlen(key);

	for (const char *line = text; line; line = strchr(line, '\n')) {
		line += *line == '\n';
		if (!strncmp(line, key, length) && line[length] == ':')
			return line + length + 1 + strspn(line + length + 1, "\t ");
	}
	return NULL;
}

int limpet_proc_pin(pid_t pid, unsigned fd, unsigned *ret_type)
{
	char path[PATH_MAX];
	struct statx status;
	int pinned;

	snprintf(path, sizeof(path), "%s/%d/fd/%u", limpet_proc_root, pid, fd);
	pinned = open(path, O_PATH | O_CLOEXEC);
	if (pinned < 0)
		return -errno;
	if (statx(pinned, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_TYPE, &status) < 0) {
		const int error = -errno;

		close(pinned);
		return error;
	}
	*ret_type = status.stx_mode & S_IFMT;
	return pinned;
}

/* Terminals of the console and of serial lines, and those of UNIX 98. */
static bool is_terminal(const struct statx *status)
{
	return S_ISCHR(status->stx_mode) &&
	       (status->stx_rdev_major == 4 || status->stx_rdev_major == 5 ||
		(status->stx_rdev_major >= 136 && status->stx_rdev_major <= 143));
}

static bool may_be_copied(int fd)
{
	struct statx status;

	return statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_TYPE, &status) == 0 &&
	       (S_ISFIFO(status.stx_mode) || S_ISSOCK(status.stx_mode) || is_terminal(&status));
}

int limpet_proc_copy(pid_t pid, unsigned fd)
{
	LIMPET_CLOSE int process = (int)syscall(SYS_pidfd_open, pid, 0);
	unsigned type;
	const int pinned = limpet_proc_pin(pid, fd, &type);
	bool may;
	int copy;

	if (pinned < 0)
		return pinned;
	may = process >= 0 && may_be_copied(pinned);
	close(pinned);
	copy = may ? (int)syscall(SYS_pidfd_getfd, process, (int)fd, 0) : -1;
	if (copy < 0)
		return may ? -errno : -EBADF;
	return may_be_copied(copy) ? copy : -EBADF;
}
