/* The clocks for deadlines and for what limpet itself costs. Any thread, also in signal handlers.
 */
#ifndef LIMPET_COMMON_CLOCK_H
#define LIMPET_COMMON_CLOCK_H

#include <stdint.h>
#include <time.h>

static inline uint64_t limpet_timespec_ns(struct timespec time)
{
	return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

static inline struct timespec limpet_timespec(uint64_t ns)
{
	return (struct timespec){(time_t)(ns / 1000000000u), (long)(ns % 1000000000u)};
}

/* Any clock in nanoseconds; 0: there is none. */
uint64_t limpet_clock_ns(clockid_t clock);
/* CLOCK_MONOTONIC. */
uint64_t limpet_monotonic_ns(void);
/* Processor time that the calling thread has used: unlike the time of a clock it does not depend on
 * the load of the machine. A system call. */
uint64_t limpet_thread_time_ns(void);

#endif
