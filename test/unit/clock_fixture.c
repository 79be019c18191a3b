#include "test/unit/clock_fixture.h"

#include <poll.h>
#include <time.h>

int __real_clock_gettime(clockid_t id, struct timespec *ret);
int __wrap_clock_gettime(clockid_t id, struct timespec *ret);
int __real_poll(struct pollfd *fds, nfds_t count, int milliseconds);
int __wrap_poll(struct pollfd *fds, nfds_t count, int milliseconds);

/* Not at 0, which stands for "never" here and there. */
static uint64_t now_ns = 1000000000000, step_ns;
static bool skips_polls;

uint64_t clock_fixture_ns(void)
{
	return __atomic_load_n(&now_ns, __ATOMIC_ACQUIRE);
}

void clock_fixture_move(uint64_t ns)
{
	__atomic_fetch_add(&now_ns, ns, __ATOMIC_ACQ_REL);
}

void clock_fixture_step(uint64_t ns)
{
	__atomic_store_n(&step_ns, ns, __ATOMIC_RELEASE);
}

void clock_fixture_skip_polls(bool skip)
{
	__atomic_store_n(&skips_polls, skip, __ATOMIC_RELEASE);
}

int __wrap_clock_gettime(clockid_t id, struct timespec *ret)
{
	uint64_t ns;

	if (id != CLOCK_MONOTONIC)
		return __real_clock_gettime(id, ret);
	ns = __atomic_add_fetch(&now_ns, __atomic_load_n(&step_ns, __ATOMIC_ACQUIRE),
				__ATOMIC_ACQ_REL);
	ret->tv_sec = (time_t)(ns / 1000000000u);
	ret->tv_nsec = (long)(ns % 1000000000u);
	return 0;
}

int __wrap_poll(struct pollfd *fds, nfds_t count, int milliseconds)
{
	int result;

	if (milliseconds <= 0 || !__atomic_load_n(&skips_polls, __ATOMIC_ACQUIRE))
		return __real_poll(fds, count, milliseconds ? -1 : 0);
	result = __real_poll(fds, count, 0);
	if (!result)
		clock_fixture_move((uint64_t)milliseconds * 1000000u);
	return result;
}
