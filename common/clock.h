/* The clock that deadlines are given in. */
#ifndef LIMPET_COMMON_CLOCK_H
#define LIMPET_COMMON_CLOCK_H

#include <stdint.h>

/* CLOCK_MONOTONIC in nanoseconds. Any thread; in signal handlers, too. */
uint64_t limpet_monotonic_ns(void);

#endif
