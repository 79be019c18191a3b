#include "injector/ptrace/tick.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/signalfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "injector/ptrace/sigchld.h"

static struct {
	pid_t pid; /* whose they are; 0: nobody's */
	int timer, children;
	bool ticks;
	volatile bool sleeps; /* a handler is not to stop the timer */
} tick;

static bool set(long period_ns)
{
	const struct itimerspec times = {{0, period_ns}, {0, period_ns}};

	return timerfd_settime(tick.timer, 0, &times, NULL) == 0;
}

static void close_both(void)
{
	if (tick.timer >= 0)
		close(tick.timer);
	if (tick.children >= 0)
		close(tick.children);
	tick.pid = 0;
}

/* A forked child leaves those of its parent alone: their numbers may be of other files by now. */
static bool open_both(void)
{
	const sigset_t child = limpet_sigchld_set();

	tick.timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	tick.children = signalfd(-1, &child, SFD_CLOEXEC | SFD_NONBLOCK);
	tick.ticks = false;
	tick.pid = getpid();
	if (tick.timer >= 0 && tick.children >= 0)
		return true;
	close_both();
	return false;
}

enum limpet_tick limpet_tick_sleep(void)
{
	struct pollfd fds[2];
	uint64_t times;
	int count;

	if (tick.pid != getpid() && !open_both())
		return LIMPET_TICK_NONE;
	tick.sleeps = true;
	if (!tick.ticks)
		tick.ticks = set(LIMPET_TICK_NS);
	fds[0] = (struct pollfd){.fd = tick.children, .events = POLLIN};
	fds[1] = (struct pollfd){.fd = tick.timer, .events = POLLIN};
	count = tick.ticks ? poll(fds, 2, -1) : 0;
	tick.sleeps = false;
	if (count <= 0)
		return count < 0 && errno == EINTR ? LIMPET_TICK_TICK : LIMPET_TICK_NONE;
	/* The timer goes on once its tick has been read. */
	if (fds[1].revents && read(tick.timer, &times, sizeof(times)) < 0 && errno != EAGAIN)
		close_both();
	return fds[0].revents ? LIMPET_TICK_CHILD : LIMPET_TICK_TICK;
}

void limpet_tick_end(void)
{
	if (tick.sleeps)
		return;
	if (tick.ticks && tick.pid == getpid())
		set(0);
	tick.ticks = false;
}
