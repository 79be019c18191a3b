#include "injector/stacks/stop_moment.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/clock.h"
#include "injector/proc/proc.h"
#include "injector/proc/target_process.h"
#include "injector/ptrace/stop_all.h"
#include "injector/ptrace/stop_effect.h"
#include "injector/ptrace/target_lock.h"
#include "injector/ptrace/tracer.h"
#include "injector/ptrace/watchdog.h"
#include "injector/stacks/stop_signals.h"

#define LOCK_PATIENCE_NS UINT64_C(2000000000)
/* For threads to leave calls that would notice, or stop in time. */
#define TRIES 20u
#define TRY_NS 25000000
/* Of the whole time what is kept for stopping threads, and for letting them go. */
#define STOPPING_PART 3u
#define RELEASE_PART 4u

struct moment {
	const struct limpet_target *target;
	struct limpet_tracer *tracer;
	struct limpet_stop_moment *what;
	struct limpet_stopped_thread *threads;
	size_t room; /* threads */
};

/* The first thread that would notice a stop; 0: none. */
static pid_t disturbed(const struct limpet_target *target)
{
	LIMPET_FREE pid_t *tids = NULL;
	const int count = limpet_proc_tasks(target->pid, &tids);

	for (int i = 0; i < count; i++) {
		struct limpet_proc_syscall call;
		struct limpet_proc_status status;

		if (limpet_proc_syscall_read(target->pid, tids[i], &call) < 0 || call.running ||
		    limpet_proc_status_read(tids[i], &status) < 0)
			continue;
		/* What a stopped thread was in has been interrupted already. */
		if (status.state != 'T' &&
		    limpet_stop_disturbs(target->pid, tids[i], status.seccomp, &call))
			return tids[i];
	}
	return 0;
}

/* Before any thread stands: a page that is touched for the first time takes its time. */
static int make_room(struct moment *moment)
{
	LIMPET_FREE pid_t *tids = NULL;
	const int count = limpet_proc_tasks(moment->target->pid, &tids);
	const size_t room = count > 0 ? (size_t)count + 16 : 0;

	if (count < 0)
		return count;
	if (room <= moment->room)
		return 0;
	free(moment->threads);
	moment->room = 0;
	moment->threads = reallocarray(NULL, room, sizeof(*moment->threads));
	if (!moment->threads)
		return -ENOMEM;
	memset(moment->threads, 1, room * sizeof(*moment->threads));
	moment->room = room;
	return 0;
}

/* False: there is no time for all of them. */
static bool copy_registers(struct moment *moment, const struct limpet_stop_all *stopped,
			   uint64_t deadline_ns)
{
	for (size_t i = 0; i < stopped->count; i++) {
		struct limpet_stopped_thread *thread = &moment->threads[i];
		const struct user_regs_struct *regs = limpet_tracee_regs(stopped->list[i]);

		_Static_assert(sizeof(*regs) < sizeof(thread->words) / 2, "");
		if (i == moment->room || limpet_monotonic_ns() >= deadline_ns)
			return false;
		thread->tid = limpet_tracee_tid(stopped->list[i]);
		thread->sp = regs->rsp;
		memcpy(thread->words, regs, sizeof(*regs));
		thread->count = sizeof(*regs) / 8;
		thread->count +=
			limpet_tracee_read_vectors(stopped->list[i], thread->words + thread->count,
						   sizeof(thread->words) - sizeof(*regs)) /
			8;
	}
	return true;
}

static int stop_once(struct moment *moment)
{
	const uint64_t most_ns = moment->what->most_ns, begin_ns = limpet_monotonic_ns();
	const uint64_t deadline_ns = begin_ns + most_ns - most_ns / RELEASE_PART;
	struct limpet_stop_all stopped;
	int error = limpet_stop_all_begin(moment->tracer, moment->target->pid, 0,
					  begin_ns + most_ns / STOPPING_PART, &stopped);

	if (error)
		return error;
	error = limpet_target_check(moment->target);
	if (!error && !copy_registers(moment, &stopped, deadline_ns))
		error = -EAGAIN;
	if (!error)
		moment->what->look(moment->what->context,
				   &(struct limpet_stopped){.threads = moment->threads,
							    .count = stopped.count,
							    .deadline_ns = deadline_ns});
	moment->what->threads = stopped.count;
	limpet_stop_all_end(&stopped);
	return error;
}

static int stop_at_last(struct moment *moment)
{
	const struct timespec pause = {0, TRY_NS};
	sigset_t before;
	int error = -EAGAIN;

	for (unsigned i = 0; i < TRIES && (error == -EAGAIN || error == -EBUSY); i++) {
		if (i)
			nanosleep(&pause, NULL);
		error = make_room(moment);
		moment->what->tid = error ? 0 : disturbed(moment->target);
		if (moment->what->tid)
			error = -EBUSY;
		if (error)
			continue;
		limpet_stop_signals_block(&before);
		error = stop_once(moment);
		limpet_stop_signals_restore(&before);
		limpet_tracer_await_strays(moment->tracer);
	}
	moment->what->stop_ns = limpet_tracer_pop_longest_stop_ns(moment->tracer);
	return error;
}

static int stop_locked(struct moment *moment, struct limpet_err *err)
{
	LIMPET_CLOSE int lock = limpet_target_lock_acquire(
		moment->tracer, moment->target->pid, limpet_monotonic_ns() + LOCK_PATIENCE_NS, err);
	int error;

	if (lock < 0)
		return lock;
	error = stop_at_last(moment);
	limpet_tracer_rest(moment->tracer);
	limpet_watchdog_bury(true);
	return error ? limpet_proc_explain(moment->target->pid, error, "stop threads of", err) : 0;
}

int limpet_stop_moment(const struct limpet_target *target, struct limpet_stop_moment *what,
		       struct limpet_err *err)
{
	struct moment moment = {.target = target, .what = what};
	int error = limpet_tracer_new(&moment.tracer);

	what->stop_ns = what->threads = 0;
	what->tid = 0;
	if (error)
		return limpet_err_set(err, error, "cannot trace: %s", strerror(-error));
	error = stop_locked(&moment, err);
	limpet_tracer_free(moment.tracer);
	free(moment.threads);
	return error;
}
