/* What the agent counts in the shared memory: lost events and calls, stacks that were cut short,
 * slots and modules that it could not follow.
 *
 * The program can overwrite the counts. One that falls, or rises faster than any process can count,
 * is no count: it keeps its last value for good, and limpet_agent_counts_are_overwritten() says so.
 * One thread. */
#ifndef LIMPET_COLLECTOR_STREAM_AGENT_COUNTS_H
#define LIMPET_COLLECTOR_STREAM_AGENT_COUNTS_H

#include <stdbool.h>
#include <stdint.h>

#include "common/err.h"
#include "common/losses.h"
#include "injector/remote/segment.h"

struct limpet_agent_counts;

/* Since the start. */
struct limpet_agent_figures {
	uint64_t dropped_events, truncated_stacks, unseen_calls;
	uint64_t late_modules, slots_unhooked;
	struct limpet_dropped dropped; /* by kind */
};

/* To be called before anybody counts. NULL: no memory. `segment` must outlive it. */
struct limpet_agent_counts *limpet_agent_counts_new(const struct limpet_segment *segment);
void limpet_agent_counts_free(struct limpet_agent_counts *counts);

/* Reads all counts; the figures are valid until this is called again. */
const struct limpet_agent_figures *limpet_agent_counts_update(struct limpet_agent_counts *counts);
/* The figures of the last update. */
const struct limpet_agent_figures *limpet_agent_counts_last(
	const struct limpet_agent_counts *counts);
/* Reads those of a thread's entry once more and sets them to 0, for its next thread. */
void limpet_agent_counts_clear(struct limpet_agent_counts *counts, uint32_t thread);
/* The capture has ended: reads for the last time what the agent counts for itself from now on. */
void limpet_agent_counts_end(struct limpet_agent_counts *counts);
bool limpet_agent_counts_are_overwritten(const struct limpet_agent_counts *counts);

#endif
