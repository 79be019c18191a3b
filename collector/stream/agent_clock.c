#include "collector/stream/agent_clock.h"

#include "common/clock.h"

void limpet_agent_clock_init(struct limpet_agent_clock *clock, struct limpet_shm *shm)
{
	*clock = (struct limpet_agent_clock){.shm = shm};
}

/* After the end, the agent stamps records with the unit after the last one. A hook reads it after
 * it was called: so no record of a block is stamped with less than one that came before. */
static void publish_time(struct limpet_agent_clock *clock, uint64_t least)
{
	const uint64_t units =
		limpet_agent_clock_time_ns(clock) / LIMPET_TIME_UNIT_NS + (clock->end_ns != 0);

	clock->units = units > least ? units : least;
	__atomic_store_n(&clock->shm->time, (uint32_t)clock->units, __ATOMIC_RELAXED);
}

void limpet_agent_clock_begin(struct limpet_agent_clock *clock)
{
	clock->begin_ns = limpet_monotonic_ns();
	limpet_agent_clock_publish(clock);
}

void limpet_agent_clock_end(struct limpet_agent_clock *clock)
{
	clock->end_ns = limpet_monotonic_ns();
	publish_time(clock, clock->units + 1);
}

void limpet_agent_clock_publish(struct limpet_agent_clock *clock)
{
	publish_time(clock, clock->units);
}

uint64_t limpet_agent_clock_publish_ahead(struct limpet_agent_clock *clock)
{
	limpet_agent_clock_publish(clock);
	publish_time(clock, clock->units + 1);
	return clock->units * LIMPET_TIME_UNIT_NS;
}

uint64_t limpet_agent_clock_time_ns(const struct limpet_agent_clock *clock)
{
	return (clock->end_ns ?: limpet_monotonic_ns()) - clock->begin_ns;
}

/* A record's time is at most the last one written for the agent, and is not so old that it has
 * wrapped around. */
uint64_t limpet_agent_clock_time_of(const struct limpet_agent_clock *clock, uint32_t stamp)
{
	const uint64_t age = (clock->units - stamp) & LIMPET_TIME_MASK;

	return age < clock->units ? (clock->units - age) * LIMPET_TIME_UNIT_NS : 0;
}
