/* The clocks for deadlines and for what limpet itself costs. */
#ifndef LIMPET_COMMON_CLOCK_H
#define LIMPET_COMMON_CLOCK_H

#include <stdint.h>

/* CLOCK_MONOTONIC in nanoseconds. Any thread, also in signal handlers. */
uint64_t limpet_monotonic_ns(void);

/* Processor time that the calling thread has used, in nanoseconds: unlike the time of a clock it
 * does not depend on the load of the machine. A system call. */
uint64_t limpet_thread_time_ns(void);

#endif
