/* A made-up program, captured by the recorder, and what it really did, kept by plain means: an
 * array of blocks and a sum a site. Tests of the trace compare the two. */
#ifndef LIMPET_TEST_TRACE_CAPTURE_H
#define LIMPET_TEST_TRACE_CAPTURE_H

#include <stdbool.h>
#include <stdint.h>

#include "collector/record/recorder.h"
#include "common/trace_format.h"

#define CAPTURE_CONTAINER "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define CAPTURE_SITES 40u
#define CAPTURE_BLOCKS 3000u
#define CAPTURE_PAGES 64u
#define CAPTURE_THREADS 5u

struct capture_site {
	uint64_t allocations, allocated_bytes, frees, freed_bytes, temporary, reallocations;
	uint64_t live, live_bytes, peak, peak_bytes;
};

struct capture_block {
	bool live;
	uint64_t size, time_ns;
	uint32_t site, thread;
};

struct capture {
	struct limpet_recorder *recorder;
	uint64_t random;
	uint64_t time_ns;
	uint64_t totals[LIMPET_TOTAL_COUNT];
	uint64_t live_bytes, peak_bytes, peak_ns;
	struct capture_site sites[CAPTURE_SITES];
	uint64_t size_counts[LIMPET_TRACE_SIZE_BUCKETS];
	struct capture_block blocks[CAPTURE_BLOCKS];
	int64_t last_block[CAPTURE_THREADS]; /* of each thread's last allocation; < 0 none */
	uint32_t page_site[CAPTURE_PAGES];   /* + 1; 0: not mapped by us */
	uint64_t ticks;
	uint64_t slower; /* so many times as much time goes by; 0: 1 */
};

/* Opens the trace at `path`. Modules and the stack nodes are added at once. */
void capture_begin(struct capture *capture, const char *path, uint64_t memory_bytes, uint64_t seed);
/* Without single events, or bounded. */
void capture_begin_kept(struct capture *capture, const char *path, uint64_t seed, bool compact,
			uint64_t max_bytes);
/* Into a sink, which lives longer. */
struct limpet_trace_sink;
void capture_begin_sink(struct capture *capture, struct limpet_trace_sink *sink, uint64_t seed,
			bool compact);
/* The agent's number of a site's stack, and the trace's. */
uint32_t capture_agent_node(uint32_t site);
uint32_t capture_trace_node(uint32_t site);
/* So many events of all kinds; a tick now and then if `tick_events` is not 0. Answers the first
 * error of the recorder. */
int capture_run(struct capture *capture, uint64_t events, uint64_t tick_events);
int capture_tick(struct capture *capture);
int capture_finish(struct capture *capture, enum limpet_end end, bool complete);

#endif
