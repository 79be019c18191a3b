/* Puts records into the order of their counters (common/wire.h).
 *
 * A record is passed on if its number is its counter's next one. One that comes too early is kept
 * until those before it have come; records of other counters are not delayed. A number that never
 * comes, since its thread was killed or left the hook by longjmp, leaves a gap, which is closed
 * when the caller knows that no thread is about to fill it.
 *
 * Private memory of the collector; one thread. */
#ifndef LIMPET_COLLECTOR_STREAM_REORDER_H
#define LIMPET_COLLECTOR_STREAM_REORDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "collector/record/recorder.h"
#include "collector/stream/event_describer.h"
#include "common/err.h"

struct limpet_reorder;

/* `describer` gets the records in order, up to LIMPET_REORDER_BATCH at a time, and must outlive the
 * reorder. NULL: out of memory. */
struct limpet_reorder *limpet_reorder_new(struct limpet_event_describer *describer)
	LIMPET_MUST_CHECK;
#define LIMPET_REORDER_BATCH 512u /* these stay in the L1 cache */
void limpet_reorder_free(struct limpet_reorder *reorder);
/* Sets how many records are kept at most; beyond that, all gaps are closed. A million unless set.
 */
void limpet_reorder_set_most(struct limpet_reorder *reorder, size_t records);

/* Prefetches what the next function reads. */
void limpet_reorder_prefetch(const struct limpet_reorder *reorder, uint32_t counter);
/* Adds records. One of kind LIMPET_EVENT_VOID is only a number that was taken for nothing.
 * `counter` is below LIMPET_ORDER_COUNTERS. */
struct limpet_numbered {
	struct limpet_record record;
	uint32_t counter, number;
};
void limpet_reorder_add(struct limpet_reorder *reorder, const struct limpet_numbered *list,
			size_t count);
/* Passes on what is ready and was not passed on yet. */
void limpet_reorder_flush(struct limpet_reorder *reorder);

/* To be called before all streams are read: finds the gaps that no thread is about to fill.
 * `expected`: a bitmap of the counters of which some thread has taken a number, and may not yet
 * have published its record. */
void limpet_reorder_check_gaps(struct limpet_reorder *reorder, const uint64_t *expected,
			       uint64_t now_ns);
/* To be called after the streams were read: closes those of the gaps that still exist, if all
 * streams were read up to where they were at the call of limpet_reorder_check_gaps(); and those
 * older than LIMPET_REORDER_PATIENCE_NS. */
void limpet_reorder_close(struct limpet_reorder *reorder, bool all_read, uint64_t now_ns);
/* A thread that stays in one call for this long no longer delays others: on an overloaded machine a
 * thread may well wait for a processor for a second. */
#define LIMPET_REORDER_PATIENCE_NS 5000000000u
/* Call when no thread writes any more: closes all gaps. */
void limpet_reorder_close_all(struct limpet_reorder *reorder);

/* A pass over all streams could end. Whether it ends: not if a record of the pass before is still
 * kept. */
bool limpet_reorder_end_pass(struct limpet_reorder *reorder);

/* Number of records that are kept. */
size_t limpet_reorder_kept(const struct limpet_reorder *reorder);
/* Number of records that came after a later one of their counter had been passed on. */
uint64_t limpet_reorder_late(const struct limpet_reorder *reorder);

#endif
