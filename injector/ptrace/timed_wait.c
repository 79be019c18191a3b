#include "injector/ptrace/timed_wait.h"

#include <sched.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "common/clock.h"
#include "injector/proc/proc.h"
#include "injector/ptrace/arch.h"
#include "injector/ptrace/stop_effect.h"

#define MS_NS 1000000u

/* What CLOCK_MONOTONIC is ahead of a processor's clock; never less. The scheduler notes the time of
 * a thread that gives up its processor. */
static bool read_lead(uint64_t processor, int64_t *ret_ns)
{
	struct limpet_proc_sched own;
	const struct sched_param highest = {sched_get_priority_max(SCHED_FIFO)};
	struct sched_param param;
	cpu_set_t before, one;
	bool good = false;
	int first;

	if (processor >= CPU_SETSIZE || sched_getaffinity(0, sizeof(before), &before) < 0)
		return false;
	CPU_ZERO(&one);
	CPU_SET(processor, &one);
	/* A thread with a real-time priority may keep that processor: limpet would wait there as
	 * long as it runs. Where it may not go before that, the kernel leaves some time for others
	 * (sched_rt_runtime_us). */
	first = sched_getparam(0, &param) == 0 ? sched_getscheduler(0) : -1;
	if (first >= 0)
		(void)!sched_setscheduler(0, SCHED_FIFO | SCHED_RESET_ON_FORK, &highest);
	if (sched_setaffinity(0, sizeof(one), &one) < 0)
		goto out;
	sched_yield();
	if (limpet_proc_sched_read(getpid(), gettid(), &own) == 0 && own.ran_ns) {
		*ret_ns = (int64_t)(limpet_monotonic_ns() - own.ran_ns);
		good = true;
	}
	sched_setaffinity(0, sizeof(before), &before);
out:
	/* Without CAP_SYS_NICE the flag cannot be taken back, the priority can. */
	if (first >= 0 && sched_setscheduler(0, first, &param) < 0)
		(void)!sched_setscheduler(0, first | SCHED_RESET_ON_FORK, &param);
	return good;
}

/* What a thread that goes back into its call may take to fall asleep, with others on its processor.
 */
#define RETURN_PATIENCE_NS 50000000u
static pid_t returning;

void limpet_timed_wait_returns(pid_t tid)
{
	returning = tid;
}

static int read_call(pid_t pid, pid_t tid, struct limpet_proc_syscall *ret)
{
	const struct timespec nap = {0, 100000};
	const uint64_t until_ns = limpet_monotonic_ns() + RETURN_PATIENCE_NS;
	int error;

	while (!(error = limpet_proc_syscall_read(pid, tid, ret)) && ret->running &&
	       tid == returning && limpet_monotonic_ns() < until_ns)
		nanosleep(&nap, NULL);
	if (tid == returning)
		returning = 0;
	return error;
}

void limpet_timed_wait_probe(pid_t pid, pid_t tid, struct limpet_timed_wait *ret)
{
	struct limpet_proc_syscall call;
	struct limpet_proc_sched before, after;
	uint64_t stat[LIMPET_STAT_FIELDS];
	int64_t lead_ns;

	memset(ret, 0, sizeof(*ret));
	if (read_call(pid, tid, &call) < 0 || call.running ||
	    limpet_stop_limit_of(call.number, call.args) != LIMPET_LIMIT_IN_REGISTER ||
	    !limpet_interrupted_spares_limit(pid, call.pc) ||
	    limpet_proc_sched_read(pid, tid, &before) < 0 || !before.ran_ns ||
	    limpet_proc_stat_read(pid, tid, stat) < (int)LIMPET_STAT_PROCESSOR ||
	    !read_lead(stat[LIMPET_STAT_PROCESSOR], &lead_ns) ||
	    limpet_proc_sched_read(pid, tid, &after) < 0 || after.ran_ns != before.ran_ns)
		return;
	*ret = (struct limpet_timed_wait){.begun_ns = before.ran_ns + (uint64_t)lead_ns,
					  .sleeps = before.sleeps,
					  .pc = call.pc,
					  .sp = call.sp,
					  .number = call.number,
					  .limit_ms = (int32_t)call.args[3]};
}

bool limpet_timed_wait_lasted(pid_t pid, pid_t tid, const struct limpet_timed_wait *wait)
{
	struct limpet_proc_sched now;

	return limpet_proc_sched_read(pid, tid, &now) == 0 && now.sleeps == wait->sleeps + 1;
}

int32_t limpet_timed_wait_left(const struct limpet_timed_wait *wait)
{
	const int64_t limit_ns = (int64_t)wait->limit_ms * MS_NS;
	const int64_t left_ns = limit_ns - (int64_t)(limpet_monotonic_ns() - wait->begun_ns);

	/* A begin in the future: a clock has leapt. */
	if (left_ns <= 0 || left_ns > limit_ns)
		return left_ns <= 0 ? 0 : wait->limit_ms;
	return (int32_t)((left_ns + MS_NS - 1) / MS_NS);
}
