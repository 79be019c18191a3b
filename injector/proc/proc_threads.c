#include "injector/proc/proc.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/err.h"
#include "injector/proc/proc_files.h"
#include "injector/proc/target_process.h"

_Static_assert(sizeof(pid_t) == sizeof(int), "list_numbers serves both");

/* Merges two ascending lists; returns the number of entries in *ret_merged. */
static int merge_numbers(const int *a, int a_count, const int *b, int b_count, int **ret_merged)
{
	int *merged = malloc(((size_t)a_count + (size_t)b_count + 1) * sizeof(*merged));
	int count = 0;

	if (!merged)
		return -ENOMEM;
	for (int i = 0, k = 0; i < a_count || k < b_count;) {
		int next = k == b_count || (i < a_count && a[i] <= b[k]) ? a[i] : b[k];

		i += i < a_count && a[i] == next;
		k += k < b_count && b[k] == next;
		merged[count++] = next;
	}
	*ret_merged = merged;
	return count;
}

int limpet_proc_thread_name(const struct limpet_target *target, pid_t tid,
			    char ret[LIMPET_PROC_NAME_BYTES])
{
	LIMPET_FCLOSE FILE *file = NULL;
	char path[64], text[LIMPET_PROC_NAME_BYTES + 1];
	size_t length;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/comm", target->pid, tid);
	file = fopen(path, "re");
	if (!file)
		return -errno;
	if (limpet_target_still_has_pid(target) < 0)
		return -ESRCH;
	/* A name may contain a line end itself; the kernel adds one. */
	length = fread(text, 1, sizeof(text) - 1, file);
	if (ferror(file) || !length)
		return -ESRCH;
	text[length - 1] = '\0';
	memcpy(ret, text, length);
	return 0;
}

int limpet_proc_tasks_once(pid_t pid, pid_t **ret_tids)
{
	return limpet_proc_list_numbers(pid, "task", ret_tids);
}

/* The kernel resumes in the list of threads by counting from the start: if a thread that it has
 * shown ends meanwhile, it skips one that lives. So the list is read until a read finds no thread
 * that earlier reads did not. Some may have ended by then. */
int limpet_proc_tasks(pid_t pid, pid_t **ret_tids)
{
	const unsigned enough = 8;
	LIMPET_FREE int *list = NULL;
	int count = limpet_proc_tasks_once(pid, &list);

	for (unsigned reads = 1; count > 0 && reads < enough; reads++) {
		LIMPET_FREE int *again = NULL;
		int *merged;
		int before = count, more = limpet_proc_tasks_once(pid, &again);

		if (more < 0)
			return more;
		count = merge_numbers(list, before, again, more, &merged);
		if (count < 0)
			return count;
		free(list);
		list = merged;
		if (count == before)
			break;
	}
	if (count >= 0)
		*ret_tids = LIMPET_TAKE(list);
	return count;
}

int limpet_proc_fds(const struct limpet_target *target, int **ret_fds)
{
	LIMPET_FREE int *fds = NULL;
	int count = limpet_proc_list_numbers(target->pid, "fd", &fds);
	int error = count < 0 ? count : limpet_target_still_has_pid(target);

	if (error)
		return error;
	*ret_fds = LIMPET_TAKE(fds);
	return count;
}

int limpet_proc_pids(pid_t **ret_pids)
{
	return limpet_proc_list_numbers(0, "", ret_pids);
}

/* The size of its memory is 0 once the thread has released it, which is some time before it is a
 * zombie. */
static bool task_has_memory(pid_t pid, pid_t tid)
{
	const int size = 23;
	uint64_t fields[LIMPET_STAT_FIELDS];

	return limpet_proc_stat_read(pid, tid, fields) >= size && fields[size];
}

pid_t limpet_proc_resident(pid_t pid)
{
	static _Thread_local pid_t last_pid, last_tid;
	LIMPET_FREE pid_t *tids = NULL;
	int count;

	if (pid == last_pid && task_has_memory(pid, last_tid))
		return last_tid;
	if (task_has_memory(pid, pid))
		return pid;
	count = limpet_proc_list_numbers(pid, "task", &tids);
	for (int i = 0; i < count; i++) {
		if (tids[i] == pid || !task_has_memory(pid, tids[i]))
			continue;
		last_pid = pid;
		last_tid = tids[i];
		return last_tid;
	}
	return pid;
}

bool limpet_proc_has_memory(pid_t pid)
{
	return task_has_memory(pid, limpet_proc_resident(pid));
}

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
	if (limpet_proc_path(path, 0, "%s", relative) == 0 && access(path, F_OK) && errno == ENOENT)
		return -ESRCH;
	return r;
}

/* Parses "0x1f 0x2 ..." up to the end of the line. */
static bool parse_words(const char *at, uint64_t *ret_words, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		char *stop;

		errno = 0;
		ret_words[i] = strtoull(at, &stop, 16);
		if (errno || stop == at || (*stop != ' ' && *stop != '\n'))
			return false;
		at = stop;
	}
	return *at == '\n';
}

int limpet_proc_syscall_read(pid_t pid, pid_t tid, struct limpet_proc_syscall *ret_syscall)
{
	struct limpet_proc_syscall call = {.number = -1};
	LIMPET_FREE char *text = NULL;
	uint64_t words[8];
	size_t bytes, first = 0;
	char *rest;
	int r = task_file_read(pid, tid, "syscall", &text, &bytes);

	if (r < 0)
		return r;
	if (!bytes) /* an exited thread that is not yet reaped */
		return -ESRCH;
	if (!strncmp(text, "running", 7)) {
		call.running = true;
		*ret_syscall = call;
		return 0;
	}
	/* "-1 SP PC": blocked outside a system call; otherwise number, six arguments, SP, PC */
	errno = 0;
	call.number = strtol(text, &rest, 10);
	if (errno || rest == text || *rest != ' ')
		return -EBADMSG;
	if (call.number >= 0)
		first = LIMPET_COUNT_OF(call.args);
	if (!parse_words(rest, words, first + 2))
		return -EBADMSG;
	memcpy(call.args, words, first * sizeof(words[0]));
	call.sp = words[first];
	call.pc = words[first + 1];
	*ret_syscall = call;
	return 0;
}

/* Returns false if `text` has no such line. */
static bool parse_number(const char *text, const char *key, uint64_t *ret_value)
{
	const char *value = limpet_proc_status_value(text, key);

	if (!value)
		return false;
	*ret_value = strtoull(value, NULL, 10);
	return true;
}

int limpet_proc_switches(pid_t pid, pid_t tid, uint64_t *ret_switches)
{
	LIMPET_FREE char *text = NULL;
	uint64_t voluntary, involuntary;
	size_t bytes;
	int r = task_file_read(pid, tid, "status", &text, &bytes);

	if (r < 0)
		return r;
	if (!parse_number(text, "voluntary_ctxt_switches", &voluntary) ||
	    !parse_number(text, "nonvoluntary_ctxt_switches", &involuntary))
		return -EBADMSG;
	*ret_switches = voluntary + involuntary;
	return 0;
}

/* "KEY   :   VALUE" in the lines of a sched file, of which fractions have six digits. */
static bool parse_sched(const char *text, const char *key, uint64_t *ret_value, uint64_t *ret_part)
{
	const size_t bytes = strlen(key);
	const char *line = text;
	char *rest;

	while (line && strncmp(line + 1, key, bytes))
		line = strchr(line + 1, '\n');
	if (!line)
		return false;
	line += 1 + bytes;
	line += strspn(line, " ");
	if (*line != ':')
		return false;
	errno = 0;
	*ret_value = strtoull(line + 1, &rest, 10);
	*ret_part = *rest == '.' ? strtoull(rest + 1, NULL, 10) : 0;
	return !errno && rest != line + 1;
}

int limpet_proc_sched_read(pid_t pid, pid_t tid, struct limpet_proc_sched *ret)
{
	char path[PATH_MAX], text[4096];
	uint64_t ran_ms, ran_part, sleeps, none;
	const char *lines;
	ssize_t got;
	int fd, error;

	error = limpet_proc_path(path, 0, "%d/task/%d/sched", pid, tid);
	if (error)
		return error;
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	got = read(fd, text, sizeof(text) - 1);
	error = got < 0 ? -errno : 0;
	close(fd);
	if (error)
		return error;
	text[got] = 0;
	/* The line above is the thread's name, which may be anything. */
	lines = strstr(text, "\n--------------------");
	if (!lines || !parse_sched(lines, "se.exec_start", &ran_ms, &ran_part) ||
	    !parse_sched(lines, "nr_voluntary_switches", &sleeps, &none))
		return -EBADMSG;
	*ret = (struct limpet_proc_sched){ran_ms * 1000000u + ran_part, sleeps};
	return 0;
}

static int task_number(pid_t pid, pid_t tid, const char *key, uint64_t *ret_value)
{
	LIMPET_FREE char *text = NULL;
	size_t bytes;
	int r = task_file_read(pid, tid, "status", &text, &bytes);

	if (r < 0)
		return r;
	return parse_number(text, key, ret_value) ? 0 : -ENOENT;
}

int limpet_proc_task_number(const struct limpet_target *target, pid_t tid, const char *key,
			    uint64_t *ret_value)
{
	uint64_t value;
	int error = task_number(target->pid, tid, key, &value);

	if (!error)
		error = limpet_target_still_has_pid(target);
	if (!error)
		*ret_value = value;
	return error;
}

pid_t limpet_proc_tracer(pid_t pid, int threads, char ret_name[LIMPET_PROC_NAME_BYTES])
{
	LIMPET_FREE pid_t *tids = NULL;
	struct limpet_proc_status status;
	const int count = threads ? limpet_proc_tasks(pid, &tids) : 0;
	uint64_t by = limpet_proc_status_read(pid, &status) < 0 ? 0 : (uint64_t)status.tracer;

	for (int i = 0; (by == 0 || by == (uint64_t)getpid()) && i < count && i < threads; i++)
		(void)task_number(pid, tids[i], "TracerPid", &by);
	if (by == 0 || by == (uint64_t)getpid())
		return 0;
	snprintf(ret_name, LIMPET_PROC_NAME_BYTES, "%s",
		 limpet_proc_status_read((pid_t)by, &status) < 0 ? "?" : status.name);
	return (pid_t)by;
}

bool limpet_proc_is_own_tracer(pid_t pid, pid_t tracer)
{
	struct limpet_proc_status status;

	return tracer && limpet_proc_status_read(tracer, &status) == 0 && status.ppid == pid;
}

int limpet_proc_run_time(pid_t pid, pid_t tid, uint64_t *ret_ns)
{
	LIMPET_FREE char *text = NULL;
	uint64_t run_ns;
	char *rest;
	size_t bytes;
	int r = task_file_read(pid, tid, "schedstat", &text, &bytes);

	if (r < 0)
		return r;
	/* time on a processor, time waiting for one, number of time slices */
	errno = 0;
	run_ns = strtoull(text, &rest, 10);
	if (errno || rest == text || *rest != ' ')
		return -EBADMSG;
	*ret_ns = run_ns;
	return 0;
}

/* ------------------------------------------------------------------ settling */

struct settling {
	pid_t tid; /* 0: settled */
	uint64_t ran_ns;
};

/* Asleep in a system call: it has done what it was released with. A thread that is gone counts as
 * asleep. */
static bool is_asleep(pid_t pid, pid_t tid)
{
	uint64_t fields[LIMPET_STAT_FIELDS];

	return limpet_proc_stat_read(pid, tid, fields) < 0 ||
	       (fields[LIMPET_STAT_STATE] != 'R' && fields[LIMPET_STAT_STATE] != 't');
}

static bool has_settled(pid_t pid, const struct settling *thread)
{
	/* The kernel updates this when a time slice ends, and at each tick. */
	const uint64_t enough_ns = 100000;
	uint64_t now_ns = 0;

	return is_asleep(pid, thread->tid) || limpet_proc_run_time(pid, thread->tid, &now_ns) < 0 ||
	       now_ns - thread->ran_ns >= enough_ns;
}

int limpet_proc_settle(const struct limpet_target *target, uint64_t deadline_ns)
{
	const struct timespec pause = {0, 500000};
	LIMPET_FREE struct settling *threads = NULL;
	LIMPET_FREE pid_t *tids = NULL;
	int count = limpet_proc_tasks(target->pid, &tids), left;

	if (count < 0)
		return count;
	threads = calloc((size_t)count + 1, sizeof(*threads));
	if (!threads)
		return -ENOMEM;
	for (int i = 0; i < count; i++) {
		threads[i].tid = tids[i];
		if (is_asleep(target->pid, tids[i]) ||
		    limpet_proc_run_time(target->pid, tids[i], &threads[i].ran_ns) < 0)
			threads[i].tid = 0;
	}
	for (;;) {
		left = 0;
		for (int i = 0; i < count; i++) {
			if (threads[i].tid && has_settled(target->pid, &threads[i]))
				threads[i].tid = 0;
			left += threads[i].tid != 0;
		}
		if (!left)
			return 0;
		if (limpet_monotonic_ns() >= deadline_ns)
			return -ETIMEDOUT;
		nanosleep(&pause, NULL);
	}
}
