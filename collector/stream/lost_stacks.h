/* Why the stack of an event is unknown. Each part of the collector counts the events of which it
 * finds this out. */
#ifndef LIMPET_COLLECTOR_STREAM_LOST_STACKS_H
#define LIMPET_COLLECTOR_STREAM_LOST_STACKS_H

enum limpet_lost_stacks {
	LIMPET_LOST_BY_AGENT,      /* it had no room to describe it, or no number left */
	LIMPET_LOST_NO_ROOM,       /* the collector, or the trace, had no room for it */
	LIMPET_LOST_NOT_DESCRIBED, /* the program overwrote the description */
	LIMPET_LOST_STACKS
};

#endif
