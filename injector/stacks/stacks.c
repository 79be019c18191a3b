#include "injector/stacks/stacks.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "injector/proc/target_process.h"
#include "injector/ptrace/target_lock.h"
#include "injector/ptrace/tracee.h"
#include "injector/ptrace/watchdog.h"
#include "injector/stacks/stack_copier.h"
#include "injector/stacks/stack_reader.h"
#include "injector/stacks/stack_scene.h"

/* Of all threads together; most stacks have some KiB. */
#define COPIED_MOST ((size_t)512 << 20)
#define LOCK_PATIENCE_NS UINT64_C(5000000000)

static int copy_threads(struct limpet_stack_copier *copier, const pid_t *tids, size_t count,
			struct limpet_stacks *stacks, struct limpet_stack_copy *copies)
{
	int error = 0;

	for (size_t i = 0; i < count && !error; i++) {
		error = limpet_stack_copier_copy(copier, tids[i], &stacks->list[stacks->count],
						 &copies[stacks->count]);
		if (!error)
			stacks->count++;
		else if (error == -ESRCH)
			error = 0;
	}
	limpet_tracer_await_strays(copier->tracer);
	return error;
}

/* No thread stands when this returns. */
static int copy_locked(struct limpet_stack_copier *copier, const pid_t *tids, size_t count,
		       struct limpet_stacks *stacks, struct limpet_stack_copy *copies,
		       struct limpet_err *err)
{
	const struct limpet_target *target = copier->target;
	LIMPET_CLOSE int lock = limpet_target_lock_acquire(
		copier->tracer, target->pid, limpet_monotonic_ns() + LOCK_PATIENCE_NS, err);
	int error;

	if (lock < 0)
		return lock;
	copier->room = malloc(LIMPET_STACKS_BYTES);
	if (!copier->room)
		return limpet_err_set(err, -ENOMEM, "out of memory");
	/* Touched here, and not while a thread stands for it. */
	memset(copier->room, 1, LIMPET_STACKS_BYTES);
	limpet_stack_maps_read(target->pid, &copier->maps);
	error = limpet_target_check(target);
	if (!error)
		error = copy_threads(copier, tids, count, stacks, copies);
	limpet_tracer_rest(copier->tracer);
	limpet_watchdog_bury(true);
	limpet_stack_maps_done(&copier->maps);
	free(copier->room);
	return error ? limpet_proc_explain(target->pid, error, "stop threads of", err) : 0;
}

static int unwind(struct limpet_stacks *stacks, const struct limpet_stack_copy *copies)
{
	struct limpet_stack_sources sources;
	int error = limpet_stack_sources_read(&stacks->modules, copies, stacks->count, &sources);

	if (error)
		return error;
	error = limpet_stack_reader_run(&sources.scene, copies, stacks->list, stacks->count);
	stacks->without_libunwind = error > 0;
	limpet_stack_sources_done(&sources);
	return error;
}

static int explain_none(const struct limpet_target *target, pid_t only, struct limpet_err *err)
{
	if (!only)
		return limpet_proc_explain(target->pid, -ESRCH, "look at", err);
	limpet_err_set(err, -ESRCH, "process %d has no thread %d", target->pid, only);
	limpet_err_hint(err, "its threads: ls /proc/%d/task", target->pid);
	return -ESRCH;
}

/* *ret_tids: malloc'ed. */
static int list_threads(const struct limpet_target *target, pid_t only, pid_t **ret_tids,
			struct limpet_err *err)
{
	pid_t *tids = NULL;
	int count = limpet_proc_tasks(target->pid, &tids), at = 0;

	if (count < 0)
		return limpet_proc_explain(target->pid, count, "list the threads of", err);
	while (only && at < count && tids[at] != only)
		at++;
	if (at == count) {
		free(tids);
		return explain_none(target, only, err);
	}
	if (only)
		tids[0] = only;
	*ret_tids = tids;
	return only ? 1 : count;
}

static int read_stacks(struct limpet_tracer *tracer, const struct limpet_target *target, pid_t only,
		       struct limpet_stacks *stacks, struct limpet_err *err)
{
	LIMPET_FREE pid_t *tids = NULL;
	LIMPET_FREE struct limpet_stack_copy *copies = NULL;
	struct limpet_stack_copier copier = {
		.tracer = tracer, .target = target, .bytes_left = COPIED_MOST};
	int count = list_threads(target, only, &tids, err), error;

	if (count < 0 || !tids)
		return count;
	stacks->list = calloc((size_t)count, sizeof(*stacks->list));
	copies = calloc((size_t)count, sizeof(*copies));
	if (!stacks->list || !copies)
		return limpet_err_set(err, -ENOMEM, "out of memory");
	error = copy_locked(&copier, tids, (size_t)count, stacks, copies, err);
	if (!error && !stacks->count)
		error = explain_none(target, only, err);
	if (!error)
		error = limpet_modules_read(target, &stacks->modules, err);
	if (!error && unwind(stacks, copies) < 0)
		error = limpet_err_set(err, -ENOMEM, "out of memory");
	for (int i = 0; i < count; i++)
		free(copies[i].stack);
	return error;
}

int limpet_stacks_read(const struct limpet_target *target, pid_t only, struct limpet_stacks *ret,
		       struct limpet_err *err)
{
	struct limpet_stacks stacks = {.list = NULL};
	struct limpet_tracer *tracer;
	int error = limpet_tracer_new(&tracer);

	if (error)
		return limpet_err_set(err, error, "cannot trace: %s", strerror(-error));
	error = read_stacks(tracer, target, only, &stacks, err);
	limpet_tracer_free(tracer);
	/* Modules and stacks are of one program only if it is the same still. */
	if (!error)
		error = limpet_target_check(target);
	error = limpet_target_explain(target, error, err);
	if (error)
		limpet_stacks_done(&stacks);
	else
		*ret = stacks;
	return error;
}

void limpet_stacks_done(struct limpet_stacks *stacks)
{
	for (size_t i = 0; i < stacks->count; i++)
		free(stacks->list[i].frames);
	free(stacks->list);
	limpet_modules_done(&stacks->modules);
	*stacks = (struct limpet_stacks){.list = NULL};
}
