/* When `limpet top` looks at a running capture again. Pure functions. */
#ifndef LIMPET_CLI_TOP_PACE_H
#define LIMPET_CLI_TOP_PACE_H

#include <stdint.h>

/* A look at the figures may take one part of so many of the time: a large capture is looked at less
 * often. But no pause is longer than that. */
#define LIMPET_TOP_BUSY_SHARE 20u
#define LIMPET_TOP_PAUSE_MAX_NS 5000000000ull

/* The next look, after one that began then and kept us busy for so long. */
uint64_t limpet_top_pace_next(uint64_t begun_ns, uint64_t busy_ns, uint64_t delay_ns);
/* Age of figures that are older than looks at that interval would leave them; 0: they are not. */
uint64_t limpet_top_pace_age(uint64_t now_ns, uint64_t figures_ns, uint64_t delay_ns);

#endif
