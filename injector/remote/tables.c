#include "injector/remote/tables.h"

#include <errno.h>
#include <stdbool.h>
#include <sys/syscall.h>

#include "injector/proc/descriptor.h"
#include "injector/proc/proc.h"
#include "injector/remote/own_objects.h"

/* The program may have put something else under the number, in one table and not in another. */
static int close_there(const struct limpet_hijack_setup *setup, pid_t tid, int fd)
{
	struct limpet_hijack_setup alone = *setup;
	struct limpet_hijack *hijack;
	int64_t answer = 0;
	int error;

	alone.only = tid;
	alone.anywhere = true;
	error = limpet_hijack_find(&alone, &hijack, NULL);
	if (error)
		return error;
	if (limpet_own_objects_has(tid, fd))
		answer = limpet_hijack_syscall(hijack, SYS_close, (uint64_t)fd, 0);
	error = limpet_hijack_finish(hijack);
	return answer < 0 ? (int)answer : error;
}

int limpet_tables_clean(const struct limpet_hijack_setup *setup, int fd, pid_t *ret_left)
{
	LIMPET_FREE pid_t *tids = NULL;
	pid_t resident = limpet_proc_resident(setup->target->pid);
	int count = limpet_proc_tasks(setup->target->pid, &tids), answer = 0;

	for (int i = 0; i < count; i++) {
		int error;

		if ((tids[i] != resident && !limpet_descriptor_apart(tids[i], resident)) ||
		    !limpet_own_objects_has(tids[i], fd))
			continue;
		error = close_there(setup, tids[i], fd);
		/* The thread may be gone by now, and its table, too. */
		if (!error || !limpet_own_objects_has(tids[i], fd))
			continue;
		*ret_left = tids[i];
		answer = error;
	}
	return answer;
}
