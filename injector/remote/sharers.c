#include "injector/remote/sharers.h"

#include <errno.h>
#include <linux/kcmp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "common/clock.h"
#include "injector/proc/proc.h"

#define SLEEP_FIRST_NS 500000
#define SLEEP_MOST_NS 20000000

/* Field numbers in a stat file. Fields about memory are 0 if the process has none, or if the reader
 * may not see them. */
enum {
	THREAD_COUNT = 20,
	START_TIME = 22,
	START_CODE = 26,
	END_CODE,
	START_STACK,
	START_DATA = 45,
	ENV_END = 51
};

struct process {
	uint64_t start_ticks;
	pid_t tid; /* a thread that has its memory */
	uint64_t fields[LIMPET_STAT_FIELDS];
};

static bool has_memory(const struct process *process)
{
	return process->fields[START_STACK];
}

/* If the main thread has ended, reads through a thread that is left. */
static int read_process(pid_t pid, struct process *ret)
{
	int last = limpet_proc_stat_read(pid, pid, ret->fields);

	if (last < ENV_END)
		return last < 0 ? last : -EBADMSG;
	ret->start_ticks = ret->fields[START_TIME];
	ret->tid = pid;
	if (has_memory(ret) || ret->fields[THREAD_COUNT] < 2)
		return 0;
	ret->tid = limpet_proc_resident(pid);
	last = ret->tid == pid ? 0 : limpet_proc_stat_read(pid, ret->tid, ret->fields);
	return last < 0 ? last : 0;
}

static bool is_alike(const struct process *a, const struct process *b)
{
	for (unsigned field = START_CODE; field <= ENV_END; field++)
		if ((field <= START_STACK || field >= START_DATA) &&
		    a->fields[field] != b->fields[field])
			return false;
	return has_memory(a);
}

static bool is_one_memory(pid_t tid, pid_t other_tid)
{
	return syscall(SYS_kcmp, tid, other_tid, KCMP_VM, 0, 0) == 0;
}

/* Also fills in `ret_other`. */
static bool shares(const struct process *process, pid_t other, struct process *ret_other)
{
	return read_process(other, ret_other) == 0 && is_alike(process, ret_other) &&
	       is_one_memory(process->tid, ret_other->tid);
}

bool limpet_sharers_share(pid_t pid, pid_t other)
{
	struct process process, its;

	return read_process(pid, &process) == 0 && shares(&process, other, &its);
}

static int add(struct limpet_sharer **list, int count, const struct limpet_sharer *sharer)
{
	struct limpet_sharer *more = reallocarray(*list, (size_t)count + 1, sizeof(*more));

	if (!more)
		return -ENOMEM;
	more[count] = *sharer;
	*list = more;
	return count + 1;
}

int limpet_sharers_find(pid_t pid, struct limpet_sharer **ret)
{
	LIMPET_FREE pid_t *pids = NULL;
	LIMPET_FREE struct limpet_sharer *list = NULL;
	struct process process, its;
	int count = limpet_proc_pids(&pids);
	int found = count < 0 ? count : read_process(pid, &process);

	for (int i = 0; i < count && found >= 0; i++)
		if (pids[i] != pid && shares(&process, pids[i], &its))
			found = add(&list, found,
				    &(struct limpet_sharer){pids[i], its.start_ticks});
	if (found >= 0)
		*ret = LIMPET_TAKE(list);
	return found;
}

static bool is_there(pid_t pid, const struct limpet_sharer *sharer)
{
	struct process process, its;

	return read_process(pid, &process) == 0 && shares(&process, sharer->pid, &its) &&
	       its.start_ticks == sharer->start_ticks;
}

int limpet_sharers_wait(pid_t pid, const struct limpet_wait *wait, pid_t *ret_pid)
{
	LIMPET_FREE struct limpet_sharer *list = NULL;
	uint64_t pause_ns = SLEEP_FIRST_NS;
	int count = limpet_sharers_find(pid, &list), error;

	/* Processes that are gone do not come back. */
	while (list && count > 0) {
		if (!is_there(pid, &list[count - 1])) {
			count--;
			continue;
		}
		error = limpet_wait_pause(wait, &pause_ns, SLEEP_MOST_NS);
		if (error == -EBUSY)
			*ret_pid = list[count - 1].pid;
		if (error)
			return error;
	}
	return count;
}
