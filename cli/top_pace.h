/* When `limpet top` reads a running capture again. Pure functions. */
#ifndef LIMPET_CLI_TOP_PACE_H
#define LIMPET_CLI_TOP_PACE_H

#include <stdint.h>

/* Updates may take one of LIMPET_TOP_BUSY_SHARE parts of the time: a large capture is read less
 * often. No pause is longer than LIMPET_TOP_PAUSE_MAX_NS. */
#define LIMPET_TOP_BUSY_SHARE 20u
#define LIMPET_TOP_PAUSE_MAX_NS 5000000000ull

/* Time of the next update, after one from `begun_ns` to `ended_ns` that used `busy_ns` of the
 * processor: on a busy machine, less than it took. Not before `ended_ns`. */
uint64_t limpet_top_pace_next(uint64_t begun_ns, uint64_t ended_ns, uint64_t busy_ns,
			      uint64_t delay_ns);
/* Age of the figures if they are older than updates every `delay_ns` would leave them, else 0. */
uint64_t limpet_top_pace_age(uint64_t now_ns, uint64_t figures_ns, uint64_t delay_ns);

#endif
