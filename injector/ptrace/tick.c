#include "injector/ptrace/tick.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <sys/signalfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "injector/ptrace/sigchld.h"

static bool set(struct limpet_tick *tick, long period_ns)
{
	const struct itimerspec times = {{0, period_ns}, {0, period_ns}};

	return timerfd_settime(tick->timer, 0, &times, NULL) == 0;
}

void limpet_tick_close(struct limpet_tick *tick)
{
	if (tick->pid == getpid() && tick->timer >= 0)
		close(tick->timer);
	if (tick->pid == getpid() && tick->children >= 0)
		close(tick->children);
	tick->pid = 0;
}

/* A forked child leaves those of its parent alone: their numbers may be of other files by now. */
static bool open_both(struct limpet_tick *tick)
{
	const sigset_t child = limpet_sigchld_set();

	tick->timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	tick->children = signalfd(-1, &child, SFD_CLOEXEC | SFD_NONBLOCK);
	tick->ticks = false;
	tick->pid = getpid();
	if (tick->timer >= 0 && tick->children >= 0)
		return true;
	limpet_tick_close(tick);
	return false;
}

enum limpet_tick_news limpet_tick_sleep(struct limpet_tick *tick)
{
	struct pollfd fds[2];
	uint64_t times;
	int count;

	if (tick->pid != getpid() && !open_both(tick))
		return LIMPET_TICK_NONE;
	tick->sleeps = true;
	if (!tick->ticks)
		tick->ticks = set(tick, LIMPET_TICK_NS);
	fds[0] = (struct pollfd){.fd = tick->children, .events = POLLIN};
	fds[1] = (struct pollfd){.fd = tick->timer, .events = POLLIN};
	count = tick->ticks ? poll(fds, 2, -1) : 0;
	tick->sleeps = false;
	if (count <= 0)
		return count < 0 && errno == EINTR ? LIMPET_TICK_TICK : LIMPET_TICK_NONE;
	/* The timer goes on once its tick has been read. */
	if (fds[1].revents && read(tick->timer, &times, sizeof(times)) < 0 && errno != EAGAIN)
		limpet_tick_close(tick);
	return fds[0].revents ? LIMPET_TICK_CHILD : LIMPET_TICK_TICK;
}

void limpet_tick_end(struct limpet_tick *tick)
{
	if (tick->sleeps)
		return;
	if (tick->ticks && tick->pid == getpid())
		set(tick, 0);
	tick->ticks = false;
}
