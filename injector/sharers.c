#include "injector/sharers.h"

#include <errno.h>
#include <linux/kcmp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "injector/proc.h"
#include "injector/tracee.h"

#define SLEEP_FIRST_NS 500000
#define SLEEP_MOST_NS 20000000

/* Of /proc/PID/stat: what belongs to the memory. Zeros where there is none, or who asks may not. */
enum {
	START_CODE = 26,
	END_CODE,
	START_STACK,
	START_DATA = 45,
	ENV_END = 51,
	FIELDS = ENV_END + 1
};

struct mark {
	uint64_t fields[FIELDS];
};

static int read_mark(pid_t tid, struct mark *ret)
{
	LIMPET_FREE char *text = NULL;
	const char *at;
	size_t bytes;
	int error = limpet_proc_file_read(tid, "stat", &text, &bytes);

	if (error)
		return error;
	memset(ret, 0, sizeof(*ret));
	at = memrchr(text, ')', bytes);
	for (unsigned field = 3; at && field < FIELDS; field++) {
		at = strchr(at, ' ');
		if (at)
			ret->fields[field] = strtoull(++at, NULL, 10);
	}
	return 0;
}

static bool has_memory(const struct mark *mark)
{
	return mark->fields[START_STACK];
}

/* By a thread that is left, where the main thread has ended. */
static int read_process(pid_t pid, struct mark *ret, pid_t *ret_tid)
{
	const unsigned thread_count = 20;
	int error = read_mark(pid, ret);

	*ret_tid = pid;
	if (error || has_memory(ret) || ret->fields[thread_count] < 2)
		return error;
	*ret_tid = limpet_proc_resident(pid);
	return *ret_tid == pid ? 0 : read_mark(*ret_tid, ret);
}

static bool is_alike(const struct mark *a, const struct mark *b)
{
	for (unsigned field = START_CODE; field < FIELDS; field++)
		if ((field <= START_STACK || field >= START_DATA) &&
		    a->fields[field] != b->fields[field])
			return false;
	return has_memory(a);
}

static bool is_one_memory(pid_t tid, pid_t other_tid)
{
	return syscall(SYS_kcmp, tid, other_tid, KCMP_VM, 0, 0) == 0;
}

/* `mark` and `tid` are of the first. */
static bool shares(const struct mark *mark, pid_t tid, pid_t other)
{
	struct mark its;
	pid_t its_tid;

	return read_process(other, &its, &its_tid) == 0 && is_alike(mark, &its) &&
	       is_one_memory(tid, its_tid);
}

bool limpet_sharers_share(pid_t pid, pid_t other)
{
	struct mark mark;
	pid_t tid;

	return read_process(pid, &mark, &tid) == 0 && shares(&mark, tid, other);
}

int limpet_sharers_find(pid_t pid, struct limpet_sharer **ret)
{
	LIMPET_FREE pid_t *pids = NULL;
	struct limpet_sharer *list = NULL;
	struct mark mark;
	pid_t tid;
	int count = limpet_proc_pids(&pids), found = 0;
	int error = count < 0 ? count : read_process(pid, &mark, &tid);

	for (int i = 0; i < count && !error; i++) {
		struct limpet_sharer sharer = {.pid = pids[i]}, *more;

		if (pids[i] == pid || !shares(&mark, tid, pids[i]) ||
		    limpet_proc_start_time(pids[i], &sharer.start_ticks) < 0)
			continue;
		more = reallocarray(list, (size_t)found + 1, sizeof(*list));
		if (!more) {
			error = -ENOMEM;
			break;
		}
		list = more;
		list[found++] = sharer;
	}
	if (error) {
		free(list);
		return error;
	}
	*ret = list;
	return found;
}

static bool is_there(pid_t pid, const struct limpet_sharer *sharer)
{
	uint64_t ticks;

	return limpet_proc_start_time(sharer->pid, &ticks) == 0 && ticks == sharer->start_ticks &&
	       limpet_sharers_share(pid, sharer->pid);
}

int limpet_sharers_wait(pid_t pid, const struct limpet_sharers_wait *options, pid_t *ret_pid)
{
	LIMPET_FREE struct limpet_sharer *list = NULL;
	struct timespec pause = {0, SLEEP_FIRST_NS};
	int count = limpet_sharers_find(pid, &list), error;

	/* Those that have gone do not come back. */
	while (list && count > 0) {
		if (!is_there(pid, &list[count - 1])) {
			count--;
			continue;
		}
		if (limpet_monotonic_ns() >= options->deadline_ns) {
			*ret_pid = list[count - 1].pid;
			return -EBUSY;
		}
		if (options->idle)
			options->idle(options->idle_context);
		error = options->check ? options->check(options->check_context) : 0;
		if (error)
			return error;
		nanosleep(&pause, NULL);
		if (pause.tv_nsec < SLEEP_MOST_NS)
			pause.tv_nsec *= 2;
	}
	return count;
}
