#include "collector/capture/pace.h"

/* By default the agent's room for events is one and a half times what the fastest program makes
 * between two polls. */
#define POLL_NS 25000000u
#define IDLE_WAIT_NS 500000000u
/* Waking up costs 50 microseconds and more if the processor sleeps, so that an idle program is
 * polled eight times a second. If it makes more events in that time than there is room for, it
 * waits for the next poll, once, so that the first burst after an idle hour loses nothing. */
#define STILL_NS 2000000000u
#define NAP_NS 125000000u
#define NAP_WAIT_NS 1000000000u
#define NAP_MEMORY_BYTES (64u << 20)
#define NAP_PATIENCE_NS 250000000u
/* Threads also wait while that burst is read, for at most this long. */
#define WAKING_NS 250000000u
/* At other times a thread waits this long, two polls, for a sign of life. The collector gives one
 * with each round of reading: while it runs, a program that is too fast for it is slowed down, and
 * nothing is lost. A dropped free would look like a leak. The thread counts its own time on a
 * processor: on a busy machine it waits longer, as the collector does for a processor. */
#define BUSY_PATIENCE_NS 50000000u
/* How long a program waits for a limpet that was stopped or hangs: with margin for a busy machine
 * and a slow disk. */
#define WAIT_FOR_ROOM_NS 10000000000u
/* While events come, they are read whenever there are this many bytes of them, so that they are
 * still in a cache. */
#define BYTES_AT_ONCE (512u << 10)
#define LEAST_WAIT_NS 500000u
/* A pass: drains until nothing is left unread. There is load if the events of one take more than
 * this share of the agent's memory, and for this long after it. */
#define LOAD_SHARE 8u
#define LOAD_NS 1000000000u
/* If it is back within the time that it lasted, it lasts twice as long, up to this. */
#define LOAD_MOST_NS 16000000000u
#define EVENT_BYTES 24u

/* Less room for events than by default fills up sooner. */
static uint64_t nap_ns(const struct limpet_pace *pace)
{
	const double share = (double)pace->agent_memory_bytes / NAP_MEMORY_BYTES;

	if (share >= 1)
		return NAP_NS;
	return share * NAP_NS > POLL_NS ? (uint64_t)(share * NAP_NS) : POLL_NS;
}

static void enter(struct limpet_pace *pace, enum limpet_pace_state state)
{
	const bool napping = state == LIMPET_PACE_NAPPING;

	pace->state = state;
	pace->poll_ns = napping ? nap_ns(pace) : POLL_NS;
	pace->patience_ns = pace->wait_for_room          ? WAIT_FOR_ROOM_NS
			    : state != LIMPET_PACE_AWAKE ? NAP_PATIENCE_NS
			    : pace->samples              ? 0
							 : BUSY_PATIENCE_NS;
}

void limpet_pace_begin(struct limpet_pace *pace, uint64_t now_ns)
{
	pace->under_load = true; /* until the first drain */
	pace->load_lasts_ns = LOAD_NS;
	pace->events_ns = now_ns;
	pace->wait_ns = POLL_NS;
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
	/* A thread without room rings the bell, and events may be read that cannot be recorded
	 * yet. */
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

/* A collector that comes before others keeps up, and sees no load for that reason. */
static uint64_t lasts_ns(const struct limpet_pace *pace, uint64_t now_ns)
{
	if (!pace->load_ns || now_ns - pace->load_end_ns >= pace->load_lasts_ns)
		return LOAD_NS;
	return pace->load_lasts_ns < LOAD_MOST_NS / 2 ? 2 * pace->load_lasts_ns : LOAD_MOST_NS;
}

static void note_load(struct limpet_pace *pace, const struct limpet_pace_drain *drain,
		      uint64_t now_ns)
{
	const bool was_under_load = pace->under_load;

	if (drain->recorded > 0)
		pace->pass_events += (uint64_t)drain->recorded;
	if (pace->pass_events * EVENT_BYTES > pace->agent_memory_bytes / LOAD_SHARE) {
		if (!was_under_load)
			pace->load_lasts_ns = lasts_ns(pace, now_ns);
		pace->load_ns = now_ns;
	}
	if (!drain->has_more)
		pace->pass_events = 0;
	pace->under_load = pace->load_ns && now_ns - pace->load_ns < pace->load_lasts_ns;
	if (was_under_load && !pace->under_load)
		pace->load_end_ns = now_ns;
}

/* The time until about BYTES_AT_ONCE of events have come, at the rate of the last ones. */
static uint64_t busy_wait_ns(const struct limpet_pace *pace, int64_t recorded, uint64_t now_ns)
{
	double wait_ns = (double)(now_ns - pace->recorded_ns) * BYTES_AT_ONCE /
			 ((double)recorded * EVENT_BYTES);

	if (wait_ns < LEAST_WAIT_NS)
		return LEAST_WAIT_NS;
	return wait_ns < POLL_NS ? (uint64_t)wait_ns : POLL_NS;
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
