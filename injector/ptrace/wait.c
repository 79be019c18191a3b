#include "injector/ptrace/wait.h"

#include <errno.h>
#include <stddef.h>
#include <time.h>

#include "common/clock.h"
#include "injector/ptrace/awake.h"
#include "injector/ptrace/tracee.h"

void limpet_wait_idle(const struct limpet_wait *wait)
{
	limpet_tracee_release_strays();
	limpet_awake_look(limpet_monotonic_ns());
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
	pause.tv_nsec = (long)limpet_tracee_bound_sleep_ns(*pause_ns);
	if (pause.tv_nsec)
		nanosleep(&pause, NULL);
	limpet_tracee_release_strays();
	*pause_ns = *pause_ns * 2 < longest_ns ? *pause_ns * 2 : longest_ns;
	return 0;
}
