/* An event on its way from the agent's memory through the merge into the accounting. */
#ifndef LIMPET_RECORDER_EVENT_RECORD_H
#define LIMPET_RECORDER_EVENT_RECORD_H

#include <stdint.h>

struct limpet_record {
	uint64_t time_ns; /* since the capture's start; in the merge ticks of the agent's clock */
	uint64_t address;
	uint64_t size; /* requested; of a FREE: usable size of the block, 0 unknown */
	uint32_t node; /* stack, by the agent's number, in the accounting by the trace's; 0: unknown
			*/
	uint32_t thread;  /* tid */
	uint32_t kind;    /* enum limpet_event_type without its flags */
	uint32_t sampled; /* an ALLOC in an overload: it stands for more than itself */
};

#endif
