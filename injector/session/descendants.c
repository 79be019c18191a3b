#include "injector/session/descendants.h"

#include <limits.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "injector/proc/memfd.h"
#include "injector/proc/proc.h"
#include "injector/proc/target_process.h"

struct process {
	pid_t pid, parent;
	bool descends;
};

static int list_processes(struct process **ret_list)
{
	LIMPET_FREE pid_t *pids = NULL;
	int count = limpet_proc_pids(&pids), kept = 0;
	struct process *list;

	if (count < 0)
		return count;
	list = calloc((size_t)count + 1, sizeof(*list));
	if (!list)
		return -ENOMEM;
	for (int i = 0; i < count; i++) {
		struct limpet_proc_status status;

		if (limpet_proc_status_read(pids[i], &status) == 0 && status.state != 'Z')
			list[kept++] = (struct process){.pid = pids[i], .parent = status.ppid};
	}
	*ret_list = list;
	return kept;
}

static bool is_one(const struct process *list, int count, pid_t pid)
{
	/* cppcheck-suppress constStatement */
	size_t at = LIMPET_PARTITION_POINT(i, (size_t)count, list[i].pid < pid);

	return at < (size_t)count && list[at].pid == pid && list[at].descends;
}

/* A child may have a lower pid than its parent: repeat until no more are found. */
static void mark(struct process *list, int count, pid_t pid)
{
	bool more = true;

	while (more) {
		more = false;
		for (int i = 0; i < count; i++) {
			if (list[i].descends || list[i].pid == pid ||
			    (list[i].parent != pid && !is_one(list, count, list[i].parent)))
				continue;
			list[i].descends = more = true;
		}
	}
}

/* A process forked since the capture began has a copy of the agent, and is followed. */
static bool has_agent(pid_t pid)
{
	struct limpet_maps maps;
	bool has = false;

	if (limpet_proc_maps_read(pid, &maps) < 0)
		return false;
	for (size_t i = 0; i < maps.count && !has; i++)
		has = limpet_memfd_is_agent(maps.list[i].path);
	limpet_proc_maps_done(&maps);
	return has;
}

static bool is_like(pid_t pid, const char *program)
{
	char executable[PATH_MAX];

	return limpet_proc_executable(pid, executable, sizeof(executable)) >= 0 &&
	       !strcmp(executable, program) && !has_agent(pid);
}

int limpet_descendants(const struct limpet_target *target, pid_t **ret_pids)
{
	LIMPET_FREE struct process *list = NULL;
	char program[PATH_MAX];
	pid_t *pids;
	int count, found = 0, error = limpet_proc_executable(target->pid, program, sizeof(program));

	if (error < 0)
		return error;
	count = list_processes(&list);
	if (count < 0)
		return count;
	pids = calloc((size_t)count + 1, sizeof(*pids));
	if (!pids)
		return -ENOMEM;
	mark(list, count, target->pid);
	for (int i = 0; i < count; i++)
		if (list[i].descends && is_like(list[i].pid, program))
			pids[found++] = list[i].pid;
	*ret_pids = pids;
	return found;
}
