/* Preflight: threads in which a call by limpet would do harm. */
#include <errno.h>

#include "injector/elf/modules.h"
#include "injector/preflight/preflight_check.h"
#include "injector/proc/memory.h"
#include "injector/proc/target_process.h"
#include "injector/remote/sharers.h"

/* True: libc takes no locks, since it knows of only one thread. glibc has this variable since 2.32.
 */
static bool libc_sees_one(pid_t pid, uint64_t address)
{
	char is_single = 0;

	return limpet_memory_read(pid, address, &is_single, 1) == 0 && is_single;
}

/* A thread that libc has joined may still be listed: on exit the kernel wakes the joining thread
 * after it has marked the thread as exiting. Such a thread cannot be in malloc. */
static bool is_alive(pid_t tid)
{
	struct limpet_proc_status status;
	int error = limpet_proc_status_read(tid, &status);

	return !limpet_proc_is_gone(error) && (error || !status.kernel_thread) &&
	       !limpet_proc_is_exiting(tid);
}

static int count_threads(const struct limpet_check *check)
{
	LIMPET_FREE pid_t *tids = NULL;
	int count = limpet_proc_tasks(check->target->pid, &tids), alive = 0;

	for (int i = 0; i < count; i++)
		alive += is_alive(tids[i]);
	return alive;
}

/* If a program's libc believes that there is one thread it locks nothing: a function that we call
 * could find another thread in the middle of malloc. The variable is read before and after the
 * threads are counted: libc may create a thread meanwhile. */
static void check_raw_threads(struct limpet_check *check)
{
	struct limpet_attach_plan *plan =
		check->status.threads < 2 ? NULL : limpet_check_plan(check);
	uint64_t address;

	if (!plan)
		return;
	address = limpet_modules_symbol(&plan->modules, "__libc_single_threaded", NULL);
	if (!address || !libc_sees_one(check->target->pid, address) || count_threads(check) < 2 ||
	    !libc_sees_one(check->target->pid, address))
		return;
	limpet_check_refuse(check, -ENOTSUP, "raw-thread", "raw threads",
			    "it has a thread that its C library does not know (a bare "
			    "clone(2)): the library takes no locks, so limpet's calls "
			    "could find that thread in the middle of malloc");
	limpet_check_hint(check, "threads made by pthread_create are captured");
}

/* Most end soon: children of vfork that have not executed a program yet. */
static void check_sharers(struct limpet_check *check)
{
	LIMPET_FREE struct limpet_sharer *list = NULL;

	if (limpet_sharers_find(check->target->pid, &list) <= 0)
		return;
	limpet_check_add(check, LIMPET_FINDING_NOTE, "sharer", "memory shared",
			 "process %d shares its memory and is none of its threads: attach waits "
			 "until that has ended, --attach-timeout at most",
			 list[0].pid);
}

void limpet_check_threads(struct limpet_check *check)
{
	/* A program that has not started has done none of this. */
	if (check->options.quick || check->options.launched ||
	    check->out->verdict != LIMPET_PREFLIGHT_OK)
		return;
	check_raw_threads(check);
	check_sharers(check);
}
