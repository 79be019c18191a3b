#include "injector/ptrace/wait.h"

#include <errno.h>
#include <stddef.h>
#include <time.h>

#include "common/clock.h"
#include "injector/ptrace/tracer.h"

void limpet_wait_idle(const struct limpet_wait *wait)
{
	if (wait->tracer)
		limpet_tracer_idle(wait->tracer);
	if (wait->idle)
		wait->idle(wait->idle_context);
}

int limpet_wait_check(const struct limpet_wait *wait)
{
	return wait->check ? wait->check(wait->check_context) : 0;
}

int limpet_wait_pause(const struct limpet_wait *wait, uint64_t *pause_ns, uint64_t longest_ns)
{
	struct timespec pause = {0};
	int error;

	if (limpet_monotonic_ns() >= wait->deadline_ns)
		return -EBUSY;
	limpet_wait_idle(wait);
	error = limpet_wait_check(wait);
	if (error)
		return error;
	pause.tv_nsec = (long)(wait->tracer ? limpet_tracer_bound_sleep_ns(wait->tracer, *pause_ns)
					    : *pause_ns);
	if (pause.tv_nsec)
		nanosleep(&pause, NULL);
	if (wait->tracer)
		limpet_tracer_release_strays(wait->tracer);
	*pause_ns = *pause_ns * 2 < longest_ns ? *pause_ns * 2 : longest_ns;
	return 0;
}
