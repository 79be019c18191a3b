#include "injector/standstill.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <time.h>

#include "common/clock.h"
#include "injector/priority.h"
#include "injector/proc.h"
#include "injector/stop_effect.h"

#define MAX_STOPPED 4096u /* as many strays there may be */

static bool has(const struct limpet_standstill *still, pid_t tid)
{
	for (size_t i = 0; i < still->count; i++)
		if (limpet_tracee_tid(still->list[i]) == tid)
			return true;
	return false;
}

static int make_room(struct limpet_standstill *still, size_t more)
{
	struct limpet_tracee **list;

	if (still->count + more <= still->room)
		return 0;
	if (still->count + more > MAX_STOPPED)
		return -ENOSPC;
	list = reallocarray(still->list, still->count + more, sizeof(struct limpet_tracee *));
	if (!list)
		return -ENOMEM;
	still->list = list;
	still->room = still->count + more;
	return 0;
}

/* Asks those that were not asked yet; answers how many, or -errno. */
static int ask(pid_t pid, pid_t except, struct limpet_standstill *still)
{
	LIMPET_FREE pid_t *tids = NULL;
	int tasks = limpet_proc_tasks(pid, &tids), asked = 0;
	int error = tasks < 0 ? tasks : make_room(still, (size_t)tasks);

	limpet_tracee_many(true);
	for (int i = 0; i < tasks && !error; i++) {
		if (tids[i] == except || has(still, tids[i]))
			continue;
		error = limpet_tracee_ask(pid, tids[i], &still->list[still->count]);
		if (!error) {
			still->count++;
			asked++;
		} else if (error == -ESRCH) {
			error = 0;
		}
	}
	limpet_tracee_many(false);
	return error ? error : asked;
}

/* All from `first` on; whoever is gone leaves the list. Goes on past a failure, and answers it. */
static int await(struct limpet_standstill *still, size_t first, uint64_t deadline_ns)
{
	size_t kept = first;
	int result = 0;

	for (size_t i = first; i < still->count; i++) {
		int error = limpet_tracee_await(still->list[i], deadline_ns);

		if (!error)
			still->list[kept++] = still->list[i];
		else if (error != -ESRCH)
			result = error;
	}
	still->count = kept;
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

bool limpet_standstill_cuts(pid_t pid, pid_t except)
{
	LIMPET_FREE pid_t *tids = NULL;
	int tasks = limpet_proc_tasks(pid, &tids);

	for (int i = 0; i < tasks; i++)
		if (tids[i] != except && limpet_stop_cuts(pid, tids[i], NULL))
			return true;
	return false;
}

int limpet_standstill_begin(pid_t pid, pid_t except, uint64_t deadline_ns,
			    struct limpet_standstill *ret)
{
	const struct timespec pause = {0, 1000000};
	struct limpet_standstill still = {.list = NULL};
	int asked, error = 0;

	while (one_cannot_stop(pid)) {
		if (limpet_monotonic_ns() >= deadline_ns)
			return -EAGAIN;
		nanosleep(&pause, NULL);
	}
	still.priority = limpet_priority_raise();
	do {
		size_t first = still.count;
		int awaited;

		asked = ask(pid, except, &still);
		awaited = await(&still, first, deadline_ns);
		error = asked < 0 ? asked : awaited;
	} while (!error && asked);
	if (error) {
		limpet_standstill_end(&still);
		return error == -ETIMEDOUT ? -EAGAIN : error;
	}
	*ret = still;
	return 0;
}

void limpet_standstill_end(struct limpet_standstill *still)
{
	for (size_t i = 0; i < still->count; i++)
		limpet_tracee_release(still->list[i]);
	limpet_priority_set_back(still->priority);
	free(still->list);
	memset(still, 0, sizeof(*still));
}
