#include "injector/ptrace/tick.h"

#include <signal.h>
#include <time.h>
#include <unistd.h>

static struct {
	pid_t tid; /* whose timer it is; 0: nobody's */
	timer_t timer;
	bool ticks, failed;
} tick;

static bool set(long period_ns)
{
	const struct itimerspec times = {{0, period_ns}, {0, period_ns}};

	return timer_settime(tick.timer, 0, &times, NULL) == 0;
}

static bool begin(void)
{
	const pid_t tid = gettid();
	struct sigevent event = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGCHLD};

	if (tick.tid != tid) {
		event._sigev_un._tid = tid;
		tick.tid = tid;
		tick.ticks = false;
		tick.failed = timer_create(CLOCK_MONOTONIC, &event, &tick.timer) < 0;
	}
	if (!tick.ticks && !tick.failed)
		tick.ticks = set(LIMPET_TICK_NS);
	return tick.ticks;
}

enum limpet_tick limpet_tick_sleep(void)
{
	siginfo_t info = {.si_code = 0};
	sigset_t child;

	if (!begin())
		return LIMPET_TICK_NONE;
	sigemptyset(&child);
	sigaddset(&child, SIGCHLD);
	sigwaitinfo(&child, &info);
	return info.si_code == SI_TIMER ? LIMPET_TICK_TICK : LIMPET_TICK_CHILD;
}

void limpet_tick_end(void)
{
	if (tick.ticks && tick.tid == gettid())
		set(0);
	tick.ticks = false;
}
