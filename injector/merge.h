/* Puts the streams of many threads into one order of time.
 *
 * Each stream is in order by itself (nearly: a signal handler's records may lie a little out of
 * it). Private memory of the collector; one thread. */
#ifndef LIMPET_INJECTOR_MERGE_H
#define LIMPET_INJECTOR_MERGE_H

#include <stddef.h>
#include <stdint.h>

#include "injector/recorder.h"

struct limpet_merge;

int limpet_merge_new(uint32_t streams, struct limpet_merge **ret) LIMPET_MUST_CHECK;
void limpet_merge_free(struct limpet_merge *merge);
/* Room for `count` records behind those of a stream, to be filled in place, time_ns in any
 * monotonic unit; valid until the next call. NULL: none. */
struct limpet_record *limpet_merge_want(struct limpet_merge *merge, uint32_t stream, size_t count);
/* The first `count` of them are there. */
void limpet_merge_added(struct limpet_merge *merge, uint32_t stream, size_t count);
/* Takes up to `max` records whose time is at most `until`, in order; answers how many. */
size_t limpet_merge_take(struct limpet_merge *merge, uint64_t until, struct limpet_record *ret,
			 size_t max);
/* Records that wait in all streams together. */
size_t limpet_merge_waiting_all(const struct limpet_merge *merge);
/* Records that wait in a stream. */
size_t limpet_merge_waiting(const struct limpet_merge *merge, uint32_t stream);

#endif
