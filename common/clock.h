/* The clock for deadlines. */
#ifndef LIMPET_COMMON_CLOCK_H
#define LIMPET_COMMON_CLOCK_H

#include <stdint.h>

/* CLOCK_MONOTONIC in nanoseconds. Any thread, also in signal handlers. */
uint64_t limpet_monotonic_ns(void);

#endif
