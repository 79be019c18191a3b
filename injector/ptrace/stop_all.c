#include "injector/ptrace/stop_all.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/array.h"
#include "common/clock.h"
#include "injector/proc/proc.h"
#include "injector/ptrace/step.h"
#include "injector/ptrace/stop_effect.h"
#include "injector/ptrace/timed_wait.h"

#define MAX_STOPPED LIMPET_STRAYS_MOST /* each may become one */

static bool has(const struct limpet_stop_all *stopped, pid_t tid)
{
	for (size_t i = 0; i < stopped->count; i++)
		if (limpet_tracee_tid(stopped->list[i]) == tid)
			return true;
	return false;
}

static int make_room(struct limpet_stop_all *stopped, size_t more)
{
	if (stopped->count + more > MAX_STOPPED)
		return -ENOSPC;
	return limpet_reserve(&stopped->list, &stopped->capacity, stopped->count + more,
			      sizeof(struct limpet_tracee *));
}

/* Interrupts the threads that were not interrupted yet; returns how many, or -errno. */
static int request_stops(pid_t pid, pid_t except, struct limpet_stop_all *stopped)
{
	LIMPET_FREE pid_t *tids = NULL;
	LIMPET_FREE struct limpet_timed_wait *waits = NULL;
	int tasks = limpet_proc_tasks(pid, &tids), fresh = 0, asked = 0;
	int error = tasks < 0 ? tasks : make_room(stopped, (size_t)tasks);

	for (int i = 0; i < tasks; i++)
		if (tids[i] != except && !has(stopped, tids[i]))
			tids[fresh++] = tids[i];
	/* Before the first one stands for it: not for threads that were made since. */
	if (!error && !stopped->count)
		waits = calloc((size_t)fresh + 1, sizeof(*waits));
	for (int i = 0; waits && i < fresh; i++)
		limpet_timed_wait_probe(pid, tids[i], &waits[i]);
	limpet_tracer_many(stopped->tracer, true);
	for (int i = 0; i < fresh && !error; i++) {
		error = limpet_tracee_request_stop(stopped->tracer, pid, tids[i],
						   waits ? &waits[i] : NULL,
						   &stopped->list[stopped->count]);
		if (!error) {
			stopped->count++;
			asked++;
		} else if (error == -ESRCH) {
			error = 0;
		}
	}
	limpet_tracer_many(stopped->tracer, false);
	return error ? error : asked;
}

/* Waits for all threads from `first` on; those that are gone are removed from the list. Goes on
 * after a failure, and returns the first. */
static int await(struct limpet_stop_all *stopped, size_t first, uint64_t deadline_ns)
{
	size_t kept = first;
	int result = 0;

	for (size_t i = first; i < stopped->count; i++) {
		int error = limpet_tracee_await(stopped->list[i], deadline_ns);

		if (!error)
			stopped->list[kept++] = stopped->list[i];
		else if (error != -ESRCH)
			result = error;
	}
	stopped->count = kept;
	return result;
}

static bool one_cannot_stop(pid_t pid)
{
	LIMPET_FREE pid_t *tids = NULL;
	int tasks = limpet_proc_tasks(pid, &tids);

	for (int i = 0; i < tasks; i++) {
		struct limpet_proc_status status;

		if (limpet_proc_status_read(tids[i], &status) == 0 && status.state == 'D')
			return true;
	}
	return false;
}

bool limpet_stop_all_cuts(pid_t pid, pid_t except)
{
	LIMPET_FREE pid_t *tids = NULL;
	int tasks = limpet_proc_tasks(pid, &tids);

	for (int i = 0; i < tasks; i++) {
		struct limpet_proc_status status;

		if (tids[i] != except && limpet_proc_status_read(tids[i], &status) == 0 &&
		    limpet_stop_cuts(pid, tids[i], status.seccomp, NULL))
			return true;
	}
	return false;
}

int limpet_stop_all_begin(struct limpet_tracer *tracer, pid_t pid, pid_t except,
			  uint64_t deadline_ns, struct limpet_stop_all *ret)
{
	const struct timespec pause = {0, 1000000};
	struct limpet_stop_all stopped = {.tracer = tracer};
	struct limpet_step step;
	int asked, error = 0;

	while (one_cannot_stop(pid)) {
		if (limpet_monotonic_ns() >= deadline_ns)
			return -EAGAIN;
		nanosleep(&pause, NULL);
		limpet_tracer_release_strays(tracer);
	}
	stopped.priority = limpet_tracer_raise(tracer);
	step = limpet_step_begin(LIMPET_STEP_STOP_ALL, 0, 0);
	do {
		size_t first = stopped.count;
		int awaited;

		asked = request_stops(pid, except, &stopped);
		awaited = await(&stopped, first, deadline_ns);
		error = asked < 0 ? asked : awaited;
	} while (!error && asked);
	limpet_step_end(&step, error);
	if (error) {
		limpet_stop_all_end(&stopped);
		return error == -ETIMEDOUT ? -EAGAIN : error;
	}
	*ret = stopped;
	return 0;
}

void limpet_stop_all_end(struct limpet_stop_all *stopped)
{
	for (size_t i = 0; i < stopped->count; i++)
		limpet_tracee_release(stopped->list[i]);
	limpet_tracer_lower(stopped->tracer, stopped->priority);
	free(stopped->list);
	memset(stopped, 0, sizeof(*stopped));
}
