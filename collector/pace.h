/* The pace of a capture: when the collector looks again, for how long a thread that finds no room
 * for its event waits for it, and as what kind of process it runs.
 *
 * Decides by what it is told of each drain; reads no clock. One thread. Times are monotonic. */
#ifndef LIMPET_COLLECTOR_PACE_H
#define LIMPET_COLLECTOR_PACE_H

#include <stdbool.h>
#include <stdint.h>

enum limpet_pace_state {
	LIMPET_PACE_AWAKE,
	LIMPET_PACE_NAPPING, /* no event for two seconds: looks are rare */
	LIMPET_PACE_WAKING,  /* the burst that ended the nap is being read */
};

struct limpet_pace {
	uint64_t agent_memory_bytes; /* for events */
	bool wait_for_room;          /* threads always wait, for ten seconds at most */
	bool may_nap;
	bool samples; /* an overload is sampled: nobody waits */
	enum limpet_pace_state state;
	bool under_load;
	uint64_t wait_ns;     /* until the next drain, if nobody calls and all was read */
	uint64_t look_ns;     /* between two looks at whether somebody has called */
	uint64_t patience_ns; /* of a thread that finds no room */
	uint64_t events_ns;   /* when the last drain found any */
	/* private */
	uint64_t waking_ns, recorded_ns, load_ns;
};

struct limpet_pace_drain {
	int64_t recorded; /* events; negative: an error */
	bool has_more,
		called; /* as limpet_collector_has_more() and limpet_collector_was_called() */
};

/* The first four members are set, all others 0. */
void limpet_pace_begin(struct limpet_pace *pace, uint64_t now_ns);
/* After each drain. */
void limpet_pace_note(struct limpet_pace *pace, const struct limpet_pace_drain *drain,
		      uint64_t now_ns);
/* What takes long is about to be done: nobody is to wait for it, and there is no nap for a while.
 */
void limpet_pace_interrupt(struct limpet_pace *pace, uint64_t now_ns);
/* The calling thread is scheduled as it should be: under load as an ordinary one, else as one of a
 * batch, which takes its share of a processor but takes it from nobody who runs when it wakes: the
 * target was interrupted a quarter as often, and was as fast. Leaves alone what the user chose, and
 * failures change nothing. */
void limpet_pace_schedule(const struct limpet_pace *pace);

#endif
