#include "injector/proc.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/err.h"

/* include/linux/sched.h; part of the ABI of /proc/PID/stat, field 9. */
#define PF_KTHREAD 0x00200000u

/* A substitute or hostile file must not eat our memory: 1 M maps of 256 bytes each. */
#define FILE_LIMIT_BYTES ((size_t)256 << 20)

const char *limpet_proc_root = "/proc";

/* ENOENT below /proc/PID means "gone" only when the folder is gone too: a kernel thread has no exe,
 * an older kernel lacks a file. */
static int missing(pid_t pid)
{
	char path[PATH_MAX];
	struct stat st;

	snprintf(path, sizeof(path), "%s/%d", limpet_proc_root, pid);
	if (pid > 0 && stat(path, &st) && errno == ENOENT)
		return -ESRCH;
	return -ENOENT;
}

__attribute__((format(printf, 3, 4))) static int path_make(char *ret_path, pid_t pid,
							   const char *format, ...)
{
	va_list args;
	int head, tail;

	if (pid > 0)
		head = snprintf(ret_path, PATH_MAX, "%s/%d/", limpet_proc_root, pid);
	else
		head = snprintf(ret_path, PATH_MAX, "%s/", limpet_proc_root);
	if (head < 0 || head >= PATH_MAX)
		return -ENAMETOOLONG;
	va_start(args, format);
	tail = vsnprintf(ret_path + head, (size_t)(PATH_MAX - head), format, args);
	va_end(args);
	return tail < 0 || tail >= PATH_MAX - head ? -ENAMETOOLONG : 0;
}

static int read_all(const char *path, char **ret_text, size_t *ret_bytes)
{
	LIMPET_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	LIMPET_FREE char *text = NULL;
	size_t room = 0, used = 0;

	if (fd < 0)
		return -errno;
	for (;;) {
		ssize_t got;

		if (room - used < 2) {
			char *larger;

			/* proc files have no size; start with what most of them need */
			room = room ? room * 2 : 16384;
			if (room > FILE_LIMIT_BYTES)
				return -EFBIG;
			larger = realloc(text, room);
			if (!larger)
				return -ENOMEM;
			text = larger;
		}
		got = read(fd, text + used, room - used - 1);
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
	char path[PATH_MAX];
	int r = path_make(path, pid, "%s", name);

	if (r < 0)
		return r;
	r = read_all(path, ret_text, ret_bytes);
	return r == -ENOENT ? missing(pid) : r;
}

/* Undoes the kernel's escapes in place: `\n`, `\\` (status) and three octal digits (maps). Anything
 * else stays: maps do not escape a backslash that is part of a file's name. */
static void unescape(char *text, bool octal)
{
	char *out = text;

	for (const char *in = text; *in; in++, out++) {
		if (octal && !strncmp(in, "\\012", 4)) {
			*out = '\n';
			in += 3;
		} else if (!octal && in[0] == '\\' && in[1] == 'n') {
			*out = '\n';
			in++;
		} else if (!octal && in[0] == '\\' && in[1] == '\\') {
			*out = '\\';
			in++;
		} else {
			*out = *in;
		}
	}
	*out = '\0';
}

/* ------------------------------------------------------------------ maps */

/* Strict about the fixed columns: sscanf would take signs and blanks, and saturate numbers. */
static bool take_number(char **at, int base, char end, uint64_t *ret)
{
	char *stop;

	if (!(base == 16 ? strchr("0123456789abcdefABCDEF", **at) : strchr("0123456789", **at)) ||
	    !**at)
		return false;
	errno = 0;
	*ret = strtoull(*at, &stop, base);
	if (errno || *stop != end)
		return false;
	*at = stop + 1;
	return true;
}

static bool parse_map(char *line, struct limpet_map *ret_map)
{
	struct limpet_map map = {0};
	uint64_t major, minor;
	char *stop;

	if (!take_number(&line, 16, '-', &map.start) || !take_number(&line, 16, ' ', &map.end))
		return false;
	if (strnlen(line, 5) < 5 || line[4] != ' ')
		return false;
	memcpy(map.perms, line, 4);
	line += 5;
	if (!take_number(&line, 16, ' ', &map.offset) || !take_number(&line, 16, ':', &major) ||
	    !take_number(&line, 16, ' ', &minor))
		return false;
	if (*line < '0' || *line > '9')
		return false;
	errno = 0;
	map.inode = strtoull(line, &stop, 10);
	if (errno || (*stop && *stop != ' ') || map.end <= map.start || major > UINT32_MAX ||
	    minor > UINT32_MAX)
		return false;
	/* The kernel pads to a column, then writes the path: a path never starts with a blank ("/",
	 * "[", "anon_inode:", "socket:"...), but may hold and end in any. */
	while (*stop == ' ')
		stop++;
	unescape(stop, true);
	map.dev_major = (uint32_t)major;
	map.dev_minor = (uint32_t)minor;
	map.path = stop;
	*ret_map = map;
	return true;
}

int limpet_proc_maps_read(pid_t pid, struct limpet_maps *ret_maps)
{
	LIMPET_FREE char *text = NULL;
	LIMPET_FREE struct limpet_map *list = NULL;
	size_t bytes, lines = 0, count = 0;
	char *copy, *next;
	int r;

	r = limpet_proc_file_read(pid, "maps", &text, &bytes);
	if (r < 0)
		return r;
	for (size_t i = 0; i < bytes; i++)
		lines += text[i] == '\n';
	if (bytes && text[bytes - 1] != '\n')
		return -EBADMSG; /* the kernel writes whole lines: this was cut short */

	/* one block: the list, and behind it the text that the paths point into */
	list = malloc(lines * sizeof(*list) + bytes + 1);
	if (!list)
		return -ENOMEM;
	copy = (char *)(list + lines);
	memcpy(copy, text, bytes + 1);
	for (char *line = copy; *line; line = next) {
		struct limpet_map map;

		next = strchr(line, '\n');
		if (!next)
			return -EBADMSG; /* a NUL inside */
		*next++ = '\0';
		if (!parse_map(line, &map))
			return -EBADMSG;
		/* The file is read in pieces while the target runs: a map that grew or was merged
		 * between two of them is shown twice, in part. */
		if (count && map.start < list[count - 1].end) {
			if (map.end <= list[count - 1].end)
				continue;
			map.offset += list[count - 1].end - map.start;
			map.start = list[count - 1].end;
		}
		list[count++] = map;
	}
	ret_maps->list = LIMPET_TAKE(list);
	ret_maps->count = count;
	return 0;
}

void limpet_proc_maps_done(struct limpet_maps *maps)
{
	free(maps->list);
	maps->list = NULL;
	maps->count = 0;
}

const struct limpet_map *limpet_proc_maps_find(const struct limpet_maps *maps, uint64_t address)
{
	size_t low = 0, high = maps->count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (address < maps->list[middle].start)
			high = middle;
		else if (address >= maps->list[middle].end)
			low = middle + 1;
		else
			return &maps->list[middle];
	}
	return NULL;
}

/* ------------------------------------------------------------------ status and stat */

/* Field `number` (3...) of /proc/PID/stat. The name in field 2 may hold blanks and parentheses: the
 * last ')' ends it. */
static int stat_field(pid_t pid, unsigned number, uint64_t *ret_value)
{
	LIMPET_FREE char *text = NULL;
	size_t bytes;
	char *at;
	int r = limpet_proc_file_read(pid, "stat", &text, &bytes);

	if (r < 0)
		return r;
	at = memrchr(text, ')', bytes);
	for (unsigned field = 2; at && field < number; field++) {
		at = strchr(at, ' ');
		if (at)
			at++;
	}
	if (!at || *at < '0' || *at > '9')
		return -EBADMSG;
	errno = 0;
	*ret_value = strtoull(at, NULL, 10);
	return errno ? -EBADMSG : 0;
}

/* "Key:\tvalue" of a status file, or NULL. Never inside a value: keys start a line, and the kernel
 * escapes line ends in names. */
static const char *status_value(const char *text, const char *key)
{
	size_t length = strlen(key);

	for (const char *line = text; line; line = strchr(line, '\n')) {
		line += *line == '\n';
		if (!strncmp(line, key, length) && line[length] == ':')
			return line + length + 1 + strspn(line + length + 1, "\t ");
	}
	return NULL;
}

static uint64_t status_number(const char *text, const char *key, int base)
{
	const char *value = status_value(text, key);

	return value ? strtoull(value, NULL, base) : 0;
}

static unsigned status_numbers(const char *text, const char *key, unsigned *ret, unsigned most)
{
	const char *at = status_value(text, key);
	unsigned count = 0;

	while (at && *at >= '0' && *at <= '9' && count < most) {
		char *stop;

		ret[count++] = (unsigned)strtoul(at, &stop, 10);
		at = stop + strspn(stop, "\t ");
	}
	return count;
}

static void status_name(const char *text, struct limpet_proc_status *status)
{
	char escaped[2 * sizeof(status->name)];
	const char *value = status_value(text, "Name");
	size_t length = value ? strcspn(value, "\n") : 0;

	/* a name may start with blanks: only the tab is the kernel's */
	if (value) {
		value = strchr(text, ':') + 1;
		value += *value == '\t';
		length = strcspn(value, "\n");
	}
	if (length >= sizeof(escaped))
		length = sizeof(escaped) - 1;
	if (value)
		memcpy(escaped, value, length);
	escaped[length] = '\0';
	unescape(escaped, false);
	escaped[sizeof(status->name) - 1] = '\0';
	memcpy(status->name, escaped, strlen(escaped) + 1);
}

int limpet_proc_status_read(pid_t pid, struct limpet_proc_status *ret_status)
{
	struct limpet_proc_status status = {0};
	LIMPET_FREE char *text = NULL;
	unsigned ids[4], pids[32], levels;
	const char *state;
	uint64_t flags;
	size_t bytes;
	int r;

	r = limpet_proc_file_read(pid, "status", &text, &bytes);
	if (r < 0)
		return r;
	state = status_value(text, "State");
	if (strncmp(text, "Name:", 5) || !state || *state == '\n' || !status_value(text, "Tgid"))
		return -EBADMSG;
	status_name(text, &status);
	status.state = *state;
	status.tgid = (pid_t)status_number(text, "Tgid", 10);
	status.ppid = (pid_t)status_number(text, "PPid", 10);
	status.tracer = (pid_t)status_number(text, "TracerPid", 10);
	if (status_numbers(text, "Uid", ids, 4) != 4)
		return -EBADMSG;
	status.uid = ids[0];
	status.euid = ids[1];
	status.suid = ids[2];
	status.fsuid = ids[3];
	if (status_numbers(text, "Gid", ids, 4) != 4)
		return -EBADMSG;
	status.gid = ids[0];
	status.egid = ids[1];
	status.sgid = ids[2];
	/* outermost first; from inside a container only the inner levels are shown */
	levels = status_numbers(text, "NSpid", pids, LIMPET_COUNT_OF(pids));
	status.ns_pid = levels ? (pid_t)pids[levels - 1] : pid;
	status.threads = (unsigned)status_number(text, "Threads", 10);
	status.fd_size = (unsigned)status_number(text, "FDSize", 10);
	status.rss_bytes = status_number(text, "VmRSS", 10) * 1024;
	status.vm_bytes = status_number(text, "VmSize", 10) * 1024;
	status.cap_permitted = status_number(text, "CapPrm", 16);
	status.cap_effective = status_number(text, "CapEff", 16);
	status.seccomp = (int)status_number(text, "Seccomp", 10);
	status.no_new_privs = status_number(text, "NoNewPrivs", 10) != 0;
	/* "Kthread:" is in status only since Linux 6.8 */
	r = stat_field(pid, 9, &flags);
	if (r < 0)
		return r;
	status.kernel_thread = (flags & PF_KTHREAD) != 0;
	*ret_status = status;
	return 0;
}

int limpet_proc_start_time(pid_t pid, uint64_t *ret_ticks)
{
	return stat_field(pid, 22, ret_ticks);
}

/* ------------------------------------------------------------------ threads and descriptors */

static int compare_ints(const void *a, const void *b)
{
	int x = *(const int *)a, y = *(const int *)b;

	return (x > y) - (x < y);
}

/* The numeric names in a folder, ascending. */
static int list_numbers(pid_t pid, const char *name, int **ret_list)
{
	LIMPET_FREE int *list = NULL;
	char path[PATH_MAX];
	size_t room = 0, count = 0;
	struct dirent *entry;
	DIR *folder;
	int r = path_make(path, pid, "%s", name);

	if (r < 0)
		return r;
	folder = opendir(path);
	if (!folder)
		return errno == ENOENT ? missing(pid) : -errno;
	for (;;) {
		char *stop;
		long number;

		errno = 0;
		entry = readdir(folder);
		if (!entry)
			break;
		number = strtol(entry->d_name, &stop, 10);
		if (entry->d_name[0] < '0' || entry->d_name[0] > '9' || *stop || number > INT_MAX)
			continue;
		if (count == room) {
			int *larger;

			room = room ? room * 2 : 64;
			larger = realloc(list, room * sizeof(*list));
			if (!larger) {
				closedir(folder);
				return -ENOMEM;
			}
			list = larger;
		}
		list[count++] = (int)number;
	}
	r = -errno;
	closedir(folder);
	if (r < 0)
		/* a task or fd folder answers ENOENT when its process is reaped meanwhile */
		return r == -ENOENT ? -ESRCH : r;
	if (!list) /* callers free and index it: never NULL */
		list = malloc(sizeof(*list));
	if (!list)
		return -ENOMEM;
	qsort(list, count, sizeof(*list), compare_ints);
	*ret_list = LIMPET_TAKE(list);
	return (int)count;
}

_Static_assert(sizeof(pid_t) == sizeof(int), "list_numbers serves both");

int limpet_proc_tasks(pid_t pid, pid_t **ret_tids)
{
	return list_numbers(pid, "task", ret_tids);
}

int limpet_proc_fds(pid_t pid, int **ret_fds)
{
	return list_numbers(pid, "fd", ret_fds);
}

int limpet_proc_pids(pid_t **ret_pids)
{
	return list_numbers(0, "", ret_pids);
}

int limpet_proc_limit_files(pid_t pid, uint64_t *ret_soft)
{
	LIMPET_FREE char *text = NULL;
	const char *line;
	char *stop;
	uint64_t soft;
	size_t bytes;
	int r = limpet_proc_file_read(pid, "limits", &text, &bytes);

	if (r < 0)
		return r;
	line = strstr(text, "Max open files");
	if (!line)
		return -EBADMSG;
	line += strlen("Max open files");
	line += strspn(line, " ");
	if (!strncmp(line, "unlimited", 9)) {
		*ret_soft = UINT64_MAX;
		return 0;
	}
	errno = 0;
	soft = strtoull(line, &stop, 10);
	if (errno || stop == line)
		return -EBADMSG;
	*ret_soft = soft;
	return 0;
}

/* ------------------------------------------------------------------ identity */

/* Up to `bytes` - 1 of the arguments as the kernel keeps them, each with a NUL behind it. */
static ssize_t read_arguments(pid_t pid, char *ret, size_t bytes)
{
	char path[PATH_MAX];
	size_t used = 0;
	int r;

	if (!bytes)
		return -EINVAL;
	ret[0] = '\0';
	r = path_make(path, pid, "cmdline");
	if (r < 0)
		return r;
	LIMPET_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return errno == ENOENT ? missing(pid) : -errno;
	while (used < bytes - 1) {
		ssize_t got = read(fd, ret + used, bytes - 1 - used);

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0) {
			r = -errno;
			ret[0] = '\0';
			return r;
		}
		if (got == 0)
			break;
		used += (size_t)got;
	}
	ret[used] = '\0';
	return (ssize_t)used;
}

int limpet_proc_argv0(pid_t pid, char *ret, size_t bytes)
{
	ssize_t got = read_arguments(pid, ret, bytes);

	return got < 0 ? (int)got : 0;
}

int limpet_proc_command_line(pid_t pid, char *ret, size_t bytes)
{
	ssize_t got = read_arguments(pid, ret, bytes);

	if (got < 0)
		return (int)got;
	while (got && !ret[got - 1])
		got--;
	for (ssize_t i = 0; i < got; i++)
		if (!ret[i])
			ret[i] = ' ';
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
	r = path_make(path, pid, "%s", name);
	if (r < 0)
		return r;
	got = readlink(path, ret, bytes - 1);
	if (got < 0)
		return errno == ENOENT ? missing(pid) : -errno;
	ret[got] = '\0';
	return 0;
}

int limpet_proc_executable(pid_t pid, char *ret, size_t bytes)
{
	return limpet_proc_link_read(pid, "exe", ret, bytes);
}

int limpet_proc_auxv(pid_t pid, uint64_t type, uint64_t *ret_value)
{
	LIMPET_FREE char *text = NULL;
	uint64_t pair[2];
	size_t bytes;
	int r = limpet_proc_file_read(pid, "auxv", &text, &bytes);

	if (r < 0)
		return r;
	for (size_t at = 0; at + sizeof(pair) <= bytes; at += sizeof(pair)) {
		memcpy(pair, text + at, sizeof(pair));
		if (pair[0] == 0)
			break;
		if (pair[0] == type) {
			*ret_value = pair[1];
			return 0;
		}
	}
	return -ENOENT;
}

/* ------------------------------------------------------------------ threads from outside */

static int task_file_read(pid_t pid, pid_t tid, const char *name, char **ret_text,
			  size_t *ret_bytes)
{
	char relative[64];
	int r;

	snprintf(relative, sizeof(relative), "task/%d/%s", tid, name);
	r = limpet_proc_file_read(pid, relative, ret_text, ret_bytes);
	if (r != -ENOENT)
		return r;
	snprintf(relative, sizeof(relative), "%d/task/%d", pid, tid);
	char path[PATH_MAX];
	if (path_make(path, 0, "%s", relative) == 0 && access(path, F_OK) && errno == ENOENT)
		return -ESRCH;
	return r;
}

int limpet_proc_syscall_read(pid_t pid, pid_t tid, struct limpet_proc_syscall *ret_syscall)
{
	struct limpet_proc_syscall call = {0};
	LIMPET_FREE char *text = NULL;
	size_t bytes;
	int r = task_file_read(pid, tid, "syscall", &text, &bytes);

	if (r < 0)
		return r;
	if (!strncmp(text, "running", 7)) {
		call.running = true;
		call.number = -1;
	} else if (!strncmp(text, "-1 ", 3)) {
		call.number = -1;
		if (sscanf(text + 3, "%" SCNx64 " %" SCNx64, &call.sp, &call.pc) != 2)
			return -EBADMSG;
	} else if (sscanf(text,
			  "%ld %" SCNx64 " %" SCNx64 " %" SCNx64 " %" SCNx64 " %" SCNx64 " %" SCNx64
			  " %" SCNx64 " %" SCNx64,
			  &call.number, &call.args[0], &call.args[1], &call.args[2], &call.args[3],
			  &call.args[4], &call.args[5], &call.sp, &call.pc) != 9) {
		/* an exited thread that is not reaped yet has an empty file */
		return bytes ? -EBADMSG : -ESRCH;
	}
	*ret_syscall = call;
	return 0;
}

int limpet_proc_switches(pid_t pid, pid_t tid, uint64_t *ret_switches)
{
	LIMPET_FREE char *text = NULL;
	size_t bytes;
	int r = task_file_read(pid, tid, "status", &text, &bytes);

	if (r < 0)
		return r;
	if (!status_value(text, "voluntary_ctxt_switches") ||
	    !status_value(text, "nonvoluntary_ctxt_switches"))
		return -EBADMSG;
	*ret_switches = status_number(text, "voluntary_ctxt_switches", 10) +
			status_number(text, "nonvoluntary_ctxt_switches", 10);
	return 0;
}

int limpet_proc_task_number(pid_t pid, pid_t tid, const char *key, uint64_t *ret_value)
{
	LIMPET_FREE char *text = NULL;
	size_t bytes;
	int r = task_file_read(pid, tid, "status", &text, &bytes);

	if (r < 0)
		return r;
	if (!status_value(text, key))
		return -ENOENT;
	*ret_value = status_number(text, key, 10);
	return 0;
}

int limpet_proc_run_delay(pid_t pid, pid_t tid, uint64_t *ret_ns)
{
	LIMPET_FREE char *text = NULL;
	uint64_t delay_ns;
	size_t bytes;
	int r = task_file_read(pid, tid, "schedstat", &text, &bytes);

	if (r < 0)
		return r;
	if (sscanf(text, "%*u %" SCNu64, &delay_ns) != 1)
		return -EBADMSG;
	*ret_ns = delay_ns;
	return 0;
}
