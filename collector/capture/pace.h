/* The pace of a capture: when the collector looks again, how long a thread waits if there is no
 * room for its event, and whether it is urgent that events are read.
 *
 * Decides from the result of each drain; reads no clock. One thread. Times are monotonic. */
#ifndef LIMPET_COLLECTOR_CAPTURE_PACE_H
#define LIMPET_COLLECTOR_CAPTURE_PACE_H

#include <stdbool.h>
#include <stdint.h>

enum limpet_pace_state {
	LIMPET_PACE_AWAKE,
	LIMPET_PACE_NAPPING, /* no event for two seconds: polls are rare */
	LIMPET_PACE_WAKING,  /* the collector reads the burst that ended the nap */
};

struct limpet_pace {
	uint64_t agent_memory_bytes; /* for events */
	bool wait_for_room;          /* threads always wait, for at most ten seconds */
	bool may_nap;
	bool samples; /* in an overload events are sampled: no thread waits */
	enum limpet_pace_state state;
	bool under_load;
	uint64_t wait_ns;     /* until the next drain, if the agent does not ring and everything was
				 read */
	uint64_t poll_ns;     /* between two checks whether the agent has rung */
	uint64_t patience_ns; /* how long a thread that finds no room waits */
	uint64_t events_ns;   /* when the last drain found any event */
	/* private */
	uint64_t waking_ns, recorded_ns;
	uint64_t load_ns, load_end_ns, load_lasts_ns; /* last seen, over, lasts after that */
	uint64_t pass_events; /* of the drains since nothing was left unread */
};

struct limpet_pace_drain {
	int64_t recorded; /* events; negative: an error */
	bool has_more,
		called; /* from limpet_collector_has_more() and limpet_collector_was_called() */
};

/* The first four members must be set, all others 0. */
void limpet_pace_begin(struct limpet_pace *pace, uint64_t now_ns);
/* To be called after each drain. */
void limpet_pace_note(struct limpet_pace *pace, const struct limpet_pace_drain *drain,
		      uint64_t now_ns);
/* Something that takes long will be done: no thread shall wait for the collector for as long as in
 * a nap, and there is none for a while. */
void limpet_pace_interrupt(struct limpet_pace *pace, uint64_t now_ns);

#endif
