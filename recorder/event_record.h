/* An event on its way from the agent's memory through the reorder into the accounting. */
#ifndef LIMPET_RECORDER_EVENT_RECORD_H
#define LIMPET_RECORDER_EVENT_RECORD_H

#include <stdint.h>

struct limpet_record {
	uint64_t time_ns; /* since the capture's start */
	uint64_t address;
	uint64_t size;   /* requested; of a FREE: usable size of the block, 0 unknown */
	uint32_t node;   /* stack: the agent's number, in the accounting the trace's; 0: unknown */
	uint32_t thread; /* tid */
	uint32_t time;   /* the collector's own: as the agent stamped it */
	uint8_t kind;    /* enum limpet_event_type without its flags */
	uint8_t sampled; /* an ALLOC that was sampled in an overload: represents others, too */
	uint8_t temporary; /* a FREE of the block that its thread allocated last */
	uint8_t if_reused; /* the collector's own: LIMPET_EVENT_IF_REUSED */
};

#endif
