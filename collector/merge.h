/* Puts the streams of many threads into one order of time.
 *
 * Each stream is in order by itself (nearly: a signal handler's records may lie a little out of
 * it). Private memory of the collector; one thread. */
#ifndef LIMPET_COLLECTOR_MERGE_H
#define LIMPET_COLLECTOR_MERGE_H

#include <stddef.h>
#include <stdint.h>

#include "common/err.h"
#include "recorder/recorder.h"

struct limpet_merge;

int limpet_merge_new(uint32_t streams, struct limpet_merge **ret) LIMPET_MUST_CHECK;
void limpet_merge_free(struct limpet_merge *merge);
/* Room for `count` records behind those of a stream, to be filled in place, time_ns in any
 * monotonic unit; valid until the next call. NULL: none. */
struct limpet_record *limpet_merge_want(struct limpet_merge *merge, uint32_t stream, size_t count);
/* The first `count` of them are there. */
void limpet_merge_added(struct limpet_merge *merge, uint32_t stream, size_t count);
#define LIMPET_MERGE_BATCH 512u /* these stay in the nearest cache */
/* Takes up to `max` records, and not more than a batch, whose time is at most `until`, in order;
 * answers how many. They are the caller's to change until the next call. */
size_t limpet_merge_take(struct limpet_merge *merge, uint64_t until, size_t max,
			 struct limpet_record **ret);
/* Records that wait in all streams together. */
size_t limpet_merge_waiting_all(const struct limpet_merge *merge);
/* Records that wait in a stream. */
size_t limpet_merge_waiting(const struct limpet_merge *merge, uint32_t stream);

#endif
