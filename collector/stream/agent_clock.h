/* The capture's clock: tells the agent, which reads none itself, the time by which it stamps its
 * records, and turns these stamps back into times.
 *
 * A stamp is in units of LIMPET_TIME_UNIT_NS, the lower bits of them (LIMPET_TIME_MASK); times are
 * nanoseconds since the beginning. The collector owns the clock; one thread. */
#ifndef LIMPET_COLLECTOR_STREAM_AGENT_CLOCK_H
#define LIMPET_COLLECTOR_STREAM_AGENT_CLOCK_H

#include <stdbool.h>
#include <stdint.h>

#include "common/wire.h"

/* Public only for the inline functions below, which are called for each event. */
struct limpet_agent_clock {
	struct limpet_shm *shm;
	uint64_t begin_ns, end_ns; /* end_ns: 0 while the capture runs */
	uint64_t units;            /* of LIMPET_TIME_UNIT_NS, as last written for the agent */
};

/* `shm` must outlive it. */
void limpet_agent_clock_init(struct limpet_agent_clock *clock, struct limpet_shm *shm);
/* Time 0 is now. Events before this have it, too: it is the initial value in the shared memory. */
void limpet_agent_clock_begin(struct limpet_agent_clock *clock);
/* The capture ends now, and so does the time. */
void limpet_agent_clock_end(struct limpet_agent_clock *clock);
/* Tells the agent the time. */
void limpet_agent_clock_publish(struct limpet_agent_clock *clock);
/* Tells it a time that no record has yet, a little ahead. Returns it. */
uint64_t limpet_agent_clock_publish_ahead(struct limpet_agent_clock *clock);
/* The time, at most that of the end. */
uint64_t limpet_agent_clock_time_ns(const struct limpet_agent_clock *clock);
/* The time of a stamp, at most the last one that the agent was told. */
uint64_t limpet_agent_clock_time_of(const struct limpet_agent_clock *clock, uint32_t stamp);

static inline bool limpet_agent_clock_has_ended(const struct limpet_agent_clock *clock)
{
	return clock->end_ns;
}

static inline bool limpet_agent_clock_is_after_end(const struct limpet_agent_clock *clock,
						   uint32_t stamp)
{
	return clock->end_ns && stamp == (clock->units & LIMPET_TIME_MASK);
}

#endif
