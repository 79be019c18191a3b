/* An event on its way from the agent's memory through the reorder into the accounting. */
#ifndef LIMPET_COLLECTOR_RECORD_EVENT_RECORD_H
#define LIMPET_COLLECTOR_RECORD_EVENT_RECORD_H

#include <stdbool.h>
#include <stdint.h>

struct limpet_record {
	uint64_t time_ns; /* since the capture's start */
	uint64_t address;
	uint64_t size;    /* requested; of a FREE: usable size of the block, 0 unknown */
	uint32_t node;    /* stack: the agent's number, in the accounting the trace's; 0: unknown */
	uint32_t thread;  /* tid */
	uint32_t time;    /* the collector's own: as the agent stamped it */
	uint32_t place;   /* in the order in which the collector read the streams */
	uint8_t kind;     /* enum limpet_event_type without its flags */
	bool sampled : 1; /* an ALLOC that was sampled in an overload: represents others, too */
	bool freed : 1;   /* an ALLOC, and the FREE of its block: the thread's next event */
	bool temporary : 1; /* a FREE, by no realloc, of the block that its thread allocated last */
	bool realloc : 1;   /* an ALLOC or FREE: half of a realloc that returned a block */
	bool if_reused : 1; /* the collector's own: LIMPET_EVENT_IF_REUSED */
};

#endif
