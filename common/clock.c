#include "common/clock.h"

uint64_t limpet_clock_ns(clockid_t clock)
{
	struct timespec now = {0, 0};

	clock_gettime(clock, &now);
	return limpet_timespec_ns(now);
}

uint64_t limpet_monotonic_ns(void)
{
	return limpet_clock_ns(CLOCK_MONOTONIC);
}

uint64_t limpet_thread_time_ns(void)
{
	return limpet_clock_ns(CLOCK_THREAD_CPUTIME_ID);
}
