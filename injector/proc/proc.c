#include "injector/proc/proc.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/capability.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/err.h"
#include "injector/proc/proc_files.h"
#include "injector/proc/target_process.h"

/* include/linux/sched.h; part of the ABI of /proc/PID/stat, field 9. */
#define PF_IO_WORKER 0x00000010u
#define PF_KTHREAD 0x00200000u

const char *limpet_proc_root = "/proc";

bool limpet_proc_refuse_zombie(pid_t pid, const struct limpet_proc_status *status,
			       struct limpet_err *err)
{
	if ((status->state != 'Z' && status->state != 'X') || limpet_proc_has_memory(pid))
		return false;
	limpet_err_set(err, -ESRCH,
		       "process %d is a zombie: it has ended, and its parent (%d) has not "
		       "collected it yet",
		       pid, status->ppid);
	limpet_err_hint(err, "look at its parent instead: limpet doctor %d", status->ppid);
	return true;
}

int limpet_proc_explain(pid_t pid, int error, const char *what, struct limpet_err *err)
{
	if (error == -ESRCH)
		return limpet_err_set(err, error, "process %d is gone", pid);
	if (error == -ESTALE) {
		limpet_err_set(err, error, "process %d has executed another program meanwhile",
			       pid);
		limpet_err_hint(err, "if that is the one you mean, try again");
		return error;
	}
	limpet_err_set(err, error, "cannot %s process %d: %s", what, pid, strerror(-error));
	/* The limit of this process, not of the target. */
	if (error == -EMFILE)
		limpet_err_hint(err, "limpet may not open more files here: ulimit -n 256");
	return error;
}

/* ------------------------------------------------------------------ status and stat */

/* Undoes what the kernel does to a name in status, in place. */
static void unescape(char *text)
{
	char *out = text;

	for (const char *in = text; *in; in++, out++) {
		*out = *in;
		if (in[0] == '\\' && (in[1] == 'n' || in[1] == '\\')) {
			*out = in[1] == 'n' ? '\n' : '\\';
			in++;
		}
	}
	*out = '\0';
}

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

/* /proc/PID/stat adds up the times of all threads, which takes long with thousands; the file of one
 * thread has otherwise the same fields. The name in field 2 may contain blanks and parentheses: the
 * last ')' ends it. */
int limpet_proc_stat_read(pid_t pid, pid_t tid, uint64_t ret_fields[LIMPET_STAT_FIELDS])
{
	uint64_t fields[LIMPET_STAT_FIELDS] = {0};
	LIMPET_FREE char *text = NULL;
	char name[64], *at;
	size_t bytes;
	int last = LIMPET_STAT_STATE, r;

	snprintf(name, sizeof(name), "task/%d/stat", tid);
	r = limpet_proc_file_read(pid, name, &text, &bytes);
	if (r < 0)
		return r;
	/* ") S 1 ..." */
	at = memrchr(text, ')', bytes);
	if (!at || at[1] != ' ' || !at[2] || at[3] != ' ')
		return -EBADMSG;
	fields[LIMPET_STAT_STATE] = (uint8_t)at[2];
	for (at += 4; last + 1 < (int)LIMPET_STAT_FIELDS && (*at == '-' || is_digit(*at));) {
		errno = 0;
		fields[++last] = strtoull(at, &at, 10);
		if (errno)
			return -EBADMSG;
		at += *at == ' ';
	}
	memcpy(ret_fields, fields, sizeof(fields));
	return last;
}

static int stat_field(pid_t pid, int number, uint64_t *ret_value)
{
	uint64_t fields[LIMPET_STAT_FIELDS];
	int last = limpet_proc_stat_read(pid, pid, fields);

	if (last < number)
		return last < 0 ? last : -EBADMSG;
	*ret_value = fields[number];
	return 0;
}

static uint64_t status_number(const char *text, const char *key, int base)
{
	const char *value = limpet_proc_status_value(text, key);

	return value ? strtoull(value, NULL, base) : 0;
}

static unsigned status_numbers(const char *text, const char *key, unsigned *ret, unsigned most)
{
	const char *at = limpet_proc_status_value(text, key);
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
	const char *value = limpet_proc_status_value(text, "Name");
	size_t length = value ? strcspn(value, "\n") : 0;

	/* a name may start with blanks: only the tab belongs to the kernel */
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
	unescape(escaped);
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
	state = limpet_proc_status_value(text, "State");
	if (strncmp(text, "Name:", 5) || !state || *state == '\n' ||
	    !limpet_proc_status_value(text, "Tgid"))
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
	/* outermost first; inside a container only the inner levels are shown */
	levels = status_numbers(text, "NSpid", pids, LIMPET_COUNT_OF(pids));
	status.ns_pid = levels ? (pid_t)pids[levels - 1] : pid;
	status.other_pid_ns = levels > 1;
	status.threads = (unsigned)status_number(text, "Threads", 10);
	status.fd_size = (unsigned)status_number(text, "FDSize", 10);
	status.rss_bytes = status_number(text, "VmRSS", 10) * 1024;
	status.file_rss_bytes =
		(status_number(text, "RssFile", 10) + status_number(text, "RssShmem", 10)) * 1024;
	status.vm_bytes = status_number(text, "VmSize", 10) * 1024;
	status.locked_bytes = status_number(text, "VmLck", 10) * 1024;
	status.vm_most_bytes = status_number(text, "VmPeak", 10) * 1024;
	status.data_bytes = status_number(text, "VmData", 10) * 1024;
	status.cap_permitted = status_number(text, "CapPrm", 16);
	status.cap_effective = status_number(text, "CapEff", 16);
	status.handlers_due =
		(status_number(text, "SigPnd", 16) | status_number(text, "ShdPnd", 16)) &
		status_number(text, "SigCgt", 16);
	status.seccomp = (int)status_number(text, "Seccomp", 10);
	status.no_new_privs = status_number(text, "NoNewPrivs", 10) != 0;
	/* "Kthread:" is in status only since Linux 6.8 */
	r = stat_field(pid, 9, &flags);
	if (r < 0)
		return r;
	status.kernel_thread = (flags & (PF_KTHREAD | PF_IO_WORKER)) != 0;
	*ret_status = status;
	return 0;
}

int limpet_proc_start_time(pid_t pid, uint64_t *ret_ticks)
{
	return stat_field(pid, 22, ret_ticks);
}

time_t limpet_proc_started(pid_t pid)
{
	const long per_second = sysconf(_SC_CLK_TCK);
	uint64_t ticks;

	if (per_second <= 0 || limpet_proc_start_time(pid, &ticks) < 0)
		return 0;
	return time(NULL) - limpet_timespec(limpet_clock_ns(CLOCK_BOOTTIME)).tv_sec +
	       (time_t)(ticks / (uint64_t)per_second);
}

bool limpet_proc_is_exiting(pid_t tid)
{
	const uint64_t pf_exiting = 4; /* of include/linux/sched.h */
	uint64_t flags;
	int error = stat_field(tid, 9, &flags);

	return error ? limpet_proc_is_gone(error) : (flags & pf_exiting) != 0;
}

/* ------------------------------------------------------------------ identity and limits */

int limpet_proc_limit(pid_t pid, const char *name, uint64_t *ret_soft)
{
	LIMPET_FREE char *text = NULL;
	const char *line;
	char *stop;
	uint64_t soft;
	size_t bytes;
	int r = limpet_proc_file_read(pid, "limits", &text, &bytes);

	if (r < 0)
		return r;
	line = strstr(text, name);
	if (!line)
		return -EBADMSG;
	line += strlen(name);
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

uint64_t limpet_proc_lock_room(pid_t pid, const struct limpet_proc_status *status)
{
	char mine[64] = "", theirs[64] = "";
	uint64_t limit;

	(void)limpet_proc_link_read(getpid(), "ns/user", mine, sizeof(mine));
	(void)limpet_proc_link_read(pid, "ns/user", theirs, sizeof(theirs));
	if ((status->cap_effective >> CAP_IPC_LOCK & 1 && !strcmp(mine, theirs)) ||
	    limpet_proc_limit(pid, "Max locked memory", &limit) < 0 || limit == UINT64_MAX)
		return UINT64_MAX;
	return limit > status->locked_bytes ? limit - status->locked_bytes : 0;
}

/* Reads up to `bytes` - 1 bytes of the arguments as the kernel keeps them, each with a NUL at its
 * end. */
static ssize_t read_arguments(const struct limpet_target *target, char *ret, size_t bytes)
{
	LIMPET_CLOSE int fd = limpet_proc_open(target, "cmdline", O_RDONLY);
	size_t used = 0;

	if (!bytes)
		return -EINVAL;
	ret[0] = '\0';
	if (fd < 0)
		return fd;
	while (used < bytes - 1) {
		ssize_t got = read(fd, ret + used, bytes - 1 - used);

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0) {
			ret[0] = '\0';
			return -errno;
		}
		if (got == 0)
			break;
		used += (size_t)got;
	}
	ret[used] = '\0';
	return (ssize_t)used;
}

static const char *last_part(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

/* A program that sets its title writes it over its arguments: "name: what it does". */
int limpet_proc_argv0(const struct limpet_target *target, char *ret, size_t bytes)
{
	ssize_t got = read_arguments(target, ret, bytes);
	char executable[4096] = "";
	size_t name = got < 0 ? 0 : strcspn(ret, " ");

	if (got < 0 || !ret[name])
		return got < 0 ? (int)got : 0;
	limpet_proc_executable(target->pid, executable, sizeof(executable));
	if (!strcmp(last_part(ret), last_part(executable)))
		return 0;
	while (name && ret[name - 1] == ':')
		name--;
	ret[name] = 0;
	return 0;
}

int limpet_proc_command_line(const struct limpet_target *target, char *ret, size_t bytes)
{
	ssize_t got = read_arguments(target, ret, bytes);

	if (got < 0)
		return (int)got;
	while (got && !ret[got - 1])
		got--;
	for (ssize_t i = 0; i < got; i++)
		if (!ret[i])
			ret[i] = ' ';
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
