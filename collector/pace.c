#include "collector/pace.h"

#include <sched.h>

/* What the agent has by default for events holds half as much again as the fastest program makes
 * between two looks. */
#define LOOK_NS 25000000u
#define IDLE_WAIT_NS 500000000u
/* To be woken costs 50 microseconds and more where the processor slept, so that a program that is
 * still is looked at eight times a second. One that makes more in that time than there is room for
 * waits for the next look, once, so that the first burst after an idle hour loses nothing. */
#define STILL_NS 2000000000u
#define NAP_NS 125000000u
#define NAP_WAIT_NS 1000000000u
#define NAP_MEMORY_BYTES (64u << 20)
#define NAP_PATIENCE_NS 250000000u
/* Threads wait while that burst is read, too, for so long at most. */
#define WAKING_NS 250000000u
/* At other times it waits for a sign of life for so long, two looks. The collector gives one
 * with each round of reading: while it runs, it slows down what outruns it, and nothing is lost. A
 * free that is dropped would make a leak that is none. */
#define BUSY_PATIENCE_NS 50000000u
/* So long a program waits for a limpet that was stopped or hangs: with margin for a busy machine
 * and a slow disk. */
#define WAIT_FOR_ROOM_NS 10000000000u
/* While events come: as often as so many bytes of them do. What is read is to be in a cache still.
 */
#define BYTES_AT_ONCE (512u << 10)
#define LEAST_WAIT_NS 500000u
/* From this share of the agent's memory on, the events of one drain are a load, as are more than it
 * reads; it lasts for so long after. */
#define LOAD_SHARE 16u
#define LOAD_NS 1000000000u
#define EVENT_BYTES 24u

/* With less room for events than by default it is filled sooner. */
static uint64_t nap_ns(const struct limpet_pace *pace)
{
	const double share = (double)pace->agent_memory_bytes / NAP_MEMORY_BYTES;

	if (share >= 1)
		return NAP_NS;
	return share * NAP_NS > LOOK_NS ? (uint64_t)(share * NAP_NS) : LOOK_NS;
}

static void enter(struct limpet_pace *pace, enum limpet_pace_state state)
{
	const bool napping = state == LIMPET_PACE_NAPPING;

	pace->state = state;
	pace->look_ns = napping ? nap_ns(pace) : LOOK_NS;
	pace->patience_ns = pace->wait_for_room          ? WAIT_FOR_ROOM_NS
			    : state != LIMPET_PACE_AWAKE ? NAP_PATIENCE_NS
			    : pace->samples              ? 0
							 : BUSY_PATIENCE_NS;
}

void limpet_pace_begin(struct limpet_pace *pace, uint64_t now_ns)
{
	pace->under_load = true; /* until the first drain */
	pace->events_ns = now_ns;
	pace->wait_ns = LOOK_NS;
	enter(pace, LIMPET_PACE_AWAKE);
}

void limpet_pace_interrupt(struct limpet_pace *pace, uint64_t now_ns)
{
	pace->events_ns = now_ns;
	if (pace->wait_ns > IDLE_WAIT_NS)
		pace->wait_ns = IDLE_WAIT_NS;
	enter(pace, LIMPET_PACE_AWAKE);
}

static void note_state(struct limpet_pace *pace, const struct limpet_pace_drain *drain,
		       uint64_t now_ns)
{
	/* A thread that finds no room calls, and events may be read that cannot be recorded yet. */
	const bool events = drain->recorded > 0 || drain->has_more || drain->called;

	if (events) {
		pace->events_ns = now_ns;
		if (pace->state == LIMPET_PACE_NAPPING) {
			pace->waking_ns = now_ns;
			enter(pace, LIMPET_PACE_WAKING);
		}
	}
	if (pace->state == LIMPET_PACE_WAKING &&
	    (!drain->has_more || now_ns - pace->waking_ns >= WAKING_NS))
		enter(pace, LIMPET_PACE_AWAKE);
	if (pace->state == LIMPET_PACE_AWAKE && pace->may_nap &&
	    now_ns - pace->events_ns >= STILL_NS)
		enter(pace, LIMPET_PACE_NAPPING);
}

static void note_load(struct limpet_pace *pace, const struct limpet_pace_drain *drain,
		      uint64_t now_ns)
{
	if (drain->has_more ||
	    (drain->recorded > 0 &&
	     (uint64_t)drain->recorded * EVENT_BYTES > pace->agent_memory_bytes / LOAD_SHARE))
		pace->load_ns = now_ns;
	pace->under_load = pace->load_ns && now_ns - pace->load_ns < LOAD_NS;
}

/* Until about so many bytes of events as are wanted have come, at the rate of the last ones. */
static uint64_t busy_wait_ns(const struct limpet_pace *pace, int64_t recorded, uint64_t now_ns)
{
	double wait_ns = (double)(now_ns - pace->recorded_ns) * BYTES_AT_ONCE /
			 ((double)recorded * EVENT_BYTES);

	if (wait_ns < LEAST_WAIT_NS)
		return LEAST_WAIT_NS;
	return wait_ns < LOOK_NS ? (uint64_t)wait_ns : LOOK_NS;
}

void limpet_pace_note(struct limpet_pace *pace, const struct limpet_pace_drain *drain,
		      uint64_t now_ns)
{
	note_state(pace, drain, now_ns);
	note_load(pace, drain, now_ns);
	pace->wait_ns = pace->state == LIMPET_PACE_NAPPING ? NAP_WAIT_NS : IDLE_WAIT_NS;
	if (drain->recorded > 0) {
		pace->wait_ns = busy_wait_ns(pace, drain->recorded, now_ns);
		pace->recorded_ns = now_ns;
	}
}

void limpet_pace_schedule(const struct limpet_pace *pace)
{
	static const struct sched_param none;
	const int wanted = pace->under_load ? SCHED_OTHER : SCHED_BATCH;
	const int policy = sched_getscheduler(0) & ~SCHED_RESET_ON_FORK;

	if (policy != wanted && (policy == SCHED_OTHER || policy == SCHED_BATCH))
		sched_setscheduler(0, wanted, &none);
}
