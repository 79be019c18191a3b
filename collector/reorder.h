/* Puts records into the order of their counters (common/wire.h).
 *
 * A record is passed on when its number is its counter's next. One that comes too early is kept
 * until those before it have come: others are not held up. A number that never comes, as its thread
 * was killed or left the hook by longjmp, leaves a gap, which is closed when the caller knows that
 * nobody is about to fill it.
 *
 * Private memory of the collector; one thread. */
#ifndef LIMPET_COLLECTOR_REORDER_H
#define LIMPET_COLLECTOR_REORDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"
#include "recorder/recorder.h"

struct limpet_reorder;

/* Gets up to LIMPET_REORDER_BATCH records in order; they are its own to change, until it returns.
 */
typedef void limpet_reorder_fn(void *context, struct limpet_record *records, size_t count);
#define LIMPET_REORDER_BATCH 512u /* these stay in the nearest cache */

/* NULL: no memory. */
struct limpet_reorder *limpet_reorder_new(limpet_reorder_fn *pass_on,
					  void *context) LIMPET_MUST_CHECK;
void limpet_reorder_free(struct limpet_reorder *reorder);
/* How many records are kept at most; beyond, all gaps are closed. A million unless set. */
void limpet_reorder_set_most(struct limpet_reorder *reorder, size_t records);

/* Brings near what the next function looks at. */
void limpet_reorder_prefetch(const struct limpet_reorder *reorder, uint32_t counter);
/* A record, or without one (NULL) a number that was taken in vain. `counter` is below
 * LIMPET_ORDER_COUNTERS. */
void limpet_reorder_put(struct limpet_reorder *reorder, uint32_t counter, uint32_t number,
			const struct limpet_record *record);
/* Passes on what is ready and was not yet. */
void limpet_reorder_flush(struct limpet_reorder *reorder);

/* Before all streams are read: the gaps that nobody is about to fill. is_expected: whether some
 * thread has taken a number of that counter, and its record is not yet published. */
typedef bool limpet_reorder_expected_fn(const void *context, uint32_t counter);
void limpet_reorder_look(struct limpet_reorder *reorder, limpet_reorder_expected_fn *is_expected,
			 const void *context, uint64_t now_ns);
/* After the streams were read: closes those gaps of the look that are still there, if all streams
 * were read to where they stood at the look; and those older than LIMPET_REORDER_PATIENCE_NS. */
void limpet_reorder_close(struct limpet_reorder *reorder, bool all_read, uint64_t now_ns);
/* A thread that stays in one call that long does not hold up others any more: on a machine with far
 * more to do than processors a thread may well be kept waiting for a second. */
#define LIMPET_REORDER_PATIENCE_NS 5000000000u
/* Nobody writes any more. */
void limpet_reorder_close_all(struct limpet_reorder *reorder);

/* Records that are kept. */
size_t limpet_reorder_kept(const struct limpet_reorder *reorder);
/* Records that came when a later one of their counter had been passed on. */
uint64_t limpet_reorder_late(const struct limpet_reorder *reorder);

#endif
